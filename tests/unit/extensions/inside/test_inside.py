"""Addresses inside addresses, and names of one thing: what the table reads, and what a policy does with it."""

import json
import time
from base64 import b64encode
from collections.abc import Mapping
from datetime import UTC, datetime
from itertools import product
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hushlist.core.compile.policy_compiler import compile_policy
from hushlist.core.decide.engine import Engine
from hushlist.core.decide.trace import trace
from hushlist.core.match.expressions import full_hash
from hushlist.core.match.rule import Action
from hushlist.core.policy.groups import NOBODY
from hushlist.core.policy.policy_file import Policy
from hushlist.core.url.request import Request, canonical_forms, request_of
from hushlist.extensions.inside.forms import Form
from hushlist.extensions.inside.inside import InnerAddresses, address, shipped_rows
from hushlist.tools.squid.helper import AccessList, SquidHelper
from support.policies import read_whole, write_policy
from unit.hostile import octets
from unit.rows import each_row

#: the address that stands in each carrier below
IT = "https://blocked.example/x"
BASE64 = "aHR0cHM6Ly9ibG9ja2VkLmV4YW1wbGUveA"
CARRIERS = [
    "https://blocked-example.translate.goog/x?_x_tr_sl=en&_x_tr_tl=de&_x_tr_hl=en",
    "https://example.translate.goog/x?_x_tr_sl=en&_x_tr_hp=blocked-",
    "https://1-blocked-example.translate.goog/x?_x_tr_enc=1&_x_tr_sl=en",
    "https://translate.google.com/translate?sl=auto&tl=de&u=https%3A%2F%2Fblocked.example%2Fx",
    "https://translate.google.co.uk/?sl=auto&u=https://blocked.example/x&op=websites",
    "https://translate.google.de/translate?u=blocked.example/x",
    "https://translate.googleusercontent.com/translate_c?depth=1&u=https://blocked.example/x&usg=A",
    "https://www.translatetheweb.com/?from=de&to=en&a=https://blocked.example/x",
    "https://www.microsofttranslator.com/bv.aspx?from=&to=en&a=https%3A%2F%2Fblocked.example%2Fx",
    "https://translate.yandex.com/translate?url=https%3A%2F%2Fblocked.example%2Fx&lang=en-de",
    "https://translated.turbopages.org/proxy_u/en-ru.ru.1a2b/https/blocked.example/x",
    "https://papago.naver.net/website?locale=en&source=auto&target=ko&url=https%3A%2F%2Fblocked.example%2Fx",
    "https://fanyi.baidu.com/transpage?query=https%3A%2F%2Fblocked.example%2Fx&from=en&to=zh",
    "https://web.archive.org/web/20200102030405/https://blocked.example/x",
    "https://web.archive.org/web/2020if_/blocked.example/x",
    "https://web.archive.org/web/*/https://blocked.example/x",
    "https://web.archive.org/web/https://blocked.example/x",
    "https://web.archive.org/save/https://blocked.example/x",
    "https://archive.ph/newest/https://blocked.example/x",
    "https://archive.is/https://blocked.example/x",
    "https://archive.today/20200102/https://blocked.example/x",
    "https://archive.li/submit/?url=https%3A%2F%2Fblocked.example%2Fx",
    "https://ghostarchive.org/search?term=https://blocked.example/x",
    "https://webcache.googleusercontent.com/search?q=cache:https://blocked.example/x",
    "https://webcache.googleusercontent.com/search?q=cache:AbCdEfGhIjKl:https://blocked.example/x",
    "https://www.google.com/search?q=cache:blocked.example/x",
    "https://www.google.com/search?q=cache:AbCdEfGhIjKl:blocked.example/x",
    "https://cc.bingj.com/cache.aspx?q=blocked.example/x&d=4882987786962439&w=tL",
    "https://yandexwebcache.net/yandbtm?fmode=inject&url=https%3A%2F%2Fblocked.example%2Fx&l10n=en",
    "https://blocked-example.cdn.ampproject.org/x",
    "https://www-blocked-example.cdn.ampproject.org/c/s/blocked.example/x",
    "https://cdn.ampproject.org/c/blocked.example/x",
    "https://cdn.ampproject.org/ii/w820/s/blocked.example/x",
    "https://cdn.ampproject.org/ii/w820/blocked.example/x",
    "https://www.google.com/amp/s/blocked.example/x",
    "https://www.google.co.uk/amp/blocked.example/x",
    "https://blocked-example.bing-amp.com/x",
    "https://www-blocked-example.bing-amp.com/c/s/blocked.example/x",
    "https://www.bing.com/amp/s/blocked.example/x",
    "https://blocked-example.amp.cloudflare.com/x",
    "https://www-blocked-example.amp.cloudflare.com/c/s/blocked.example/x",
    "https://duckduckgo.com/l/?uddg=https%3A%2F%2Fblocked.example%2Fx&rut=1",
    "https://external-content.duckduckgo.com/iu/?u=https%3A%2F%2Fblocked.example%2Fx&f=1",
    "https://www.google.com/url?sa=t&url=https%3A%2F%2Fblocked.example%2Fx&usg=A",
    "https://www.google.de/url?q=https://blocked.example/x&sa=U",
    "https://www.google.com/imgres?imgurl=https%3A%2F%2Fblocked.example%2Fx&tbnid=a",
    "https://googleweblight.com/i?u=https://blocked.example/x",
    "https://images1-focus-opensocial.googleusercontent.com/gadgets/proxy?container=focus&url=https://blocked.example/x",
    "https://docs.google.com/viewer?url=https%3A%2F%2Fblocked.example%2Fx&embedded=true",
    "https://docs.google.com/gview?url=https://blocked.example/x",
    "https://docs.google.com/viewerng/viewer?url=https://blocked.example/x&hl=en",
    f"https://www.bing.com/ck/a?!&&p=1&u=a1{BASE64}&ntb=1",
    "https://www.bing.com/alink/link?url=https%3A%2F%2Fblocked.example%2Fx&source=serp-rr",
    "https://www.bing.com/images/search?view=detailV2&mediaurl=https%3A%2F%2Fblocked.example%2Fx",
    "https://r.search.yahoo.com/_ylt=A;_ylu=Y/RV=2/RE=1/RO=10/RU=https%3a%2f%2fblocked.example%2fx",
    "https://l.facebook.com/l.php?u=https%3A%2F%2Fblocked.example%2Fx&h=AT0",
    "https://www.facebook.com/flx/warn/?u=https%3A%2F%2Fblocked.example%2Fx",
    "https://external-fra3-1.xx.fbcdn.net/safe_image.php?d=A&url=https%3A%2F%2Fblocked.example%2Fx",
    "https://l.instagram.com/?u=https%3A%2F%2Fblocked.example%2Fx&e=AT0",
    "https://www.youtube.com/redirect?event=video_description&q=https%3A%2F%2Fblocked.example%2Fx&v=a",
    "https://out.reddit.com/t3_a?url=https%3A%2F%2Fblocked.example%2Fx&token=A",
    "https://slack-redir.net/link?url=https%3A%2F%2Fblocked.example%2Fx&v=3",
    "https://slack-imgs.com/?c=1&o1=ro&url=https%3A%2F%2Fblocked.example%2Fx",
    "https://www.linkedin.com/redir/redirect?url=https%3A%2F%2Fblocked%2Eexample%2Fx&urlhash=a",
    "https://www.linkedin.com/safety/go?url=https%3A%2F%2Fblocked.example%2Fx",
    "https://vk.com/away.php?to=https%3A%2F%2Fblocked.example%2Fx",
    "https://steamcommunity.com/linkfilter/?u=https%3A%2F%2Fblocked.example%2Fx",
    "https://nam01.safelinks.protection.outlook.com/?url=https%3A%2F%2Fblocked.example%2Fx&data=0",
    "https://urldefense.com/v3/__https://blocked.example/x",
    "https://urldefense.proofpoint.com/v2/url?u=https-3A__blocked.example_x&d=A&e=",
    "https://images-ext-1.discordapp.net/external/a1B-c2/https/blocked.example/x",
    "https://i0.wp.com/blocked.example/x",
    "https://i3.wp.com/blocked.example/x",
    "https://s0.wordpress.com/mshots/v1/https%3A%2F%2Fblocked.example%2Fx",
    "https://images.weserv.nl/?url=blocked.example/x&w=300",
    "https://wsrv.nl/?w=300&url=https://blocked.example/x",
    "https://res.cloudinary.com/demo/image/fetch/https://blocked.example/x",
    "https://image.thum.io/get/https://blocked.example/x",
    "https://api.microlink.io/?url=https%3A%2F%2Fblocked.example%2Fx&screenshot=true",
    f"https://camo.githubusercontent.com/0a1b/{IT.encode().hex()}",
    "https://htmlpreview.github.io/?https://blocked.example/x",
    "https://ghproxy.com/https://blocked.example/x",
    "https://r.jina.ai/https://blocked.example/x",
    "https://r.jina.ai/?url=https://blocked.example/x",
    "https://12ft.io/https://blocked.example/x",
    "https://12ft.io/proxy?q=https%3A%2F%2Fblocked.example%2Fx",
    "https://freedium.cfd/https://blocked.example/x",
    "https://www.removepaywall.com/search?url=https://blocked.example/x",
    "https://api.allorigins.win/raw?url=https%3A%2F%2Fblocked.example%2Fx",
    "https://corsproxy.io/?https%3A%2F%2Fblocked.example%2Fx",
    "https://corsproxy.io/?url=https%3A%2F%2Fblocked.example%2Fx",
    "https://cors-anywhere.herokuapp.com/blocked.example/x",
    "https://api.codetabs.com/v1/proxy?quest=blocked.example/x",
    "https://thingproxy.freeboard.io/fetch/https://blocked.example/x",
    "https://nl.hideproxy.me/go.php?u=https%3A%2F%2Fblocked.example%2Fx&b=4",
    f"https://eu1.croxyproxy.com/?__cpo={BASE64}",
    "https://www.croxyproxy.com/requests?url=https%3A%2F%2Fblocked.example%2Fx",
    "https://validator.w3.org/nu/?doc=https%3A%2F%2Fblocked.example%2Fx&showsource=yes",
    "https://ipfs.io/ipns/blocked.example/x",
    "https://blocked-example.ipns.dweb.link/x",
    "https://api.qrserver.com/v1/create-qr-code/?size=150x150&data=https%3A%2F%2Fblocked.example%2Fx",
    "https://quickchart.io/qr?text=https%3A%2F%2Fblocked.example%2Fx",
    "https://chart.googleapis.com/chart?cht=qr&chl=https%3A%2F%2Fblocked.example%2Fx",
    "https://tinyurl.com/api-create.php?url=https://blocked.example/x",
    "https://is.gd/create.php?format=simple&url=blocked.example/x",
    "https://checkshorturl.com/expand.php?u=https%3A%2F%2Fblocked.example%2Fx",
]
#: the name of a thing -> its URLs
NAMES = {
    "youtube.com/video/dQw4w9WgXcQ": [
        "https://www.youtube.com/watch?v=dQw4w9WgXcQ",
        "https://www.youtube.com/watch?list=PL1&v=dQw4w9WgXcQ&t=1",
        "https://m.youtube.com/watch?v=dQw4w9WgXcQ",
        "https://music.youtube.com/watch?v=dQw4w9WgXcQ",
        "https://youtu.be/dQw4w9WgXcQ?si=a",
        "https://www.youtube.com/embed/dQw4w9WgXcQ?autoplay=1",
        "https://www.youtube-nocookie.com/embed/dQw4w9WgXcQ",
        "https://youtube.com/shorts/dQw4w9WgXcQ",
        "https://www.youtube.com/live/dQw4w9WgXcQ",
        "https://www.youtube.com/v/dQw4w9WgXcQ",
        "https://i.ytimg.com/vi/dQw4w9WgXcQ/hqdefault.jpg",
        "https://i3.ytimg.com/vi_webp/dQw4w9WgXcQ/0.webp",
        "https://img.youtube.com/vi/dQw4w9WgXcQ/0.jpg",
    ],
    "vimeo.com/video/76979871": [
        "https://vimeo.com/76979871",
        "https://vimeo.com/76979871/8272103f6e",
        "https://player.vimeo.com/video/76979871?h=8",
        "https://vimeo.com/channels/staffpicks/76979871",
        "https://vimeo.com/groups/name/videos/76979871",
    ],
    "dailymotion.com/video/x8abc": [
        "https://www.dailymotion.com/video/x8abc",
        "https://www.dailymotion.com/embed/video/x8abc",
        "https://www.dailymotion.com/thumbnail/video/x8abc",
        "https://geo.dailymotion.com/player/x1.html?video=x8abc",
        "https://dai.ly/x8abc",
    ],
    "tiktok.com/video/6718335390845095173": [
        "https://www.tiktok.com/@scout2015/video/6718335390845095173",
        "https://www.tiktok.com/@scout2015/photo/6718335390845095173",
        "https://www.tiktok.com/embed/6718335390845095173",
        "https://www.tiktok.com/embed/v2/6718335390845095173",
        "https://www.tiktok.com/player/v1/6718335390845095173",
        "https://m.tiktok.com/v/6718335390845095173.html",
    ],
    "instagram.com/p/CUbHfhpswxt": [
        "https://www.instagram.com/p/CUbHfhpswxt/",
        "https://www.instagram.com/p/CUbHfhpswxt/embed/captioned/",
        "https://www.instagram.com/reel/CUbHfhpswxt/",
        "https://www.instagram.com/reels/CUbHfhpswxt/",
        "https://www.instagram.com/tv/CUbHfhpswxt/",
        "https://www.instagram.com/name/p/CUbHfhpswxt/",
        "https://www.instagram.com/name/reel/CUbHfhpswxt/",
    ],
    "x.com/status/20": [
        "https://x.com/jack/status/20",
        "https://twitter.com/jack/status/20?s=20",
        "https://mobile.twitter.com/jack/status/20/photo/1",
        "https://x.com/i/web/status/20",
        "https://platform.twitter.com/embed/Tweet.html?id=20",
    ],
    "reddit.com/comments/abc": [
        "https://www.reddit.com/r/name/comments/abc/title/",
        "https://old.reddit.com/r/name/comments/abc/title/c1/",
        "https://www.reddit.com/user/name/comments/abc/title/",
        "https://www.reddit.com/comments/abc",
        "https://www.reddit.com/gallery/abc",
        "https://redd.it/abc",
    ],
    "play.google.com/app/com.example.app": [
        "https://play.google.com/store/apps/details?hl=de&id=com.example.app",
        "https://market.android.com/details?id=com.example.app",
    ],
    "apps.apple.com/app/id310633997": [
        "https://apps.apple.com/us/app/whatsapp-messenger/id310633997",
        "https://apps.apple.com/de/app/id310633997?mt=8",
        "https://itunes.apple.com/app/whatsapp-messenger/id310633997",
        "https://apps.apple.com/app/id310633997",
    ],
    "en.wikipedia.org/wiki/Back_in_Black": [
        "https://en.m.wikipedia.org/wiki/Back_in_Black",
        "https://en.wikipedia.org/w/index.php?title=Back_in_Black&oldid=1",
    ],
    "zh.wikipedia.org/wiki/X/Y": ["https://zh.wikipedia.org/zh-tw/X/Y"],
    "github.com/owner/some.repo": [
        "https://raw.githubusercontent.com/owner/some.repo/main/a.js",
        "https://cdn.jsdelivr.net/gh/owner/some.repo@1.0/a.js",
        "https://api.github.com/repos/owner/some.repo/contents/a",
    ],
    "ipfs.io/ipfs/bafybeigdyrzt": [
        "https://bafybeigdyrzt.ipfs.dweb.link/a",
        "https://gateway.pinata.cloud/ipfs/bafybeigdyrzt/a",
    ],
}


#: what may stand around an address
AROUND = (
    *("+", "%20", "+%20+", "%0A", "%00", "%01", "%1F", "%2520"),
    *("%C2%A0", "%EF%BB%BF", "%E2%80%8B", "%E3%80%80", "%22", "%27", "%3C", "%E2%80%9C", "%C2%AB%20"),
)


def engine_for(
    folder: Path, rules: list[object], files: Mapping[str, object] | None = None, **policy: object
) -> Engine:
    lists = {
        "rules.yaml": json.dumps({"rules": rules}),
        **{name: json.dumps(own) for name, own in (files or {}).items()},
    }
    policy.setdefault("layers", [{"name": "lists", "lists": [*lists]}])
    compiled = compile_policy(write_policy(folder, policy, lists))
    return Engine(compiled.policy, compiled.index)


def actions(engine: Engine, *urls: str) -> list[str]:
    return [engine.decide_url(url.encode()).action.value for url in urls]


@pytest.fixture(scope="module")
def reading() -> InnerAddresses:
    return InnerAddresses(Policy("policy.yaml", ()))


@pytest.fixture(scope="module")
def blocking(tmp_path_factory: pytest.TempPathFactory) -> Engine:
    return engine_for(tmp_path_factory.mktemp("blocking"), ["blocked.example/x"])


def test_every_row_of_the_table_can_be_read_and_has_its_source() -> None:
    for row in shipped_rows():
        for name in row.names or (None,):
            row.form.check(name)
        assert row.source.startswith("https://"), row.form.text
        assert row.kind in ("shows", "leads", "same")


def test_every_row_of_the_table_is_tried_here(reading: InnerAddresses) -> None:
    tried = set()
    for url in (*CARRIERS, *(url for urls in NAMES.values() for url in urls)):
        request = request_of(url)
        targets = [request.target]
        for row in shipped_rows():
            if row.form.fits_host(request.hosts[0]) and any(True for _ in row.form.groups(request.hosts[0], targets)):
                tried.add(row.form.text)
    assert [row.form.text for row in shipped_rows() if row.form.text not in tried] == []


@each_row(
    ("text", "host", "groups"),
    [
        ("a.example", "a.example", [{}]),
        ("a.example", "b.a.example", []),
        ("*.a.example", "a.example", [{}]),
        ("*.a.example", "c.b.a.example", [{}]),
        ("*.a.example", "ba.example", []),
        ("a.example|{id}.a.example", "b.a.example", [{"id": b"b"}]),
        ("{id}.a.example|*.a.example", "c.b.a.example", [{}]),
        ("i*.a.example", "i1.a.example", [{}]),
        ("*.a.*", "b.a.co.uk", [{}]),
        ("a.*", "a.example", []),
    ],
)
def test_a_form_says_what_stands_for_the_placeholders_of_its_hosts(
    text: str, host: str, groups: list[dict[str, bytes]]
) -> None:
    form = Form(f"{text}/x/{{url}}")
    assert [*form.host_groups(host.encode())] == groups
    assert form.fits_host(host.encode()) is bool(groups)


@each_row("path", ["/X/http://h.example", "/x/http://h.example"])
def test_a_path_of_a_form_has_letters_of_either_case(path: str) -> None:
    assert [*Form("a.example/x/{url}").values(b"a.example", [path.encode()])] == [("url", b"http://h.example")]


@each_row("carrier", CARRIERS)
def test_what_a_carrier_carries_is_decided(blocking: Engine, carrier: str) -> None:
    decision = blocking.decide_url(carrier.encode())
    assert decision.action is Action.BLOCK
    assert decision.url == IT.encode()
    (host,) = decision.inside
    assert f"inside {host.decode()}" in str(decision)
    is_encoded = "blocked" not in carrier
    other = blocking.decide_url(carrier.replace("blocked", "other").encode())
    assert is_encoded or other.action is Action.PASS


@each_row(
    "url",
    [
        "https://translate.google.com/translate?u=%25252568ttps%25253a%25252f%25252fblocked.example%25252fx",
        "https://translate.google.com/translate?u=hTTps:\\\\blocked.example\\x",
        "https://translate.google.com/translate?u=https:blocked.example/x",
        "https://translate.google.com/translate?u=//blocked.example/x",
        "https://translate.google.com/translate?u=%20view-source:https://blocked.example/x",
        "https://translate.google.com/translate?%75=https://me:secret@BLOCKED.example:8443/a/../%78",
        "https://translate.google.com/translate?u=other.example&u=blocked.example/x",
        "https://translate.google.com/translate?a=1;u=blocked.example/x",
        "https://translate.google.com/translate?u=https://blocked%E3%80%82example/x",
        "https://translate.google.com:8443/translate?u=blocked.example/x#top",
        "https://translate.google.com/%74ranslate%3fu=https://blocked.example/x",
        "https://web.archive.org//web/2020/https://blocked.example/x",
        "https://web.archive.org/web/2020/https%3A%2F%2Fblocked.example%2Fx",
        "https://web.archive.org/a/../web/2020/https:/blocked.example/x",
        "https://translate.google.com/translate?u=https%3A%2F%2Fweb.archive.org%2Fweb%2F1%2Fblocked.example%2Fx",
        "https://web-archive-org.translate.goog/web/1/https://www.google.com/url?q=https://blocked.example/x",
        # around it: the space of forms, white space, controls, what nobody sees, quotation marks
        *(f"https://corsproxy.io/?url={around}{IT}" for around in AROUND),
        *(f"https://corsproxy.io/?url={IT}{around}" for around in AROUND),
        *(f"https://corsproxy.io/?url={around}blocked.example/x{around}" for around in AROUND),
        *(f"https://corsproxy.io/?{around}https%3A%2F%2Fblocked.example%2Fx{around}" for around in AROUND),
        "https://corsproxy.io/?+url=blocked.example/x",
        # in it, what readers of URLs leave out
        "https://corsproxy.io/?url=https://blo%09cked.example/x",
        "https://corsproxy.io/?url=https://blo%250Acked.example/x",
        "https://corsproxy.io/?url=ht%0Dtps://blocked.example/x",
        "https://corsproxy.io/?url=ht%09tps%3A%2F%2Fblocked.exam%0Aple%2Fx",
        "https://corsproxy.io/?url=https://blocked.example%2Fx",
        # what is no escape ends a host, and what no host has at its end is not of it
        *(
            f"https://{to}blocked.example{end}/x"
            for to in (
                "translate.google.com/translate?u=",
                "web.archive.org/web/2020id_/",
                "corsproxy.io/?url=https://",
            )
            for end in ("%", "%2", "%zz", "%u", "%C3", "%25C3", "%2525zz", ";%", ";", "%zz.other.example", ":443%zz")
        ),
        "https://translate.google.com/translate?u=/blocked.example/x",
        "https://translate.google.com/translate?u=a.other%zz.blocked.example/x",
        f"https://eu1.croxyproxy.com/?__cpo=+{BASE64[:9]}%0A{BASE64[9:]}+",
        # the fixed text of a value
        "https://webcache.googleusercontent.com/search?q=cache%3Ablocked.example/x",
        "https://webcache.googleusercontent.com/search?q=cache%253AAbC%253Ablocked.example/x",
        "https://www.google.com/search?q=%63ache:AbC%3Ablocked.example/x",
        "https://www.google.com/search?q=CACHE:blocked.example/x",
        "https://www.google.com/search?q=+%20cache:+blocked.example/x+",
        "https://www.google.com/search?q=cache:+blocked.example/x+some%20words",
        f"https://www.bing.com/ck/a?u=%611{BASE64}",
        "https://wsrv.nl/?url=ssl:blocked.example/x",
        "https://archive.ph/https%3A%2F%2Fblocked.example%2Fx%23x",
    ],
)
def test_spellings_and_carriers_in_carriers(blocking: Engine, url: str) -> None:
    assert actions(blocking, url) == ["block"]


@each_row(
    "url",
    [
        "https://translate.google.com/",
        "https://translate.google.com/?sl=en&text=blocked.example/x",
        "https://translate.google.com/translate?u=",
        "https://translate.google.com/translate?u=about:blank",
        "https://translate.google.com/translate?u=http://",
        "https://www.google.com/search?q=blocked.example/x",
        "https://www.google.com/search?q=https://blocked.example/x",
        "https://blog.example/about-blocked.example/x",
        "https://blog.example/?u=https://blocked.example/x",
        "https://web.archive.org/web/2020/other.example/about/blocked.example/x",
        "https://archive.ph/AbCdE",
        "https://translate.goog/x",
        "https://x.translate.goog/blocked.example/x",
        "https://i0.wp.com/x",
        "https://camo.githubusercontent.com/0a1b/zz",
        "https://eu1.croxyproxy.com/?__cpo=a",
        "https://notweb.archive.org/web/2020/https://blocked.example/x",
        "https://web.archive.org.example/web/2020/https://blocked.example/x",
        "https://translate.google.com/translate?u=user@blocked.example/x",
        "https://www.google.com/url?q=/page.blocked.html",
        "https://www.google.com/url?q=me:you@blocked.example/x",
        "https://quickchart.io/qr?text=me%40blocked.example",
        "https://archive.ph/https%3A%2F%2Fok.example%23x",
        "https://archive.ph/https%3A%2F%2Fok.example%2523blocked.example/x",
    ],
)
def test_free_text_and_what_only_looks_like_a_carrier_pass(blocking: Engine, url: str) -> None:
    assert actions(blocking, url) == ["pass"]


@each_row("name, urls", NAMES.items())
def test_a_rule_for_a_name_fits_every_url_of_the_thing(reading: InnerAddresses, name: str, urls: list[str]) -> None:
    for url in urls:
        (form,) = canonical_forms(request_of(url), request_of(url).hosts[0])[:1]
        reader = reading.of_host(form.host or b"")
        assert reader is not None
        names = [own.join() for own in reader.names(form)]
        assert f"https://{name}".encode() in names or form.join() == f"https://{name}".encode(), url


def test_a_video_is_allowed_or_blocked_by_any_of_its_names(tmp_path: Path) -> None:
    digest = full_hash(b"youtube.com/video/bad").hex()
    rules = [{"expression": "youtube.com/video/good", "action": "allow"}, "youtube.com/watch?v=worse"]
    engine = engine_for(
        tmp_path, [*rules, {"sha256": digest}, {"expression": "www.youtube.com/video/", "action": "tag"}]
    )
    forms = (
        "www.youtube.com/watch?v=",
        "youtu.be/",
        "www.youtube-nocookie.com/embed/",
        "i.ytimg.com/vi/",
        "m.youtube.com/live/",
    )
    for name, expected in (("good", "allow"), ("bad", "block"), ("worse", "block"), ("other", "pass")):
        assert set(actions(engine, *(f"https://{form}{name}" for form in forms))) == {expected}


def test_a_name_that_is_allowed_opens_its_host_however_it_is_written(tmp_path: Path) -> None:
    engine = engine_for(
        tmp_path,
        [*("www.youtube.com", "youtu.be", "ytimg.com"), {"expression": "youtube.com/video/good", "action": "allow"}],
    )
    urls = ("https://www.youtube.com/watch?v=good", "https://youtu.be/good", "https://i.ytimg.com/vi/good/0.jpg")
    assert actions(engine, *urls) == ["allow"] * 3
    assert actions(engine, *(url.replace("good", "bad") for url in urls)) == ["block"] * 3


def test_an_allowed_address_opens_no_blocked_carrier(tmp_path: Path) -> None:
    rules = ["translate.google.com", {"expression": "blocked.example", "action": "allow"}]
    assert actions(engine_for(tmp_path, rules), CARRIERS[3], IT) == ["block", "allow"]


def test_what_is_inside_an_allowed_carrier_is_decided_unless_the_list_means_it(tmp_path: Path) -> None:
    allowed = {"rules": [{"expression": "web.archive.org", "action": "allow"}]}
    url = "https://web.archive.org/web/2020/https://blocked.example/x"
    for mode, expected in ((None, "block"), ("table", "block"), ("allow", "allow")):
        first = {"file": "allowed.yaml", **({"inside": mode} if mode else {})}
        layers = [{"name": "first", "lists": [first]}, {"name": "second", "lists": ["rules.yaml"]}]
        folder = tmp_path / str(mode)
        assert actions(engine_for(folder, ["blocked.example"], {"allowed.yaml": allowed}, layers=layers), url) == [
            expected
        ]


def test_where_only_what_is_allowed_passes_an_address_inside_has_to_be_allowed(tmp_path: Path) -> None:
    allowed = [{"expression": name, "action": "allow"} for name in ("translate.google.com", "good.example")]
    engine = engine_for(tmp_path, allowed, default="block")
    to = "https://translate.google.com/translate?u="
    assert actions(engine, f"{to}good.example", f"{to}other.example", to) == ["allow", "block", "allow"]


@each_row(
    ("keys", "table", "any_url"),
    [
        ({}, "block", "pass"),
        ({"inside": "off"}, "pass", "pass"),
        ({"inside": "any"}, "block", "block"),
        ({"layer": "off"}, "pass", "pass"),
        ({"layer": "any"}, "block", "block"),
        ({"list": "off"}, "pass", "pass"),
        ({"list": "any"}, "block", "block"),
        ({"inside": "any", "layer": "off", "list": "table"}, "block", "pass"),
        ({"inside": "off", "layer": "any"}, "block", "block"),
    ],
)
def test_which_addresses_count_for_which_rules(
    tmp_path_factory: pytest.TempPathFactory, keys: dict[str, str], table: str, any_url: str
) -> None:
    own = {"file": "rules.yaml", **({"inside": keys["list"]} if "list" in keys else {})}
    layer = {"name": "lists", "lists": [own], **({"inside": keys["layer"]} if "layer" in keys else {})}
    policy = {"layers": [layer], **({"inside": keys["inside"]} if "inside" in keys else {})}
    engine = engine_for(tmp_path_factory.mktemp("modes"), ["blocked.example"], **policy)
    proxied = "https://glype.example/browse.php?u=https%253A%252F%252Fblocked.example%252F&b=4"
    croxy = f"https://192.0.2.7/x?__cpo={BASE64}"
    glype = f"https://glype.example/browse.php?u={b64encode(b'://blocked.example/x').decode()}&b=4"
    assert actions(engine, CARRIERS[3], proxied, croxy, glype) == [table, any_url, any_url, any_url]
    assert actions(engine, "https://search.example/?q=about+blocked.example") == ["pass"]
    assert actions(engine, IT) == ["block"]


def test_a_name_in_a_host_is_read_whatever_the_target_is(tmp_path: Path) -> None:
    carriers = ["{host}.mirror.example/**?lang={id}", "{host}.other.example/?{rest}"]
    engine = engine_for(tmp_path, ["blocked.example"], carriers=carriers)
    for mirror, target in product(("mirror", "other"), ("", "/", "/x", "/x?", "/x?lang=de")):
        assert actions(engine, f"https://blocked-example.{mirror}.example{target}") == ["block"], (mirror, target)
    assert actions(engine, "https://fine-example.mirror.example/x") == ["pass"]


def test_rows_of_the_policy(tmp_path: Path) -> None:
    carriers = [
        "*.Go.Example/away/*?to,url={url}",
        {"form": "video.example/v/{id}", "same": "Video.example/watch/{id}"},
    ]
    rules = ["blocked.example", "video.example/watch/7"]
    engine = engine_for(tmp_path, rules, carriers=carriers)
    urls = ("https://a.go.example/away/1?url=blocked.example", "https://video.example/v/7", "https://video.example/v/8")
    assert actions(engine, *urls) == ["block", "block", "pass"]


@each_row(
    ("row", "why"),
    [
        ("'proxy.example'", "2: proxy.example: expected a host and a path, such as proxy.example/*?u={url}"),
        ("'*/go?u={url}'", "2: */go?u={url}: its host has no fixed domain"),
        ("'proxy.example/{a}/{a}?u={url}'", "2: proxy.example/{a}/{a}?u={url}: a placeholder stands in it twice"),
        ("'proxy.example/{url}?u={hex}'", "2: proxy.example/{url}?u={hex}: it has two addresses"),
        (
            "'proxy.example/**a**?u={url}'",
            "2: proxy.example/**a**?u={url}: no more than one placeholder of any length may stand in it: **, {rest} or"
            " an address",
        ),
        (
            "'proxy.example/x'",
            "2: proxy.example/x: it has no {url}, {base64}, {hex}, {dashed} or {host}, and no 'same' says what it"
            " names",
        ),
        ("'v.example:8443/{url}'", "2: v.example:8443/{url}: a form has no scheme and no port: it is for all of them"),
        (
            "'https://v.example/{url}'",
            "2: https://v.example/{url}: a form has no scheme and no port: it is for all of them",
        ),
        (
            "{form: 'v.example/{id}', same: 'v.example:80/{id}'}",
            "2: v.example/{id}: expected a host and a path for 'same', such as video.example/{id},"
            " not v.example:80/{id}",
        ),
        ("{form: 'v.example/{id}', same: 'v.example/{x}'}", "2: v.example/{id}: it has no {x}, which stands in 'same'"),
        ("{same: 'v.example/{x}'}", "2: carriers: it has no form"),
        ("[]", "2: a list: expected a mapping with form, same, source"),
    ],
)
def test_errors_in_rows_of_the_policy(tmp_path_factory: pytest.TempPathFactory, row: str, why: str) -> None:
    _, errors = read_whole(tmp_path_factory.mktemp("rows"), f"carriers:\n- {row}\nlayers: []\n")
    assert why in errors


def test_a_connection_is_decided_by_the_name_in_its_host(tmp_path: Path) -> None:
    engine = engine_for(
        tmp_path, ["blocked.example", {"expression": "part.example/ok/", "action": "allow"}, "part.example"]
    )
    asked = [
        Request(b"https", (host,), 443, b"")
        for host in (b"blocked-example.translate.goog", b"good-example.translate.goog")
    ]
    assert [engine.decide_host(own).action for own in asked] == [Action.BLOCK, Action.PASS]
    assert engine.hosts.allows_below(b"part-example.translate.goog")
    assert not engine.hosts.allows_below(b"blocked-example.translate.goog")


def test_squid_is_told_of_them(blocking: Engine, tmp_path: Path) -> None:
    helper = SquidHelper(engine_for(tmp_path, ["blocked.example"]), AccessList(), pytest.fail)
    asked = (b"blocked-example.translate.goog:443", b"good-example.translate.goog:443")
    answers = [helper.answer(url + b" 192.0.2.7/- - CONNECT").split()[0] for url in asked]
    answers += [SquidHelper(blocking, AccessList(), pytest.fail).answer(CARRIERS[15].encode()).split()[0]]
    assert answers == [b"OK", b"ERR", b"OK"]


@each_row(
    ("host", "is_needed"),
    [
        (b"translate.google.com", True),
        (b"a.translate.goog", True),
        (b"www.google.com", False),  # it leads the client to what is decided then
        (b"www.youtube.com", False),
        (b"en.m.wikipedia.org", True),
        (b"i.ytimg.com", False),  # no rule is for a path of youtube.com
        (b"good.example", False),
    ],
)
def test_where_what_is_inside_has_to_be_decrypted(
    tmp_path_factory: pytest.TempPathFactory, host: bytes, is_needed: bool
) -> None:
    engine = engine_for(tmp_path_factory.mktemp("decrypt"), ["blocked.example", "en.wikipedia.org/wiki/X"])
    why = engine.why_decrypt(Request(b"https", (host,), 443, b""))
    assert (why is not None) == is_needed
    everywhere = engine_for(tmp_path_factory.mktemp("any"), ["blocked.example"], inside="any")
    assert (
        everywhere.why_decrypt(Request(b"https", (host,), 443, b"")) == "any address in a request counts (inside: any)"
    )


def test_more_than_three_in_each_other_or_eight_at_all_are_blocked(blocking: Engine) -> None:
    to = "https://web.archive.org/web/1/"
    deep = [to * number + "other.example/" for number in (1, 3, 4)]
    wide = ["https://translate.google.com/?" + "&".join(f"u=o{n}.example" for n in range(number)) for number in (8, 9)]
    assert actions(blocking, *deep, *wide) == ["pass", "pass", "block", "pass", "block"]
    assert "too many addresses" in (blocking.decide_url(deep[2].encode()).fault or "")


@pytest.mark.slow
@pytest.mark.thorough
def test_long_targets_take_little_time(blocking: Engine, tmp_path: Path) -> None:
    everywhere = engine_for(tmp_path, ["blocked.example"], inside="any")
    ends = (
        "a." * 32_000,
        "%25" * 21_000,
        "u=" * 32_000,
        "https://" * 8_000,
        "http:%2f%2fa." * 5_000,
        "&u=a.example" * 5_000,
        "&a=aHR0c" * 7_000,
        "%20" * 21_000 + "x",
        "%25" * 21_000 + "20",
        "20%25" * 13_000,
        "a.example" + "+" * 60_000,
        "cache%3A" * 8_000,
    )
    for start in (
        "translate.google.com/?u=",
        "web.archive.org/web/",
        "r.search.yahoo.com/a/RV=",
        "i0.wp.com/",
        "youtu.be/",
    ):
        for end in ends:
            url = f"https://{start}{end}"[:65_000].encode()
            began = time.process_time()
            decisions = blocking.decide_url(url), everywhere.decide_url(url)
            assert time.process_time() - began < 1
            assert {decision.action for decision in decisions} <= {Action.PASS, Action.BLOCK}


@given(st.sampled_from(CARRIERS), octets())
def test_nothing_is_left_undecided(blocking: Engine, carrier: str, more: bytes) -> None:
    start = carrier.partition("blocked")[0].encode()
    for url in (start + more, carrier.encode() + more):
        assert blocking.decide_url(url).action in (Action.PASS, Action.BLOCK)


def test_a_trace_shows_the_way_from_the_carrier_to_the_rule(blocking: Engine) -> None:
    url = b"https://translate.google.com/?u=https%3A%2F%2Fweb.archive.org%2Fweb%2F1%2Fhttps%3A%2F%2Fblocked.example%2Fx"
    found = trace(blocking, url, datetime.now(UTC), NOBODY)
    assert [form.via for form in found.forms][-1] == "inside web.archive.org inside translate.google.com"
    assert found.forms[-1].url == IT.encode()
    assert found.decision.as_dict()["inside"] == ["translate.google.com", "web.archive.org"]
    assert found.decision.winner is not None
    assert found.decision.winner.via == "inside web.archive.org, inside translate.google.com"
    named = trace(blocking, b"https://youtu.be/a", datetime.now(UTC), NOBODY).as_dict()["forms"]
    assert isinstance(named, list)
    assert [form.get("via") for form in named] == [None, "another name", "another name"]


@each_row(
    ("text", "expected"),
    [
        (b"blocked.example:8080/x", (b"blocked.example", 8080, b"/x")),
        (b"[::1]:80/", (b"[::1]", 80, b"/")),
        (b"http://2130706433/", (b"2130706433", 80, b"/")),
        (b"mailto:me@blocked.example", None),
        (b"en.example/C++", (b"en.example", 443, b"/C++")),
        (b"https://en.example/C%2B%2B", (b"en.example", 443, b"/C%2B%2B")),
        (b"data:text/html,x.y", None),
        (b"localhost", None),
        (b"a b.example", None),
        (b"", None),
        (b"%", None),
        (b"%zz.example/%", (b"%zz.example", 443, b"/%")),
    ],
)
def test_what_is_an_address(text: bytes, expected: tuple[bytes, int, bytes] | None) -> None:
    found = address(text)
    assert (None if found is None else (found.hosts[0], found.port, found.target)) == expected


def test_an_address_whose_port_is_none_is_decided_as_one_that_cannot_be_read(blocking: Engine) -> None:
    decision = blocking.decide_url(b"https://translate.google.com/?u=https://other.example:x/")
    assert (decision.action, decision.fault) == (Action.BLOCK, "its port is no number up to 65535")


@each_row("start", [b"//", b"\\\\", b"/\\", b"\\/"])
def test_two_slashes_of_either_kind_begin_an_address(start: bytes) -> None:
    request = address(start + b"intranet/x")
    assert request is not None
    assert (request.hosts, request.target) == ((b"intranet",), b"/x")
