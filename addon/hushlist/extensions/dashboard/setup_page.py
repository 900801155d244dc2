"""The setup page: how a device comes to use the proxy, and to trust its certificate authority.

Whoever may use the proxy may see it, under every policy; so can a device that does not use the proxy yet, at the
proxy's own address. All that it tells is public: where the proxy is, and the certificate. Nothing here knows the
authority's key, the policy or other clients.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from http import HTTPStatus
from importlib.resources import files
from ipaddress import ip_address
from typing import NamedTuple
from urllib.parse import parse_qs
from uuid import NAMESPACE_URL, uuid5

from cryptography import x509
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption
from cryptography.hazmat.primitives.serialization.pkcs12 import serialize_key_and_certificates
from markupsafe import Markup
from mitmproxy import connection, ctx, http
from mitmproxy.proxy.mode_specs import Socks5Mode

from hushlist.extensions.dashboard.answers import answer, html, words
from hushlist.proxy.flow_request import host_of_socket, is_at_own_address, is_sent_to
from hushlist.proxy.languages import TEXTS, load_texts, negotiate
from hushlist.proxy.page.elements import document, element

_TEST = "/setup/trusted"
_WPAD, WPAD_TARGET = "/wpad.dat", b"/wpad.dat"
_CERTIFICATES = ("/ca.cer", "/ca.mobileconfig", "/ca.p12", "/ca.pem")
#: what somebody types who knows the proxy's address only
_ROOT = "/"
#: the first start, where it is not over: then it answers before this page
_START = "/start"
_PATHS = frozenset({"/setup", _START, "/setup.css", "/setup.js", _TEST, "/proxy.pac", _WPAD, *_CERTIFICATES})
STYLE, _SCRIPT = Markup('<link rel="stylesheet" href="/setup.css">'), Markup('<script src="/setup.js" defer></script>')

#: devices, with what their browsers' User-Agent has, in the order in which it is asked, and the certificate's form
_DEVICES: Mapping[str, tuple[str, str]] = {
    "windows": ("Windows", "/ca.cer"),
    "macos": ("macOS", "/ca.pem"),
    "ios": ("iPhone, iPad", "/ca.mobileconfig"),
    "android": ("Android", "/ca.cer"),
    "chromeos": ("ChromeOS", "/ca.pem"),
    "linux": ("Linux", "/ca.pem"),
    "firefox": ("Firefox", "/ca.pem"),
}
_AGENTS = (
    ("android", "Android"),
    ("ios", "iPhone|iPad"),
    ("firefox", "Firefox/"),
    ("chromeos", "CrOS"),
    ("windows", "Windows"),
    ("macos", "Macintosh"),
    ("linux", "Linux"),
)

# Every destination gets a decision, so only what is on the device itself goes past the proxy; and there is no second
# choice behind it. Names are compared as they are: asking DNS would let a name lead past the proxy. The syntax is that
# of 1999, which every system can read.
_PAC = """function FindProxyForURL(url, host) {
  if (/^(localhost|127(\\.[0-9]{1,3}){3}|\\[?::1\\]?)$/i.test(host)) return "DIRECT";
  return "%s %s";
}
"""


#: whose steps are to be done, too: a system's own are not enough for Chrome there
_ALSO = {"linux": ("chromeos",)}


class ProxyAddress(NamedTuple):
    """Where a client has reached the proxy."""

    #: as a PAC file calls the protocol: ``PROXY`` or ``SOCKS5``
    kind: str
    host: str
    port: int

    @property
    def authority(self) -> str:
        """Host and port, as in a URL."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def is_local(self) -> bool:
        """Whether no other device can reach it."""
        return ip_address(self.host).is_loopback

    def pac(self) -> str:
        """The proxy auto-configuration file."""
        return _PAC % (self.kind, self.authority)


def proxy_address(client: connection.Client) -> ProxyAddress | None:
    """The address to enter on a device; ``None`` where the network leads devices to the proxy without it."""
    sockname = client.sockname
    if sockname is None or not is_sent_to(client):
        return None
    kind = "SOCKS5" if isinstance(client.proxy_mode, Socks5Mode) else "PROXY"
    return ProxyAddress(kind, host_of_socket(sockname[0]), sockname[1])


def is_direct(flow: http.HTTPFlow) -> bool:
    """Whether a device asks the proxy by its own address, or by WPAD's name, for what helps to set it up.

    A device that looks for a proxy asks the host ``wpad`` of its domain. With the proxy in use, no other answer to that
    makes sense; a stranger's, at a name such as ``wpad.example``, would lead past the filter.
    """
    data = flow.request.data
    if data.path == WPAD_TARGET and data.host.lower().partition(".")[0] == "wpad":
        return True
    return is_at_own_address(flow) and (is_setup_path(flow.request) or flow.request.path == _ROOT)


def is_setup_path(request: http.Request) -> bool:
    return request.path.partition("?")[0] in _PATHS


def device_of(agent: str) -> str | None:
    """The device that a User-Agent header tells of; a desktop's Firefox has settings and certificates of its own.

    >>> device_of("Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0")
    'firefox'
    >>> device_of("curl/8.5.0") is None
    True
    """
    return next((device for device, words in _AGENTS if re.search(words, agent)), None)


class SetupPage:
    """Serves the page, its certificates and the PAC file."""

    def __init__(self, host: str) -> None:
        """``host`` is the name of the proxy's own pages."""
        self._host = host
        folder = files("hushlist.extensions.dashboard").joinpath("setup")
        self._css, self._js = (folder.joinpath(name).read_bytes() for name in ("setup.css", "setup.js"))
        self.texts = load_texts("hushlist.extensions.dashboard", "setup")
        self._paths: Mapping[str, Callable[[http.HTTPFlow], http.Response]] = {
            _ROOT: lambda _: words(HTTPStatus.FOUND, "the setup page is /setup", Location="/setup"),
            _START: lambda _: words(HTTPStatus.FOUND, "the filter is set up: a device is by /setup", Location="/setup"),
            "/setup": self._page,
            "/setup.css": lambda _: answer(self._css, "text/css; charset=utf-8"),
            "/setup.js": lambda _: answer(self._js, "text/javascript; charset=utf-8"),
            "/proxy.pac": _pac,
            _WPAD: _pac,
            _TEST: self._test,
            **dict.fromkeys(_CERTIFICATES, _certificate),
        }

    def respond(self, flow: http.HTTPFlow) -> http.Response:
        if flow.request.method != "GET":
            return words(HTTPStatus.METHOD_NOT_ALLOWED, "it can only be read", Allow="GET")
        return self._paths[flow.request.path.partition("?")[0]](flow)

    def _test(self, flow: http.HTTPFlow) -> http.Response:
        """What the page's script asks for over https: a page that came over http may read it, too."""
        return words(HTTPStatus.OK, "trusted", Access_Control_Allow_Origin=f"http://{self._host}")

    def _page(self, flow: http.HTTPFlow) -> http.Response:
        headers, query = flow.request.headers, parse_qs(flow.request.path.partition("?")[2])
        language = negotiate(headers.get("accept-language", ""))
        texts, place = self.texts[language], proxy_address(flow.client_conn)
        device = query.get("for", [""])[0]
        device = device if device in _DEVICES else device_of(headers.get("user-agent", "")) or "other"
        title, is_used = texts["title"], not is_direct(flow)
        main = element(
            "main",
            element("h1", title),
            element("p", texts["lead"]),
            self._test_part(texts, is_here=is_used),
            _devices(device, texts),
            _proxy_part(place, device, texts, is_used=is_used),
            _certificate_part(device, texts),
            *([] if place is None or place.kind != "PROXY" else [_next_part(place, texts)]),
        )
        page = document(title, element("body", main), language, TEXTS[language]["dir"], STYLE, _SCRIPT)
        policy = (
            f"default-src 'none'; style-src 'self'; script-src 'self'; connect-src https://{self._host}; "
            "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'"
        )
        return html(page.encode(), language, Vary="Accept-Language, User-Agent", Content_Security_Policy=policy)

    def _test_part(self, texts: Mapping[str, str], *, is_here: bool) -> Markup:
        """The test; at the proxy's own address, a link to it, which leads there once the proxy is in use."""
        url = f"http://{self._host}/setup"
        if is_here:
            said = {"data_url": f"https://{self._host}{_TEST}", "data_good": texts["good"], "data_bad": texts["bad"]}
            test = element("p", texts["testing"], id="test", role="status", **said)
            test += element("p", texts["bad_help"], id="help", hidden=True)
        else:
            test = element("p", texts["test_later"], " ", element("a", url, href=url, dir="ltr"))
        return element("section", element("h2", texts["test"]), test)


# -- the parts of the page ---------------------------------------------------------------------------------------------


def _devices(device: str, texts: Mapping[str, str]) -> Markup:
    links = (
        element("li", element("a", name, href=f"?for={key}", aria_current="true" if key == device else False))
        for key, (name, _) in _DEVICES.items()
    )
    return element("nav", element("ul", *links), aria_label=texts["devices"])


def _tick(texts: Mapping[str, str], *, is_done: bool, id_: str = "") -> Markup:
    """That a step is done, which the script may find out later."""
    return element("p", texts["step_done"], class_="tick", hidden=not is_done, **({"id": id_} if id_ else {}))


def _proxy_part(place: ProxyAddress | None, device: str, texts: Mapping[str, str], *, is_used: bool) -> Markup:
    """The step of the proxy, which is done where the page is seen through it."""
    heading, tick = element("h2", texts["proxy"]), _tick(texts, is_done=is_used)
    if place is None:
        return element("section", heading, tick, element("p", texts["no_proxy"]), class_="step")
    is_http, pac = place.kind == "PROXY", f"http://{place.authority}/proxy.pac"
    values = {
        texts["kind"]: "HTTP" if is_http else place.kind,
        texts["address"]: place.host,
        texts["port"]: str(place.port),
        # nothing answers by HTTP at a SOCKS proxy's own address
        **({texts["pac"]: pac} if is_http else {}),
    }
    said = {"data_copy": pac, "data_done": texts["copied"]}
    copy = [element("button", texts["copy_pac"], type="button", hidden=True, **said)] if is_http else []
    parts = (heading, tick, _values(values), *copy, element("p", texts[f"{device}_proxy"]))
    return element("section", *parts, class_="step")


def _values(values: Mapping[str, str]) -> Markup:
    rows = (
        element("div", element("dt", name), element("dd", element("code", value, dir="ltr")))
        for name, value in values.items()
    )
    return element("dl", *rows)


def _certificate_part(device: str, texts: Mapping[str, str]) -> Markup:
    digest = Markup(":<wbr>").join(f"{octet:02X}" for octet in _authority().fingerprint(SHA256()))
    _, form = _DEVICES.get(device, ("", "/ca.pem"))
    others = (element("a", path.removeprefix("/"), href=path, dir="ltr") for path in _CERTIFICATES if path != form)
    return element(
        "section",
        element("h2", texts["certificate"]),
        _tick(texts, is_done=False, id_="trusted"),
        element("p", texts["why"]),
        element("a", texts["download"], href=form, class_="button"),
        *(element("p", texts[f"{name}_trust"]) for name in (device, *_ALSO.get(device, ()))),
        _values({texts["fingerprint"]: digest}),
        element("p", texts["compare"], class_="soft"),
        element("p", texts["formats"], " ", *others, class_="formats soft"),
        class_="step",
    )


def _next_part(place: ProxyAddress, texts: Mapping[str, str]) -> Markup:
    heading = element("h2", texts["next"])
    if place.is_local:
        return element("section", heading, element("p", texts["next_local"]))
    url = f"http://{place.authority}/setup"
    link = element("p", element("a", url, href=url, dir="ltr"))
    return element("section", heading, element("p", texts["next_words"]), link, qr_code(url, texts["qr"]))


def qr_code(url: str, label: str) -> Markup:
    """The QR code of a URL."""
    from segno import make_qr  # few look at the page, and it takes half a megabyte

    drawn = make_qr(url, error="m").svg_inline(omitsize=True, light="#fff")
    return element("div", Markup(drawn), class_="qr", role="img", aria_label=label)  # noqa: S704 - a drawing


# -- answers -----------------------------------------------------------------------------------------------------------


def _pac(flow: http.HTTPFlow) -> http.Response:
    place = proxy_address(flow.client_conn)
    if place is None:
        return words(HTTPStatus.NOT_FOUND, "no proxy setting is needed here")
    return answer(place.pac().encode(), "application/x-ns-proxy-autoconfig")


def _authority() -> x509.Certificate:
    """The certificate of mitmproxy's authority: the public part."""
    addon = ctx.master.addons.get("tlsconfig")
    return x509.load_pem_x509_certificate(addon.certstore.default_ca.to_pem())


def _certificate(flow: http.HTTPFlow) -> http.Response:
    authority, name = _authority(), flow.request.path.partition("?")[0].removeprefix("/")
    saved = f"attachment; filename=hushlist-{name}"
    match name:
        case "ca.p12":
            packed = serialize_key_and_certificates(b"hushlist", None, None, [authority], NoEncryption())
            return answer(packed, "application/x-pkcs12", Content_Disposition=saved)
        case "ca.mobileconfig":
            return answer(_profile(authority), "application/x-apple-aspen-config")
    encoding = Encoding.PEM if name == "ca.pem" else Encoding.DER
    return answer(authority.public_bytes(encoding), "application/x-x509-ca-cert", Content_Disposition=saved)


def _profile(authority: x509.Certificate) -> bytes:
    """The certificate as a configuration profile of iOS; a later one of the same authority takes its place."""
    import plistlib

    digest = authority.fingerprint(SHA256()).hex()
    common = {"PayloadVersion": 1, "PayloadDisplayName": authority.subject.rfc4514_string()}
    root = {
        **common,
        "PayloadType": "com.apple.security.root",
        "PayloadIdentifier": "internal.hushlist.authority.certificate",
        "PayloadUUID": str(uuid5(NAMESPACE_URL, f"{digest}/certificate")).upper(),
        "PayloadContent": authority.public_bytes(Encoding.DER),
    }
    profile = {
        **common,
        "PayloadType": "Configuration",
        "PayloadIdentifier": "internal.hushlist.authority",
        "PayloadUUID": str(uuid5(NAMESPACE_URL, digest)).upper(),
        "PayloadContent": [root],
    }
    return plistlib.dumps(profile)
