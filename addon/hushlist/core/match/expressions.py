"""Host-suffix/path-prefix expressions of a URL, the most specific first, and their hashes. Rules are found by them.

>>> from hushlist.core.url.parts import split_web
>>> for expression in expressions(split_web(b"http://a.b.c/1/2.html?param=1")): print(expression.decode())
a.b.c/1/2.html?param=1
a.b.c/1/2.html
a.b.c/1/
a.b.c/
b.c/1/2.html?param=1
b.c/1/2.html
b.c/1/
b.c/

Spec: Safe Browsing v4, URLs and Hashing, Suffix/prefix expressions, Hash computations and Hash prefix computations
"""

from __future__ import annotations

from hashlib import sha256

from hushlist.core.url.host import is_address
from hushlist.core.url.parts import Parts

#: octets; "a hash prefix consists of the most significant 4-32 bytes of a SHA256 hash"
SHORTEST_PREFIX = 4
FULL_LENGTH = 32


def full_hash(expression: bytes) -> bytes:
    """The SHA-256 of an expression, 32 octets.

    >>> full_hash(b"abc").hex()[:8]
    'ba7816bf'
    """
    return sha256(expression).digest()


# "Up to four hostnames formed by starting with the last five components and successively removing the leading
# component. The top-level domain can be skipped."
DEEPEST_HOST = 5
# "The four paths that can be formed by starting at the root (/) and successively appending path components, including
# a trailing slash." The root has no component, so the deepest has three.
DEEPEST_PATH = 3


def expressions(parts: Parts) -> list[bytes]:
    """At most 30 expressions of a canonical URL, each once."""
    assert parts.host is not None
    paths = path_prefixes(parts.path, parts.query)
    return [host + path for host in host_suffixes(parts.host) for path in paths]


def own_expression(parts: Parts) -> bytes:
    """The most specific expression of a canonical URL: the pattern of a rule that is written as this URL."""
    assert parts.host is not None
    return parts.host + path_prefixes(parts.path, parts.query, deepest=0)[0]


def host_suffixes(host: bytes, deepest: int = DEEPEST_HOST, path: bytes = b"") -> list[bytes]:
    """The host, and its suffixes of two to ``deepest`` labels, the longest first; each with a path behind it.

    "If the host is an IP address, these additional hostnames should not be checked."

    >>> host_suffixes(b"a.b.c.d.e.f.g")[:2], host_suffixes(b"a.b.c", path=b"/")
    ([b'a.b.c.d.e.f.g', b'c.d.e.f.g'], [b'a.b.c/', b'b.c/'])
    """
    whole = host + path
    dot = host.rfind(b".", 0, host.rfind(b"."))
    if dot < 0 or is_address(host):
        return [whole]
    suffixes = [whole, whole[dot + 1 :]]
    while len(suffixes) < deepest and (dot := host.rfind(b".", 0, dot)) >= 0:
        suffixes.insert(1, whole[dot + 1 :])
    return suffixes


def suffixes_with_top_level(host: bytes, deepest: int = DEEPEST_HOST, path: bytes = b"") -> list[bytes]:
    """``host_suffixes``, and the top-level name: for rules in the clear, which may name one.

    >>> suffixes_with_top_level(b"a.b.zip"), suffixes_with_top_level(b"192.0.2.1")
    ([b'a.b.zip', b'b.zip', b'zip'], [b'192.0.2.1'])
    """
    top = host[host.rfind(b".") + 1 :]
    suffixes = host_suffixes(host, deepest, path)
    return suffixes if top == host or is_address(host) else [*suffixes, top + path]


def deepest_folder(path: bytes, deepest: int = DEEPEST_PATH) -> bytes:
    """The first folder among the path's prefixes: it has all others above it. Nothing if there is none.

    >>> deepest_folder(b"/1/2/3/4/5.html"), deepest_folder(b"/1/2/"), deepest_folder(b"/")
    (b'/1/2/3/', b'/1/', b'')
    """
    if path.count(b"/") > deepest + 1:
        return path[: -len(path.split(b"/", deepest + 1)[-1])]
    return path[: path.rfind(b"/", 0, -1) + 1]


def folders_above(folder: bytes) -> list[bytes]:
    """A folder and those above it but for the root, the deepest first.

    >>> folders_above(b"/1/2/3/"), folders_above(b"/1/")
    ([b'/1/2/3/', b'/1/2/', b'/1/'], [b'/1/'])
    """
    folders, end = [folder], len(folder) - 1
    while (end := folder.rfind(b"/", 0, end)) > 0:
        folders.append(folder[: end + 1])
    return folders


def path_prefixes(path: bytes, query: bytes | None, deepest: int = DEEPEST_PATH) -> list[bytes]:
    """The path with its query, without it, and its folders down to ``deepest`` components, the deepest first.

    An empty query "gives no expression of its own".

    >>> path_prefixes(b"/1/2/3/4/5.html", None)
    [b'/1/2/3/4/5.html', b'/1/2/3/', b'/1/2/', b'/1/', b'/']
    """
    folders: list[bytes] = []
    end = path.find(b"/") + 1
    while end and len(folders) <= deepest:
        if end < len(path):
            folders.append(path[:end])
        end = path.find(b"/", end) + 1
    folders.reverse()
    exact = [path + b"?" + query, path] if query else [path]
    return exact + folders
