"""What a request costs, whatever its parts multiply to: calls of functions by mitmproxy and the filter, and octets."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha1, sha256
from itertools import product
from pathlib import Path
from types import FrameType
from typing import Any

import h2.config
import h2.connection
import pylsqpack
import pytest
import yaml
from mitmproxy import connection, ctx, http
from mitmproxy.proxy import commands, context, events
from mitmproxy.proxy.layers.http import HttpLayer, HTTPMode
from mitmproxy.proxy.mode_specs import ProxyMode

from hushlist.proxy import addon, cheap_reads
from hushlist.proxy.addon import Hushlist
from support.flows import flow_of
from support.mitmproxied import mitmproxied
from unit.rows import each_row

Fields = list[tuple[bytes, bytes]]

#: the folder of the package
_OURS = str(Path(addon.__file__).parents[1])
#: what a request may name besides, each as often as it may
NAMES: dict[str, Fields] = {
    "one name": [],
    "three names": [(b"x-host", b"a.b.c.d.e2.test"), (b"forwarded", b"host=a.b.c.d.e3.test")],
    "names that lead on": [(b"x-host", b"[2002:a14:1e28::1]"), (b"forwarded", b'host="[2002:a14:1e28::2]"')],
    "letters": [(b"x-host", "".join(chr(0x4E00 + 7 * number) for number in range(59)).encode())],
    "too many names": [(b"forwarded", b"host=a1.test;host=a2.test;host=a3.test;host=a4.test;host=a5.test")],
}
PATHS = {
    "plain": b"/folder/page.html",
    "parameters": b"/a;x/b;y/page.html",
    "twelve readings": b"/a;b/..%2fc;d%5ce/x;y/%2e%2e//z",
    "too many readings": b"/a;x%2f..;b/%5c..//%252e%252e/;y/%3f%23z/x.%20/%u002e/(A(x))/:$i",
    "words and folders": b"/".join([b"", *(b"w%dx" % number for number in range(64)), b"x"]),
    "long, with many readings": b"/a;b/..%2fc;d%5ce//" + b"%41x/" * 300,
    "white space": b"/%20 x;y/../z",
}
QUERY = b"?u=%2568ttp%3A%2F%2Fa.test%2F&x=1"
_COOKIES: Fields = [(b"cookie", b"a%d=b; content_rating=9" % number) for number in range(40)]
_FIELDS: Fields = [(b"x-forwarded-%d" % number, b"a.b.c.test") for number in range(40)]
#: how many other targets a head names, of which four are read, and what else it may have much of: cookies, which safe
#: search reads; fields that servers may believe, and any others
MORE: dict[str, tuple[int, Fields]] = {
    "no more": (0, []),
    "fields": (0, _FIELDS),
    "as many targets as are read, cookies": (4, _COOKIES),
    "too many targets, cookies, fields": (5, [*_COOKIES, *_FIELDS]),
}
_NAMES_OF_OTHERS = (b"destination", b"x-copy-from", b"x-amz-rename-source", b"x-ms-rename-source", b"x-ms-copy-source")
_PAGE: Fields = [(b"referer", b"http://page.test/"), (b"sec-fetch-dest", b"script")]


def requests() -> Iterator[tuple[str, Fields]]:
    """Every name with every path and all else."""
    for names, path, rest in product(NAMES, PATHS, MORE):
        target, (others, more) = PATHS[path] + QUERY, MORE[rest]
        named = [
            (name, b"http://a.b.c.o%d.test" % number + target) for number, name in enumerate(_NAMES_OF_OTHERS[:others])
        ]
        yield f"{names}, {path}, {rest}", [*head(b"a.b.c.d.e1.test", target), *NAMES[names], *_PAGE, *more, *named]


def head(authority: bytes, target: bytes) -> Fields:
    return [(b":method", b"GET"), (b":scheme", b"http"), (b":authority", authority), (b":path", target)]


@pytest.fixture
def hushlist(tmp_path: Path) -> Iterator[Hushlist]:
    """The filter with every kind of rule; what cannot be read is decided all the same, which takes longer."""
    uri = b"http://hashed.test/"
    kinds = [
        f"hashed:{algorithm}={digest(uri).hexdigest()}{flags}"
        for algorithm, digest in (("sha1", sha1), ("x-sha256", sha256))
        for flags in ("", "+query", "+frag")
    ]
    rules = [
        "blocked.test",
        "deep.test/" + "a/" * 60,
        "a.b.c.d.e.f.g.h.deeper.test/x/",
        {"sha256": sha256(b"hash.test/x/").hexdigest()},
        *({"expression": "http://whole.test/w?v=1", "match": rung} for rung in ("simple", "syntax", "scheme")),
    ]
    (tmp_path / "rules.yaml").write_text(yaml.safe_dump({"rules": rules}))
    for variant in "np":
        (tmp_path / f"{variant}.yaml").write_text(yaml.safe_dump({"variant": variant, "rules": kinds}))
    filters = [f"/w{number}x/*zq{n}" for number in range(64) for n in range(8)]
    filters += [
        "/ads/*$script",
        "||e1.test/*zq",
        "@@||e1.test/x$script",
        r"/^https?:\/\/[a-z]+\.test\/[0-9]{8,}x/$image",
    ]
    (tmp_path / "filters.txt").write_text("\n".join(filters))
    lists: list[Any] = ["rules.yaml", "n.yaml", "p.yaml"]
    adblock = {"file": "filters.txt", "format": "adblock"}
    layers = [{"name": "rules", "lists": lists}, {"name": "filters", "lists": [adblock]}]
    policy = tmp_path / "policy.yaml"
    policy.write_text(yaml.safe_dump({"unparsable": "pass", "safe-search": "strict", "layers": layers}))
    hushlist = Hushlist()
    with mitmproxied(hushlist, policy):
        yield hushlist


class Client:
    """A client of HTTP/2, and mitmproxy's side of its connection."""

    def __init__(self, hushlist: Hushlist) -> None:
        self._hushlist = hushlist
        own = connection.Client(peername=("192.0.2.1", 1234), sockname=("127.0.0.1", 8080), timestamp_start=1.0)
        own.proxy_mode, own.alpn, own.state = ProxyMode.parse("regular"), b"h2", connection.ConnectionState.OPEN
        self._client, self.is_refused = own, False
        self._layer = HttpLayer(context.Context(own, ctx.options), HTTPMode.regular)
        config = h2.config.H2Configuration(header_encoding=None, validate_outbound_headers=False)
        self._h2 = h2.connection.H2Connection(config)
        self._h2.initiate_connection()
        self._handle(events.Start())
        self._receive(self._h2.data_to_send())
        self._number = -1

    def send(self, fields: Fields) -> tuple[int, int]:
        """How many octets a request has on the wire, and how many calls of functions it takes."""
        self._number += 2
        self._h2.send_headers(self._number, fields, end_stream=True)
        octets = self._h2.data_to_send()
        with counted() as calls:
            self._receive(octets)
        return len(octets), calls[0]

    def _receive(self, octets: bytes) -> None:
        self._handle(events.DataReceived(self._client, octets))

    def _handle(self, event: events.Event) -> None:
        for command in list(self._layer.handle_event(event)):
            if isinstance(command, commands.StartHook):
                hook = getattr(self._hushlist, command.name, None)
                if hook is not None and command.name in ("requestheaders", "request", "responseheaders", "response"):
                    assert hook(*command.args()) is None
                    flow = command.args()[0]
                    self.is_refused = flow.response is not None
                self._handle(events.HookCompleted(command))
            elif isinstance(command, commands.SendData):
                self._h2.receive_data(command.data)
            elif isinstance(command, commands.OpenConnection):
                self._handle(events.OpenConnectionCompleted(command, "there is no server"))


@contextmanager
def counted() -> Iterator[list[int]]:
    """Counts calls of functions, in Python and in C."""
    calls = [0]

    def count(_frame: FrameType, event: str, _argument: object) -> None:
        if event in ("call", "c_call"):
            calls[0] += 1

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        yield calls
    finally:
        sys.setprofile(before)


#: octets of the tables of HPACK and QPACK, as mitmproxy offers them
_TABLE = 4096


def octets_of_http3(fields: Fields) -> int:
    """The octets of a request whose fields are in the table of QPACK, if they all fit into it."""
    if sum(len(name) + len(value) + 32 for name, value in fields) > _TABLE:
        return max(sum(len(value) // 2 for _, value in fields if len(value) > _TABLE // 2), 20)
    encoder, decoder = pylsqpack.Encoder(), pylsqpack.Decoder(_TABLE, 16)
    encoder.apply_settings(_TABLE, 16)
    length = 0
    for stream in (0, 4, 8):
        control, block = encoder.encode(stream, fields)
        decoder.feed_encoder(control)
        encoder.feed_decoder(decoder.feed_header(stream, block)[0])
        length = len(control) + len(block) + 2  # the frame's kind and length
    return length


@pytest.mark.thorough
def test_no_octet_costs_more_than_ten_times_that_of_an_ordinary_request(hushlist: Hushlist) -> None:
    def cost(fields: Fields) -> tuple[int, int, int]:
        client = Client(hushlist)
        client.send(fields)
        octets, calls = min(client.send(fields) for _ in range(2))  # every few hundred, counters are put in order
        return octets, calls, octets_of_http3(fields)

    usual = cost(head(b"blocked.test", b"/folder/page.html?x=1"))
    costs = {name: cost(fields) for name, fields in requests()}
    worst = sorted(costs, key=lambda name: costs[name][1] / costs[name][0])[-5:]
    print(f"usual: {usual}", *(f"{name}: {costs[name]}" for name in worst), sep="\n")  # shown with a failure
    for octets, calls, octets3 in costs.values():
        assert calls / octets < 10 * usual[1] / usual[0]
        assert calls / octets3 < 10 * usual[1] / usual[2]


def ways(hushlist: Hushlist, flow: http.HTTPFlow) -> tuple[int, int]:
    """How many calls of our functions a request takes through the filter's hooks, and in how many of our files.

    What other tests have left to the garbage collector does not count, as it may end generators of ours. What stands in
    the place of mitmproxy's own reads does not either: it spares many more calls than it makes.
    """
    called: list[str] = []

    def note(frame: FrameType, event: str, _argument: object) -> None:
        file = frame.f_code.co_filename
        if event == "call" and file.startswith(_OURS) and file != cheap_reads.__file__:
            called.append(file)

    before = sys.getprofile()
    for name in ("requestheaders", "request", "responseheaders", "response"):
        if name == "responseheaders" and flow.response is None:
            flow.response = http.Response.make(200, b"x", {"content-type": "text/html"})
        gc.disable()
        sys.setprofile(note)
        try:
            getattr(hushlist, name)(flow)
        finally:
            sys.setprofile(before)
            gc.enable()
    return len(called), len(set(called))


@each_row(
    ("host", "kind", "rule", "calls", "files"),
    [
        ("h.example", "domains", "blocked.test", 60, 18),
        ("blocked.test", "domains", "blocked.test", 147, 32),
        ("h.example", "adblock", "/ads/banner", 103, 30),
    ],
)
def test_the_way_of_a_request_is_short(
    hushlist: Hushlist, host: str, kind: str, rule: str, calls: int, files: int
) -> None:
    policy = Path(ctx.options.hushlist_policy).parent / "short.yaml"
    (policy.parent / "short.txt").write_text(f"{rule}\n")
    layers = [{"name": "short", "lists": [{"file": "short.txt", "format": kind}]}]
    policy.write_text(yaml.safe_dump({"layers": layers}))
    ctx.options.hushlist_policy = str(policy)
    taken = (calls + 1, files + 1)
    for _ in range(4):  # the first fills what is remembered; what is put in order now and then is not of one request
        flow = flow_of(f"https://www.{host}/a/b?c=d", host=f"www.{host}", accept="text/html", accept_language="en")
        taken = min(taken, ways(hushlist, flow))
    assert flow.response is not None
    assert flow.response.status_code == (403 if host == "blocked.test" else 200)
    assert taken[0] <= calls
    assert taken[1] <= files
