"""Bounds of DNS: names that are made of pointers, and questions that are kept."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

from mitmproxy import dns
from mitmproxy.net.dns import domain_names
from mitmproxy.proxy.context import Context
from mitmproxy.proxy.layers import DNSLayer

#: octets of a name. Spec: RFC 1035, 2.3.4
LONGEST_DNS_NAME = 255
#: octets that are read of all names in a DNS message: by pointers, two octets are a whole name
MOST_OF_NAMES = 1 << 16
#: flows of one DNS connection
MOST_QUESTIONS = 1 << 10
#: what a pointer's first octet is at least
_POINTER = 0b1100_0000
#: a place that no name has, for the sum of their octets; what is not read yet
_SUM, _UNREAD = -1, ("", 0)


class _LastQuestions(dict[int, dns.DNSFlow]):
    """The last flows of a DNS connection by their numbers: mitmproxy keeps the answered ones, too."""

    def __setitem__(self, number: int, flow: dns.DNSFlow) -> None:
        super().__setitem__(number, flow)
        if len(self) > MOST_QUESTIONS:
            del self[next(iter(self))]


def _begin_with_last_questions(begin: Callable[..., None], own: DNSLayer, context: Context) -> None:
    begin(own, context)
    own.flows = _LastQuestions()


def _read_name(buffer: bytes, offset: int, cache: dict[int, Any]) -> tuple[str, int]:
    """A name of a DNS message, and the number of its octets there: by pointers, the rest of it stands elsewhere.

    All that is read of a message counts. mitmproxy itself reads on to its end before it finds a name too long,
    and does so for each octet of a record's data that may be a pointer. It fails where it is told of another error.
    Spec: RFC 1035, 2.3.4: names have "255 octets or less"
    """
    if cache.get(offset, _UNREAD) is None:
        raise struct.error("a name leads back to itself")
    _spend(cache, 1)
    if offset not in cache:
        cache[offset] = None
        try:
            cache[offset] = _read_labels(buffer, offset, cache)
        except (IndexError, RecursionError, UnicodeError) as error:
            raise struct.error("a name cannot be read") from error
    found: tuple[str, int] = cache[offset]
    _spend(cache, len(found[0]))
    if len(found[0]) > LONGEST_DNS_NAME:
        raise struct.error("a name is too long")
    return found


def _read_labels(buffer: bytes, start: int, cache: dict[int, Any]) -> tuple[str, int]:
    labels, offset = list[str](), start
    while size := buffer[offset]:
        if size >= _POINTER:
            (pointer,) = struct.unpack_from("!H", buffer, offset)
            labels.append(_read_name(buffer, pointer - (_POINTER << 8), cache)[0])
            return ".".join(labels), offset + 2 - start
        _spend(cache, 1 + size)
        offset += domain_names._unpack_label_into(labels, buffer, offset)
        if offset - start >= LONGEST_DNS_NAME:
            raise struct.error("a name is too long")
    return ".".join(labels), offset + 1 - start


def _spend(cache: dict[int, Any], octets: int) -> None:
    cache[_SUM] = spent = cache.get(_SUM, 0) + octets
    if spent > MOST_OF_NAMES:
        raise struct.error("the names of a message are too long")


#: as in ``bounded_http``
REPLACED = ((domain_names, "unpack_from_with_compression", _read_name),)
WRAPPED = ((_begin_with_last_questions, ("__init__",), (DNSLayer,)),)
