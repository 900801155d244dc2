"""Lists for name servers: what each filter is compared with, and what is left out."""

from pathlib import Path

from hushlist.core.compile.policy_compiler import Compiled, compile_policy
from hushlist.core.decide.engine import Engine
from hushlist.core.match.context import Context
from hushlist.core.url.request import StatedContext
from hushlist.extensions.adblock.filter_lists import read_adblock_dns
from hushlist.extensions.adblock.filter_reader import parse_filter
from hushlist.extensions.adblock.network_filter import UrlInContext
from support.policies import write_policy
from support.readings import read_rules
from unit.rows import each_row


@each_row(
    ("text", "fitting", "others"),
    [
        # a pattern is about the name, of which nothing else is known
        ("|*.sbs^", "x.sbs a.b.sbs", "sbs.example x.sbs.example"),
        ("*.cam^", "x.cam", "cam.example my.camera"),
        (".mov|", "site.mov", "mov.example site.mov.example"),
        ("ample.gg|", "sample.gg x.ample.gg", "ample.gg.example"),
        ("|exact.example^", "exact.example", "x.exact.example exact.example.net"),
        ("exact.example|", "exact.example x.exact.example inexact.example", "exact.example.net"),
        ("|stat", "stat7.example", "x.stat7.example"),
        ("||stat", "stat7.example x.stat7.example", "xstat.example"),
        ("||ads.", "ads.example x.ads.example", "xads.example adsx.example"),
        ("||ads*.example^", "ads1.example x.ads.y.example", "ads.example.net"),
        ("-track-", "a-track-b.example", "track.example"),
        ("://ads.", "ads.example", "x.ads.example"),
        ("|http://ads.", "ads.example", "x.ads.example"),
        ("/ads.", "ads.example", "x.ads.example"),
        ("||b\u00fccher*.example^", "xn--bcher-kva.example", "b.example"),
        (r"/^stat[0-9]*\./", "stat7.shop.example stat.example", "x.stat7.example"),
        (r"/\.zip$/", "site.zip", "zip.example"),
        (r"/(^|\.)zap\.example$/", "zap.example a.zap.example", "xzap.example zap.example.net"),
        (r"/^adim(age|g)s?[0-9]*[-_.]/", "adimgs.shop.example adimage-1.example", "x.adimg.example"),
        (r"/^198\.51\.100\.2(4[0-9]|5[0-4])/", "198.51.100.245", "198.51.100.23"),
        # and options are few
        ("*$denyallow=com|net", "x.org org", "x.com com a.x.net 192.0.2.7 [2001:db8::7] 10.0.0.1"),
        ("||example^$denyallow=a.example", "b.example x.b.example", "a.example x.a.example example.net"),
        ("||h.example^$dnsrewrite=REFUSED", "h.example x.h.example", "i.example"),
        ("||h.example^$dnsrewrite=NOERROR;A;0.0.0.0", "h.example", ""),
        ("|h.example^$important", "h.example", "x.h.example"),
    ],
)
def test_a_filter_fits_names(text: str, fitting: str, others: str) -> None:
    own = parse_filter(text, of_names=True)
    assert own.is_of_hosts
    assert not own.names_context
    for host in (*fitting.split(), *others.split()):
        for url in (f"https://{host}/", f"http://{host}:81/save.sbs?u=x.cam&v=stat7.example#", f"wss://{host}/my.mov"):
            for kind in ("document", "script", ""):
                asked = UrlInContext(url.encode(), host.encode(), Context("news.example", kind, None, "GET"))
                assert own.fits(asked) is (host in fitting.split()), (url, kind)


BACK = "a regular expression with a back-reference, or another part that no automaton has"
NO_NAME = "a pattern that no name of a host can fit"
REWRITTEN = "$dnsrewrite: names get no addresses here; leave them to the name server"


@each_row(
    ("line", "why"),
    [
        ("||a.example/ads", NO_NAME),
        ("/ads/x.js", NO_NAME),
        ("||a.example:443^", NO_NAME),
        ("^ads.", NO_NAME),
        ("&ad=", NO_NAME),
        ("some words", NO_NAME),
        ("*", "a pattern that is too short: it would fit nearly every URL"),
        ("||a.example^$script", "$script: a name server sees a name, and nothing that this decides by"),
        ("||a.example^$third-party", "$third-party: a name server sees a name, and nothing that this decides by"),
        ("||a.example^$domain=x", "$domain: a name server sees a name, and nothing that this decides by"),
        ("||a.example^$client=127.0.0.1", "$client: which clients it is for is what the groups of a policy say"),
        ("||a.example^$ctag=device_pc", "$ctag: which clients it is for is what the groups of a policy say"),
        ("||a.example^$dnstype=AAAA", "$dnstype: it is about kinds of DNS queries, and no request has one"),
        ("||a.example^$dnsrewrite=192.0.2.1", REWRITTEN),
        ("||a.example^$dnsrewrite=NOERROR;CNAME;b.example", REWRITTEN),
        ("@@||a.example^$dnsrewrite", "$dnsrewrite: it lifts what rewrites names, which nothing here does"),
        ("||a.example^$what", "an option that is not known"),
        ("a.example##.ad", "cosmetic"),
        ("/(a+)\\1b/", BACK),
        ("192.0.2.7 nas.example", "an address that is given to names: it blocks nothing"),
    ],
)  # fmt: skip
def test_what_no_name_can_be_judged_by_is_left_out_with_the_reason(line: str, why: str) -> None:
    assert read_rules(read_adblock_dns, f"||z.example^\n{line}") == (["1:z.example/"], [f"2: {line}: left out: {why}"])


def test_hosts_are_rules_for_them_in_each_spelling() -> None:
    text = "a.example\n0.0.0.0 b.example\n||c.example^\n||d.example\n||e.example^|\n127.0.0.1 localhost\n||*.f.example^"
    rules = ["1:a.example/", "2:b.example/", "3:c.example/", "4:d.example/", "5:e.example/", "7:f.example/"]
    assert read_rules(read_adblock_dns, text) == (rules, [])


LIST = """! Title: AdGuard DNS filter
||trk.example^
@@|ok1.trk.example^
@@/^ok2\\.trk\\.example$/
@@ok3.trk.example|
.mov|
@@|good.mov|
||hard.example^$important
@@||hard.example^
@@||soft.hard.example^$important
|back.example^
|back.example^$badfilter
||gone.example^
||gone.example^$badfilter
"""


def compiled(folder: Path, **lists: str) -> Compiled:
    return compile_policy(write_policy(folder, files={f"{name}.adblock": text for name, text in lists.items()}))


def test_filters_of_names_decide_for_all_that_is_asked_of_a_host(tmp_path: Path) -> None:
    found = compiled(tmp_path, list=LIST)
    assert found.report.warnings == []
    assert not found.index.has_general_filters  # no path counts: nothing is decrypted for it
    engine = Engine(found.policy, found.index)
    for host, action in {
        "trk.example": "block", "x.trk.example": "block", "ok1.trk.example": "allow", "x.ok1.trk.example": "block",
        "ok2.trk.example": "allow", "ok3.trk.example": "allow", "site.mov": "block", "good.mov": "allow",
        "x.good.mov": "block", "hard.example": "block", "soft.hard.example": "allow", "back.example": "pass",
        "gone.example": "pass", "other.example": "pass",
    }.items():  # fmt: skip
        for kind in ("document", "script", "websocket", ""):
            for path in ("/", "/x.mov", "/go?u=trk.example"):
                told = StatedContext(b"https://page.example/", kind)
                assert engine.decide_url(f"https://{host}{path}".encode(), context=told).action == action, (host, kind)


def test_exceptions_that_can_lift_nothing_are_a_warning_that_says_what_to_write(tmp_path: Path) -> None:
    found = compiled(tmp_path, allow="! Title: Referrals\n@@||t.example^\n@@||u.example^|\n")
    (told,) = found.report.warnings
    assert told.why.startswith("its 2 exceptions lift nothing: they are about what stops in their own layer")
    assert told.why.endswith("to have it allow, write 'action: allow' for it")
    together = compiled(tmp_path, allow="! x\n@@||t.example^\n", block="||t.example^\n")
    assert together.report.warnings == []
