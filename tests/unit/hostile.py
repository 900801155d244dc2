"""What a pupil who wants past the filter sends, as strategies and samples; and small builders of rules and engines."""

from __future__ import annotations

import re
import time
from collections.abc import Callable

from hypothesis import strategies as st

from hushlist.core.decide.decision import Decision, Judgement
from hushlist.core.decide.engine import Engine
from hushlist.core.lists.list_source import ListDefaults, ProblemReport
from hushlist.core.lists.yaml_rules import read_yaml
from hushlist.core.match.index_writer import index_of
from hushlist.core.match.rule import Action, Rule
from hushlist.core.policy.groups import NOBODY, GroupSettings
from hushlist.core.policy.policy_file import Layer, Policy
from hushlist.core.url.request import Request

#: octets; as long as most servers let a request's target be
LONG = 64 * 1024

_CHUNKS = (
    *(b"http://", b"https:", b"//", b"/", b"\\", b"?", b"#", b"@", b":", b";", b"&", b".", b"..", b"/./", b"/../"),
    *(b"%", b"%2", b"%25", b"%2525", b"%2e", b"%2F", b"%3f", b"%23", b"%40", b"%3A", b"%5b", b"%5c", b"%00", b"%C3"),
    *(b"[", b"]", b"[::1]", b"::ffff:1.2.3.4", b"127.1", b"0x7f", b"017", b"3279880203", b"1.2.3.4", b"80", b"0"),
    *(b"a", b"A", b"b.example", b"EXAMPLE", b"xn--", b"-", b" ", b"\t", b"\r", b"\n", b"\x00", b"\x80", b"\xff"),
    *(text.encode() for text in ("ü", "Ü", "ß", "。", "．", "｡", "…", "１", "％", "／", "\u200d", "\u00ad", "☃", "İ")),
)


def octets() -> st.SearchStrategy[bytes]:
    """Any octets, and those that mean something to a reader of URLs; each is drawn at once, which takes little time."""
    return (
        st.binary(max_size=40)
        | st.binary(max_size=12).map(_chunks)
        | st.binary(min_size=12, max_size=80).map(_chunks_and_octets)
    )


def _chunks(drawn: bytes) -> bytes:
    return b"".join(_CHUNKS[octet % len(_CHUNKS)] for octet in drawn)


def _chunks_and_octets(drawn: bytes) -> bytes:
    pairs = zip(drawn[::2], drawn[1::2], strict=False)
    return b"".join(_CHUNKS[octet % len(_CHUNKS)] if kind % 2 else bytes([octet]) for kind, octet in pairs)


def urls() -> st.SearchStrategy[bytes]:
    """Octets, most of them behind a scheme and a host."""
    hosts = st.sampled_from([b"a.example", b"a.b.c.d.e.f.example", b"1.2.3.4", b"[::1]", b"h"])
    return octets() | octets().map(b"http://".__add__) | st.builds(b"http://%b/%b".__mod__, st.tuples(hosts, octets()))


def rules_of(text: str, source: str = "list.yaml", layer: str = "") -> tuple[Rule, ...]:
    """The rules of a YAML list that has no errors."""
    report = ProblemReport(source)
    rules = tuple(read_yaml(text.encode(), ListDefaults(layer=layer), report))
    assert report.errors == []
    return rules


def rules_in(layer: Layer) -> list[Rule]:
    """The rules of a policy's layer, read from its files."""
    texts = ((file, file.path.read_bytes(), ProblemReport(str(file.path))) for file in layer.lists)
    return [rule for file, text, report in texts for rule in file.format.read(text, file.defaults, report)]


def engine_of(*layers: str, unparsable: Action = Action.BLOCK) -> Engine:
    """An engine of YAML lists, each a layer: ``first``, ``second`` and so on."""
    named = tuple(zip(("first", "second", "third"), layers, strict=False))
    rules = [rule for name, text in named for rule in rules_of(text, f"{name}.yaml", name)]
    policy = Policy("policy.yaml", tuple(Layer(name) for name, _ in named), unparsable)
    return Engine(policy, index_of(rules))


def judgement_of(decision: Decision, mode: str = "block", reference: str | None = None) -> Judgement:
    """A decision as the proxy carries it on."""
    request = decision.asked if isinstance(decision.asked, Request) else Request(b"http", (b"h.example",), 80, b"/")
    return Judgement(request, NOBODY, GroupSettings(mode=mode), decision, 1000, reference)


_SQUID_ESCAPES = re.compile(rb"[\x00-\x20\"#%'<>\[-^`{-\xff]")


def as_squid_escapes(octets: bytes) -> bytes:
    """What Squid 5 makes of a URL for ``%#>ru``, as was seen."""
    return _SQUID_ESCAPES.sub(lambda octet: b"%%%02X" % octet[0][0], octets)


def seconds(work: Callable[[], object]) -> float:
    """How much processor time it takes."""
    start = time.process_time()
    work()
    return time.process_time() - start


def rfc3986_5_2_4(path: bytes) -> bytes:
    """The RFC's own words, step by step; quadratic."""
    out = b""
    while path:
        if path.startswith((b"../", b"./")):  # A
            path = path.split(b"/", 1)[1]
        elif path.startswith(b"/./") or path == b"/.":  # B
            path = b"/" + path[3:]
        elif path.startswith(b"/../") or path == b"/..":  # C
            path = b"/" + path[4:]
            out = out[: out.rindex(b"/")] if b"/" in out else b""
        elif path in (b".", b".."):  # D
            path = b""
        else:  # E
            end = path.find(b"/", 1)
            segment = path if end < 0 else path[:end]
            out += segment
            path = path[len(segment) :]
    return out
