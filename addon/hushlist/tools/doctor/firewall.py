"""Whether a router's nftables close the ways past the proxy. What a rule's other conditions leave open, it cannot tell.

Spec: libnftables-json(5)
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from hushlist.core.diagnosis import GOOD, UNKNOWN, WARNING, About, Diagnosis
from hushlist.core.system.files import read_regular

#: what goes past the proxy -> its protocol and port
_WAYS = {
    "the web": (("tcp", 80), ("tcp", 443)),
    "QUIC": (("udp", 443),),
    "DNS": (("udp", 53), ("tcp", 53)),
    "DNS over TLS": (("tcp", 853),),
    "DNS over QUIC": (("udp", 853),),
}
FORWARDING = (Path("/proc/sys/net/ipv4/ip_forward"), Path("/proc/sys/net/ipv6/conf/all/forwarding"))
#: verdicts by which a packet does not go on to where it was sent
_CLOSING = ("drop", "reject", "redirect", "dnat", "tproxy")
_HOOKS = ("prerouting", "forward")
_PATIENCE = 10.0

_Object = Mapping[str, Any]
#: family, table and name
_Key = tuple[str, str, str]


def examine_router(*, is_router: bool = False) -> Iterator[Diagnosis]:
    """Look at the rules of this machine, if it forwards packets of others; ``is_router``: as if it did."""
    if not is_router and not any(map(_is_on, FORWARDING)):
        yield Diagnosis(About.ROUTER, GOOD, "this machine forwards nothing of others: it is no router")
        return
    nft = shutil.which("nft", path=os.pathsep.join((os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin")))
    if nft is None:
        yield Diagnosis(About.ROUTER, UNKNOWN, "what it closes: there is no nft", "see examples/router")
        return
    try:
        command = [nft, "-j", "list", "ruleset"]
        done = subprocess.run(command, capture_output=True, timeout=_PATIENCE, check=False)  # noqa: S603
        objects = json.loads(done.stdout)["nftables"] if done.returncode == 0 else None
    except (OSError, ValueError, TypeError, LookupError, subprocess.TimeoutExpired):
        objects = None
    if not isinstance(objects, list):
        what = "what it closes: nftables do not show this user their rules"
        yield Diagnosis(About.ROUTER, UNKNOWN, what, "ask as root: sudo hushlist doctor --router")
        return
    yield from examine_rules(objects)


def _is_on(path: Path) -> bool:
    try:
        return read_regular(path, 16).strip() == b"1"
    except OSError:
        return False


def examine_rules(objects: Sequence[_Object]) -> Iterator[Diagnosis]:
    """What a set of rules closes, as ``nft -j list ruleset`` shows it."""
    for name, ways in _WAYS.items():
        left = [f"{protocol.upper()} port {port}" for protocol, port in ways if not _closes(objects, protocol, port)]
        if left:
            what = f"{name} goes past the proxy: no rule is seen that closes {' and '.join(left)}"
            advice = "examples/router/hushlist.nft closes it"
            yield Diagnosis(About.ROUTER, WARNING, what, advice)
        else:
            yield Diagnosis(About.ROUTER, GOOD, f"{name} is closed, for what the rules' other conditions say")


def _closes(objects: Sequence[_Object], protocol: str, port: int) -> bool:
    """Whether the first rule that may be for a packet to a port of any address keeps it from there."""
    for chain in (item["chain"] for item in objects if item.get("chain", {}).get("hook") in _HOOKS):
        verdict = _verdict_of_chain(objects, _key(chain), protocol, port)
        if verdict is None and chain["hook"] == "forward":
            verdict = chain.get("policy")
        if verdict in _CLOSING:
            return True
    return False


def _key(item: _Object, name: str = "name") -> _Key:
    return item["family"], item["table"], item[name]


def _verdict_of_chain(objects: Sequence[_Object], chain: _Key, protocol: str, port: int) -> str | None:
    """What the first rule that may fit does, in this chain or in one that it jumps to; the kernel refuses circles."""
    sets = {_key(item["set"]): item["set"].get("elem", []) for item in objects if "set" in item}
    for rule in (item["rule"] for item in objects if "rule" in item and _key(item["rule"], "chain") == chain):
        verdict = _verdict(rule, protocol, port, sets)
        how, _, called = (verdict or "").partition(" ")
        if called:
            verdict = _verdict_of_chain(objects, (*chain[:2], called), protocol, port)
        if verdict is not None or how == "goto":
            return verdict
    return None


def _verdict(rule: _Object, protocol: str, port: int, sets: Mapping[_Key, Any]) -> str | None:
    """What a rule does with a new connection to a port, such as ``drop``, or ``jump`` and ``goto`` with a chain's name.

    ``None`` if it may be for others, or does nothing final.
    """
    verdict = None
    for expression in rule.get("expr", []):
        if "match" in expression:
            match = expression["match"]
            values = match["right"]
            if isinstance(values, str) and values.startswith("@"):
                values = {"set": sets.get((rule["family"], rule["table"], values[1:]), [])}
            if not _may_fit(match["left"], match.get("op", "=="), values, protocol, port):
                return None
        verdict = next((f"{how} {expression[how]['target']}" for how in ("jump", "goto") if how in expression), verdict)
        verdict = next((word for word in (*_CLOSING, "accept") if word in expression), verdict)
    return verdict


def _may_fit(left: Any, operator: str, values: Any, protocol: str, port: int) -> bool:
    """Whether a condition may hold for some client's new connection to any address."""
    payload = left.get("payload", {}) if isinstance(left, dict) else {}
    if payload.get("field") == "dport":
        return payload.get("protocol") in (protocol, "th") and _has(values, port) is (operator in ("==", "in"))
    if payload.get("field") in ("daddr", "sport") or "concat" in str(left):
        return False  # of some destinations alone
    if "iifname" in str(left) and operator == "!=":
        return False  # of others than the devices
    if payload.get("field") in ("protocol", "nexthdr") or "l4proto" in str(left):
        return _has(values, protocol)
    if "ct" in left:
        return _has(values, "new")
    return True


def _has(values: Any, wanted: int | str) -> bool:
    """Whether a value, a range or a set of such has one."""
    if isinstance(values, list):
        return any(_has(value, wanted) for value in values)
    if not isinstance(values, dict):
        return bool(values == wanted)
    if "range" in values:
        low, high = values["range"]
        return isinstance(wanted, int) and isinstance(low, int) and low <= wanted <= high
    return _has(values.get("set", values.get("elem", values.get("val", []))), wanted)
