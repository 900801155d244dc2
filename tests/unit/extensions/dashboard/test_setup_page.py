"""The set-up page: who may see it, what it tells, and what it never tells."""

from __future__ import annotations

import asyncio
import plistlib
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.hazmat.primitives.serialization.pkcs12 import load_pkcs12
from mitmproxy import certs, ctx, exceptions, http
from mitmproxy.addons.onboarding import Onboarding

from hushlist.extensions.dashboard.dashboard_server import HOST
from hushlist.extensions.dashboard.setup_page import SetupPage, device_of, is_direct, proxy_address
from hushlist.proxy.addon import Hushlist
from hushlist.proxy.languages import TEXTS
from support import flows
from support.mitmproxied import GUARDS, mitmproxied, own_answer
from unit.proxy.outline import outline
from unit.rows import each_row

PATHS = (
    "/setup",
    "/setup.css",
    "/setup.js",
    "/setup/trusted",
    "/proxy.pac",
    "/wpad.dat",
    "/ca.pem",
    "/ca.cer",
    "/ca.p12",
)
PROXY = ("192.168.7.2", 8080)
PUPIL = "10.9.8.7"


class TlsConfig:
    """mitmproxy's addon of this name has the certificates."""

    def __init__(self, store: certs.CertStore) -> None:
        self.certstore = store


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> certs.CertStore:
    return certs.CertStore.from_store(tmp_path_factory.mktemp("authority"), "mitmproxy", 2048)


@pytest.fixture
def hushlist(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, store: certs.CertStore) -> Iterator[Hushlist]:
    """The addon by a policy that lets nothing pass, and shows its own page to nobody."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    (tmp_path / "policy.yaml").write_text(
        "default: block\nlive: off\nlayers:\n- {name: secret-layer, lists: [a.yaml]}\n"
    )
    (tmp_path / "a.yaml").write_text("rules: [{expression: 'mitm.it/', reason: secret}]\n")
    addon = Hushlist()
    with mitmproxied(addon, tmp_path / "policy.yaml") as context:
        context.master.addons.add(TlsConfig(store))
        yield addon


def flow_of(url: str, mode: str = "regular", method: str = "GET", **headers: str) -> http.HTTPFlow:
    flow = flows.flow_of(url, method, client=PUPIL, mode=mode, **headers)
    flow.client_conn.sockname = PROXY
    return flow


def get(hushlist: Hushlist, path: str, host: str = HOST, **more: str) -> http.Response:
    return own_answer(hushlist, flow_of(f"http://{host}{path}", **more))


# -- who may see it ----------------------------------------------------------------------------------------------------


@each_row("path", PATHS)
@each_row("host", [HOST, "192.168.7.2:8080"])
def test_whoever_may_use_the_proxy_may_see_it_under_every_policy(hushlist: Hushlist, path: str, host: str) -> None:
    assert get(hushlist, path, host).status_code == 200
    assert hushlist.runtime.statistics.total == 0


def test_the_other_pages_stay_hidden(hushlist: Hushlist) -> None:
    for path in ("/", "/api/v1/live", "/metrics", "/app.js", "/setup/", "/setup/x", "/setup%2e", "//setup", "/SETUP"):
        assert get(hushlist, path).status_code == 403
    assert get(hushlist, "/setup", sec_fetch_site="cross-site").status_code == 200  # a link may lead here


@pytest.mark.parametrize(
    ("url", "host"),
    [
        (f"http://{HOST}:8081/setup", None),
        (f"http://me@{HOST}/setup", None),
        (f"http://{HOST}/setup", "blocked.example"),
    ],
)
def test_another_name_or_port_is_no_way_to_it(hushlist: Hushlist, url: str, host: str | None) -> None:
    flow = flow_of(url)
    if host is not None:
        flow.request.headers["Host"] = host
    if "@" in url:
        flow.request.data.authority = b"me@" + HOST.encode()
    assert own_answer(hushlist, flow).status_code == 403


@each_row(
    ("url", "is_it"),
    [
        ("http://192.168.7.2:8080/setup", True),
        ("http://192.168.7.2:8080/setup?for=ios", True),
        ("http://192.168.7.2:8080/wpad.dat", True),
        ("http://192.168.7.2:8080/", True),
        ("http://192.168.7.2:8080/?a", False),
        ("http://192.168.7.2:8080/data", False),
        ("http://192.168.7.3:8080/", False),
        ("http://192.168.7.2/", False),
        ("http://192.168.7.2/setup", False),
        ("https://192.168.7.2:8080/setup", False),
        ("http://192.168.7.3:8080/setup", False),
        ("http://wpad/wpad.dat", True),
        ("http://WPAD.school.example/wpad.dat", True),
        ("http://wpad.example/setup", False),
        ("http://xwpad.example/wpad.dat", False),
        ("http://a.wpad.example/wpad.dat", False),
    ],
)
def test_a_device_that_does_not_use_the_proxy_asks_its_own_address(url: str, is_it: bool) -> None:
    assert is_direct(flow_of(url)) is is_it


@each_row("mode", ["transparent", "wireguard", "local", "reverse:http://192.168.7.2:8080", "socks5"])
def test_no_origin_that_the_network_leads_here_is_hidden(mode: str) -> None:
    # mitmproxy has the address of the origin as that of its own end
    assert is_direct(flow_of("http://192.168.7.2:8080/setup", mode)) is (mode == "socks5")


def test_a_socket_for_both_families_has_the_same_address() -> None:
    flow = flow_of("http://192.168.7.2:8080/setup")
    flow.client_conn.sockname = ("::ffff:192.168.7.2", 8080, 0, 0)
    assert is_direct(flow)
    place = proxy_address(flow.client_conn)
    assert place is not None
    assert place.authority == "192.168.7.2:8080"


def test_it_can_only_be_read(hushlist: Hushlist) -> None:
    answer = own_answer(hushlist, flow_of(f"http://{HOST}/setup", method="POST"))
    assert (answer.status_code, answer.headers["Allow"]) == (405, "GET")


def test_a_request_of_the_proxy_to_itself_gets_nothing(hushlist: Hushlist, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hushlist.proxy.flow_request.SelfConnections.has", lambda *_: True)
    assert get(hushlist, "/setup").status_code == 403


# -- what it tells -----------------------------------------------------------------------------------------------------


@each_row("path", PATHS)
def test_nothing_private_is_told(hushlist: Hushlist, path: str) -> None:
    content = get(hushlist, path).content or b""
    for secret in (b"PRIVATE", b"secret", PUPIL.encode(), b"policy.yaml", b"default"):
        assert secret not in content


@pytest.mark.parametrize(
    ("mode", "path", "told"),
    [
        ("regular", "/proxy.pac", 'return "PROXY 192.168.7.2:8080";'),
        ("upstream:http://up.example:3128", "/wpad.dat", 'return "PROXY 192.168.7.2:8080";'),
        ("socks5", "/proxy.pac", 'return "SOCKS5 192.168.7.2:8080";'),
    ],
)
def test_the_pac_file_leads_to_the_proxy_as_it_was_reached(hushlist: Hushlist, mode: str, path: str, told: str) -> None:
    answer = get(hushlist, path, mode=mode)
    assert answer.headers["Content-Type"] == "application/x-ns-proxy-autoconfig"
    assert answer.text.count("return") == 2
    assert told in answer.text


def test_an_address_of_ipv6_stands_in_brackets() -> None:
    flow = flow_of("http://h.example/")
    flow.client_conn.sockname = ("fd00::2%eth0", 8080, 0, 2)
    place = proxy_address(flow.client_conn)
    assert place is not None
    assert '"PROXY [fd00::2]:8080"' in place.pac()


def test_where_the_network_leads_to_the_proxy_there_is_nothing_to_set(hushlist: Hushlist) -> None:
    for mode in ("transparent", "wireguard"):
        assert get(hushlist, "/proxy.pac", mode=mode).status_code == 404


@pytest.mark.slow
@each_row(
    ("agent", "device"),
    [
        ("Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 Chrome/140.0.0.0 Safari/537.36", "windows"),
        ("Mozilla/5.0 (Windows NT 10.0; Win64; x64; rv:140.0) Gecko/20100101 Firefox/140.0", "firefox"),
        ("Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 Version/18.0 Safari/605.1.15", "macos"),
        ("Mozilla/5.0 (iPhone; CPU iPhone OS 18_0 like Mac OS X) AppleWebKit/605.1.15 Safari/604.1", "ios"),
        (
            "Mozilla/5.0 (Linux; Android 15; Pixel 9) AppleWebKit/537.36 Chrome/140.0.0.0 Mobile",
            "android",
        ),
        ("Mozilla/5.0 (Android 15; Mobile; rv:140.0) Gecko/140.0 Firefox/140.0", "android"),
        ("Mozilla/5.0 (X11; CrOS x86_64 14541.0.0) AppleWebKit/537.36 Chrome/140.0.0.0 Safari/537.36", "chromeos"),
        ("Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 Chrome/140.0.0.0 Safari/537.36", "linux"),
        ("", None),
    ],
)
def test_the_device_is_told_by_its_browser(hushlist: Hushlist, agent: str, device: str | None) -> None:
    assert device_of(agent) == device
    current = re.findall(r'href="\?for=(\w+)" aria-current', get(hushlist, "/setup", user_agent=agent).text)
    assert current == ([device] if device else [])
    assert 'href="?for=ios" aria-current' in get(hushlist, "/setup?for=ios", user_agent=agent).text
    assert "<script>" not in get(hushlist, "/setup?for=<script>", user_agent=agent).text


PAGE = """\
html lang=en dir=ltr
  head
    meta charset=utf-8
    meta name=viewport content=width=device-width, initial-scale=1
    title | $title
    link rel=stylesheet href=/setup.css
    script src=/setup.js defer
  body
    main
      h1 | $title
      p | $lead
      section
        h2 | $test
        p id=test role=status data-url=https://hushlist.internal/setup/trusted data-good=$good data-bad=$bad | $testing
        p id=help hidden | $bad_help
      nav aria-label=$devices
        ul
          li
            a href=?for=windows | Windows
          li
            a href=?for=macos | macOS
          li
            a href=?for=ios aria-current=true | iPhone, iPad
          li
            a href=?for=android | Android
          li
            a href=?for=chromeos | ChromeOS
          li
            a href=?for=linux | Linux
          li
            a href=?for=firefox | Firefox
      section class=step
        h2 | $proxy
        p class=tick | $step_done
        dl
          div
            dt | $kind
            dd
              code dir=ltr | HTTP
          div
            dt | $address
            dd
              code dir=ltr | 192.168.7.2
          div
            dt | $port
            dd
              code dir=ltr | 8080
          div
            dt | $pac
            dd
              code dir=ltr | http://192.168.7.2:8080/proxy.pac
        button type=button hidden data-copy=http://192.168.7.2:8080/proxy.pac data-done=$copied | $copy_pac
        p | $ios_proxy
      section class=step
        h2 | $certificate
        p class=tick hidden id=trusted | $step_done
        p | $why
        a href=/ca.mobileconfig class=button | $download
        p | $ios_trust
        dl
          div
            dt | $fingerprint
            dd
              code dir=ltr | FINGERPRINT
        p class=soft | $compare
        p class=formats soft | $formats
          a href=/ca.cer dir=ltr | ca.cer
          a href=/ca.p12 dir=ltr | ca.p12
          a href=/ca.pem dir=ltr | ca.pem
      section
        h2 | $next
        p | $next_words
        p
          a href=http://192.168.7.2:8080/setup dir=ltr | http://192.168.7.2:8080/setup
        div class=qr role=img aria-label=$qr
          svg viewbox=0 0 37 37 class=segno
"""
TEST_LATER = """\
        h2 | $test
        p | $test_later
          a href=http://hushlist.internal/setup dir=ltr | http://hushlist.internal/setup
"""
NO_PROXY = """\
        h2 | $proxy
        p class=tick | $step_done
        p | $no_proxy
"""
BY_SOCKS = """\
        h2 | $proxy
        p class=tick | $step_done
        dl
          div
            dt | $kind
            dd
              code dir=ltr | SOCKS5
          div
            dt | $address
            dd
              code dir=ltr | 192.168.7.2
          div
            dt | $port
            dd
              code dir=ltr | 8080
        p | $other_proxy
"""
THIS_DEVICE_ALONE = """\
        h2 | $next
        p | $next_local
"""


def test_the_page_has_a_part_for_each_step(hushlist: Hushlist, store: certs.CertStore) -> None:
    texts = SetupPage(HOST).texts["en"]
    digest = x509.load_pem_x509_certificate(store.default_ca.to_pem()).fingerprint(SHA256()).hex(":").upper()

    def parts(answer: http.Response) -> list[str]:
        text = answer.text.replace("<wbr>", "").replace(digest, "FINGERPRINT")
        return re.split("      (?:section|nav)(?: [^|\n]*)?\n", f"{outline(text, texts)}\n")

    in_use, local = parts(get(hushlist, "/setup?for=ios")), flow_of(f"http://{HOST}/setup")
    head, test, devices, step, trust, following = in_use
    assert in_use == re.split("      (?:section|nav)(?: [^|\n]*)?\n", PAGE)
    direct = parts(get(hushlist, "/setup?for=ios", "192.168.7.2:8080"))
    undone = step.replace("p class=tick |", "p class=tick hidden |")
    assert direct == [head, TEST_LATER, devices, undone, trust, following]
    assert parts(get(hushlist, "/setup", mode="transparent"))[1::2] == [test, NO_PROXY]
    assert parts(get(hushlist, "/setup", mode="socks5"))[1::2] == [test, BY_SOCKS]
    local.client_conn.sockname = ("127.0.0.1", 8080)
    assert parts(own_answer(hushlist, local))[5:] == [THIS_DEVICE_ALONE]


def test_only_what_tells_of_trust_may_be_read_by_another_origin(hushlist: Hushlist) -> None:
    allowed = {path: get(hushlist, path).headers.get("Access-Control-Allow-Origin") for path in PATHS}
    assert {path: origin for path, origin in allowed.items() if origin} == {"/setup/trusted": f"http://{HOST}"}


def test_other_sites_can_neither_frame_nor_read_it(hushlist: Hushlist) -> None:
    for path in PATHS:
        headers = get(hushlist, path).headers
        assert "frame-ancestors 'none'" in headers["Content-Security-Policy"]
        assert headers["Content-Security-Policy"].startswith("default-src 'none'; ")
        assert "unsafe" not in headers["Content-Security-Policy"]
        assert {name: headers.get(name) for name in GUARDS} == GUARDS
    headers = get(hushlist, "/setup").headers
    assert "; style-src 'self'; script-src 'self'; " in headers["Content-Security-Policy"]
    assert headers["Vary"] == "Accept-Language, User-Agent"


# -- the certificate ---------------------------------------------------------------------------------------------------


def test_every_form_is_the_same_certificate_without_its_key(hushlist: Hushlist, store: certs.CertStore) -> None:
    def octets(path: str) -> bytes:
        return get(hushlist, path).content or b""

    kinds = {path: get(hushlist, path).headers["Content-Type"] for path in ("/ca.p12", "/ca.pem", "/ca.mobileconfig")}
    assert kinds == {
        "/ca.p12": "application/x-pkcs12",
        "/ca.pem": "application/x-x509-ca-cert",
        "/ca.mobileconfig": "application/x-apple-aspen-config",
    }
    packed = load_pkcs12(octets("/ca.p12"), None)
    assert packed.key is None
    profile = plistlib.loads(octets("/ca.mobileconfig"))
    (root,) = profile["PayloadContent"]
    wanted = x509.load_pem_x509_certificate(store.default_ca.to_pem())
    common = {"PayloadVersion": 1, "PayloadDisplayName": wanted.subject.rfc4514_string()}
    own = "internal.hushlist.authority"
    assert profile == {
        **common,
        "PayloadType": "Configuration",
        "PayloadIdentifier": own,
        "PayloadContent": [root],
        "PayloadUUID": profile["PayloadUUID"],
    }
    assert root == {
        **common,
        "PayloadType": "com.apple.security.root",
        "PayloadIdentifier": f"{own}.certificate",
        "PayloadUUID": root["PayloadUUID"],
        "PayloadContent": wanted.public_bytes(Encoding.DER),
    }
    assert len({profile["PayloadUUID"], root["PayloadUUID"]}) == 2
    saved = {path: get(hushlist, path).headers.get("Content-Disposition") for path in ("/ca.p12", "/ca.pem", "/ca.cer")}
    assert saved == {path: f"attachment; filename=hushlist-{path[1:]}" for path in saved}
    assert octets("/ca.mobileconfig") == octets("/ca.mobileconfig")  # a second one takes the place of the first
    found = [
        x509.load_pem_x509_certificate(octets("/ca.pem")),
        x509.load_der_x509_certificate(octets("/ca.cer")),
        x509.load_der_x509_certificate(root["PayloadContent"]),
        *(own.certificate for own in packed.additional_certs),
    ]
    assert found == [wanted] * 4
    digest = wanted.fingerprint(SHA256()).hex(":").upper()
    assert digest in get(hushlist, "/setup").text.replace("<wbr>", "")


# -- the languages -----------------------------------------------------------------------------------------------------


def test_what_is_typed_or_looked_for_is_the_same_in_every_language() -> None:
    texts = SetupPage(HOST).texts
    english = texts["en"]
    for language, own in texts.items():
        for key, text in own.items():
            for word in ("PAC", "https", "SHA-256", "/usr/local/share/ca-certificates/hushlist.crt", "chrome://"):
                assert (word in english[key]) is (word in text), (language, key, word)
    assert len({own["good"] for own in texts.values()}) == len(texts)


@each_row("language", TEXTS)
@each_row("mode", ["regular", "socks5", "transparent"])
def test_it_is_shown_in_each_language(hushlist: Hushlist, language: str, mode: str) -> None:
    answer = get(hushlist, "/setup", mode=mode, accept_language=language)
    assert answer.headers["Content-Language"] == language
    assert f'<html lang="{language}" dir="{TEXTS[language]["dir"]}">' in answer.text


# -- mitmproxy's own page ----------------------------------------------------------------------------------------------


@pytest.fixture
def onboarded(hushlist: Hushlist) -> Callable[..., http.HTTPFlow]:
    """Asks for mitmproxy's page; the flow, after the first of mitmproxy's hooks."""
    ctx.master.addons.add(Onboarding())
    ctx.options.update(onboarding=True)

    def ask(url: str = "http://mitm.it/", method: str = "GET", **headers: str) -> http.HTTPFlow:
        flow = flow_of(url, method=method, **headers)

        async def whole() -> None:
            awaited = hushlist.requestheaders(flow)
            if awaited is not None:
                await awaited

        try:
            asyncio.run(whole())
        except exceptions.AddonHalt:
            flow.comment = "hidden"
        return flow

    return ask


@pytest.mark.parametrize("url", ["http://mitm.it/", "https://mitm.it/"])
def test_mitmproxy_s_own_page_answers_though_a_rule_blocks_its_name(
    onboarded: Callable[..., http.HTTPFlow], url: str
) -> None:
    flow = onboarded(url)
    assert flow.response is not None
    assert (flow.response.status_code, flow.comment) == (200, "hidden")
    assert "mitmproxy" in flow.response.text


def test_nothing_else_of_its_name_passes(onboarded: Callable[..., http.HTTPFlow]) -> None:
    for flow in (
        onboarded(method="POST"),
        onboarded("http://mitm.it:8080/"),
        onboarded(content_length="3"),
        onboarded(host="mitm.it, blocked.example"),
        onboarded("http://blocked.example/", host="mitm.it"),
        onboarded("http://x.mitm.it/"),
    ):
        assert flow.response is not None
        assert (flow.response.status_code, flow.comment != "hidden") == (403, True)


def test_where_it_fails_nothing_goes_on_to_an_origin(
    onboarded: Callable[..., http.HTTPFlow], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(*_: object) -> None:
        raise OSError("no disk")

    monkeypatch.setattr(Onboarding, "request", fail)
    flow = onboarded()
    assert flow.response is not None
    assert flow.response.status_code == 403


def test_where_it_is_turned_off_its_name_is_a_name_as_others(
    hushlist: Hushlist, onboarded: Callable[..., http.HTTPFlow]
) -> None:
    ctx.options.update(onboarding=False)
    flow = onboarded()
    assert flow.response is not None
    assert (flow.response.status_code, hushlist.runtime.statistics.total) == (403, 1)
