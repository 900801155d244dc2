"""The rungs of the comparison ladder, for IRIs and URIs.

>>> SYNTAX.canonicalize("eXAMPLE://a/./b/../b/%63/%7bfoo%7d/rosé")
b'example://a/b/c/%7Bfoo%7D/ros%C3%A9'
>>> SCHEME.canonicalize("http://résumé.example.org:80")
b'http://xn--rsum-bpad.example.org/'

A URI is an IRI of US-ASCII characters, and mapping it to a URI does not change it. So each rung has one profile. A
profile begins with the steps of the rung below, so IRIs that are equivalent on a rung are equivalent on all higher
ones. A normal form is a URI, made "only for local comparison"; the caller keeps the original: "its original form MUST
be preserved" (4.2.3).

No rung normalizes characters: "Equivalence of IRIs MUST rely on the assumption that IRIs are appropriately
pre-character-normalized" (4.2.2). No rung decodes escapes of the text around an IRI: "this preprocessing is usually
done when the protocol or format is parsed" (3).

Spec: draft-ietf-iri-comparison-00; RFC 3986, 6.2; RFC 3987, 3.1 for the mapping
"""

from __future__ import annotations

import re
from contextlib import suppress
from functools import partial, wraps

from hushlist.core.errors import UrlError
from hushlist.core.system.late_pattern import late_pattern
from hushlist.core.url import host as hosts
from hushlist.core.url import normalization, rfc3986
from hushlist.core.url.hrn import parse_hrn
from hushlist.core.url.parts import DEFAULT_PORTS, Parts, Profile, Step, split_generic

# -- 4.2.3, 4.3: the steps that only an IRI needs ----------------------------------------------------------------

_IN_URI = normalization.UNRESERVED + b":/?#[]@!$&'()*+,;=%"


#: percent-encodes what no URI has
mapped_to_uri = partial(normalization.percent_encode, safe=_IN_URI)


def map_to_uri(parts: Parts) -> Parts:
    """4.2.3: "the percent-encoding of both IRIs to be compared has to be aligned; for example, by converting both IRIs
    to URIs".

    The host, too, is percent-encoded here: only the scheme says that "IDN components and their conversions to punycode"
    are equivalent (4.3). US-ASCII characters that no URI has, such as space and "{", are mapped like the others, as
    RFC 3987, 3.1 permits: "differences in percent-encoding (except for the percent-encoding of reserved characters)
    MUST always result in the same resource".
    """
    return parts.change(mapped_to_uri)


_ESCAPED_NON_ASCII = late_pattern(rb"%([89A-F][0-9A-F])")


def _a_labels(host: bytes) -> bytes:
    """A-labels of a percent-encoded host; one that is not a name, or that UTS 46 refuses, stays as it is."""
    decoded = _ESCAPED_NON_ASCII.sub(lambda match: bytes((int(match[1], 16),)), host)
    name = hosts.to_ascii(decoded)
    return mapped_to_uri(name) if name and name.isascii() else host


def convert_to_a_labels(parts: Parts) -> Parts:
    """4.3: "Scheme-based normalization may also consider IDN components and their conversions to punycode as
    equivalent", "either in their ireg-name part or elsewhere", which is ``mailto``, ``sip``, ``sips`` and ``xmpp``.

    Deviation: "For legibility purposes, they SHOULD NOT be converted into ASCII Compatible Encoding". Here nobody reads
    them. Two U-labels can have the same A-label, but not the reverse (reading 7).

    Only for schemes whose hosts are looked up in the DNS.
    """
    if parts.host is not None and parts.scheme in DEFAULT_PORTS:
        parts = parts._replace(host=_a_labels(parts.host))
    return rfc3986.change_mail_hosts(parts, _a_labels)


def _generic(step: Step) -> Step:
    """The step, but not for ``hrn`` and ``hashed``, whose text has its own syntax: ".." is a name in an ``hrn`` name,
    and what stands in front of "?" may be a user."""

    @wraps(step)
    def change(parts: Parts) -> Parts:
        return parts if parts.scheme in (b"hrn", b"hashed") else step(parts)

    return change


#: Spec: draft-feather-hashed-uri-03, 4.1
_HASHED = late_pattern(r"hashed:[a-z0-9.-]+=[0-9a-f]+(?:\+(?:frag|query))*", re.IGNORECASE | re.ASCII)


def normalize_own_syntax(parts: Parts) -> Parts:
    """The normal form of an ``hrn`` name (RFC 3986, 6.2.2, by draft-pstickler-hrn-00), and of a hashed URI: "The entire
    URI is case-insensitive" (draft-feather-hashed-uri-03, 4.1), and its flags have no order.

    What their grammars refuse stays as it is.
    """
    text = parts.join().decode("ascii", "replace")
    if parts.scheme == b"hrn":
        with suppress(UrlError):
            return split_generic(str(parse_hrn(text)).encode())
    elif parts.scheme == b"hashed" and _HASHED.fullmatch(text):
        data, *flags = parts.path.lower().split(b"+")
        return parts._replace(path=b"+".join((data, *sorted(set(flags)))))
    return parts


# -- 4: the ladder -----------------------------------------------------------------------------------------------

#: 4.1: "the comparison function MUST NOT map IRIs to URIs". Text is compared as UTF-8, which gives every sequence of
#: characters octets of its own: equal octets are equal "codepoint by codepoint".
SIMPLE = Profile("simple", steps=())
#: 4.2: "case normalization, character normalization, percent-encoding normalization, and removal of dot-segments"; the
#: second "MUST rely on the assumption" that it was done before
SYNTAX = Profile(
    "syntax",
    steps=(
        map_to_uri,
        rfc3986.lowercase_scheme,
        *map(_generic, (rfc3986.normalize_escapes, rfc3986.lowercase_host, rfc3986.remove_dots)),
    ),
)
#: 4.3. "Normalization should not remove delimiters when their associated component is empty unless it is licensed to do
#: so by the scheme specification": "?", "#", and the "@" and ":" of user information stay.
SCHEME = Profile(
    "scheme",
    steps=(
        *SYNTAX.steps,
        convert_to_a_labels,
        rfc3986.lowercase_mail_host,
        rfc3986.join_recipients,
        rfc3986.lowercase_namespace,
        _generic(rfc3986.remove_port),
        rfc3986.normalize_default_host,
        _generic(rfc3986.complete_path),
        normalize_own_syntax,
    ),
)
