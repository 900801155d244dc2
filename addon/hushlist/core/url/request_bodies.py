"""What a request's body may be to a server: another request, where it reads none, or a query, where it is a form.

Spec: RFC 9112, 3 and 6; HTML, 4.10.21.7 (URL-encoded form data)
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import chain

from hushlist.core.errors import Excess
from hushlist.core.system.late_pattern import late_pattern
from hushlist.core.url.normalization import parameter_name
from hushlist.core.url.request import Request

#: octets of a body where the method usually has none, which is kept until it has ended
LONGEST_WHOLE_BODY = 1 << 20
# White space as any server has it: lines end by LF, and to some by CR. Spec: RFC 9112, 3; RFC 9110, 5.6.2
_BLANKS = rb"\x00-\x09\x0b\x0c\x0e-\x20\x7f\x85\xa0"
_BLANK = rb"[%b]" % _BLANKS
_METHOD_OF_LINE = late_pattern(rb"[\r\n]%b*+[!#$%%&'*+.^_`|~0-9A-Za-z-]++%b" % (_BLANK, _BLANK))
_VERSION_OF_LINE = late_pattern(rb"[Hh][Tt][Tt][Pp]/[0-9.]*+%b*+(?:[\r\n]|\Z)" % _BLANK)


@lru_cache(1)
def may_be_request(body: bytes) -> bool:
    """Whether a server that takes a body for the next request may read one in it: a line has a word and a space at its
    beginning, as a request's method, or a version of HTTP at its end.

    >>> may_be_request(b'{"query": "GET / HTTP/1.1"}'), may_be_request(b"GET /"), may_be_request(b"{ / HTTP/1.1")
    (False, True, True)

    No line of JSON has either: no word begins one but a number, or true, false or null; no space follows these, as
    programs write it, and what is in a string ends by a quotation mark.
    """
    return bool(_METHOD_OF_LINE.search(b"\n" + body) or _VERSION_OF_LINE.search(body))


#: what no server takes for a request's target: how a value of JSON begins, or a whole one with what follows there
_VALUE = rb'(?:["\[\]{}]|(?:true|false|null|-?[0-9.]++)[,}\]\r\n])'
#: of a line: something behind a word or at the beginning, and behind white space, that may be a target
_WORD = rb"[^\r\n%b]" % _BLANKS
_TARGET_OF_LINE = late_pattern(rb"[\r\n](?:%b++%b++|%b*+)%b++(?!%b)" % (_BLANK, _WORD, _WORD, _BLANK, _VALUE))


@lru_cache(1)
def may_join_request(body: bytes) -> bool:
    """Whether a server that takes a body for the beginning of the next request may read another target in it than that
    which follows: whatever it takes for a method, also nothing, and wherever its lines end.

    >>> may_join_request(b'{"key": "value", "n": [1, true]}'), may_join_request(b"a=1&b=c+d"), may_join_request(b"\\n")
    (False, False, False)
    >>> may_join_request(b"{ /x?"), may_join_request(b" /x?"), may_join_request(b'{"key":1} '), may_join_request(b"{ 1")
    (True, True, True, True)
    """
    return bool(_TARGET_OF_LINE.search(b"\n" + body)) or may_be_request(body)


# -- forms -------------------------------------------------------------------------------------------------------------

#: octets of a form that is decided
LONGEST_FORM = 1 << 16
#: encodings in which every octet below 128 is the character of ASCII, as it is where none is named
_LIKE_ASCII = late_pattern(
    rb"utf-?8|(?:us-)?ascii|iso-?8859-?\d{1,2}|latin-?1|windows-?\d{3,4}|cp\d{3,4}|koi8-[ru]|gbk?|gb(?:2312|18030)|big5"
    rb"|euc-(?:jp|kr)|s(?:hift)?[_-]?jis"
)
_CHARSET = late_pattern(rb"charset[ \t]*=[ \t\"']*([^;,\"' \t]*)")


def values_of(fields: Iterable[Sequence[bytes]], header: bytes) -> Iterator[bytes]:
    """The values of a header field."""
    return (value for name, value in fields if name.lower() == header)


def _fault_of_form(form: bytes, fields: Sequence[Sequence[bytes]]) -> str | None:
    """Why nobody can say what is typed into a form."""
    if len(form) > LONGEST_FORM:
        return f"its form is longer than {LONGEST_FORM:,} octets"
    if any(value.strip().lower() not in (b"", b"identity") for value in values_of(fields, b"content-encoding")):
        return "its form is compressed"
    charsets = chain.from_iterable(
        _CHARSET.findall(content_type.lower()) for content_type in values_of(fields, b"content-type")
    )
    if not all(_LIKE_ASCII.fullmatch(charset) for charset in charsets if charset):
        return "its form is in an encoding that is not read"
    return None


def with_form(request: Request, form: bytes, keys: Collection[bytes]) -> Request:
    """The request, and as if the fields of a form with some names were its query; no other field is told of."""
    if (why := _fault_of_form(form, request.fields)) is not None:
        return request._replace(fault=request.fault or Excess(why))
    mark = b"&" if b"?" in request.target else b"?"
    fields = (field for field in form.split(b"&") if any(parameter_name(part) in keys for part in field.split(b";")))
    query = b"&".join(fields).translate(None, b"\r").replace(b"\n", b"%0A").replace(b" ", b"+")
    read = request._replace(target=request.target + mark + query, others=())
    return request._replace(others=(*request.others, read))
