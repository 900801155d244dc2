"""dnscrypt-proxy's lists of blocked names: ``a.example``, ``*.a.example``, ``=a.example``, ``ads.*``, ``*ads*``.

An entry that holds at some times alone (``@times``) is left out: a policy's layer can have them.

Spec: https://github.com/DNSCrypt/dnscrypt-proxy/wiki/Filters, Pattern-based blocking
"""

from __future__ import annotations

from collections.abc import Iterator

from hushlist.core.match.rule import Rule
from hushlist.extensions.formats.rule_maker import RuleMaker, plain_lines, read_lines


def _read(maker: RuleMaker, entry: str, line: int) -> Iterator[Rule]:
    name, at, _ = entry.partition("@")
    if at:
        return maker.kind(entry, line, "an entry with times")
    name = name.strip()
    plain = name.removeprefix("=").removeprefix("*.")
    return maker.glob(name, line) if any(sign in plain for sign in "*?[") else maker.name(plain.lstrip("."), line)


read_dnscrypt = read_lines(plain_lines(rb"(?:=|\*\.)?"), _read)
