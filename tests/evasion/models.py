"""Models of servers: what each takes a target for; no target that leads one of them to a blocked page may pass.

    python tests/evasion/models.py [--targets N] [--seed S]

Each model follows its server's own code or documentation, and shares nothing with the filter. ``tests/evasion/servers``
asks the servers themselves.
"""

from __future__ import annotations

import argparse
import posixpath
import random
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from urllib.parse import unquote_to_bytes, urlsplit

from hushlist.core.decide.decision import STOPPING
from hushlist.core.decide.engine import Engine
from hushlist.core.match.expressions import full_hash
from hushlist.core.match.rule import Action, Expression, ExpressionHash, Rule, Terms
from hushlist.core.policy.policy_file import Layer, Policy
from hushlist.core.url.request import Request
from support.engines import index_of

#: a target as a path that is served; ``None`` where the server refuses it
Model = Callable[[bytes], bytes | None]


def _resolved(path: bytes, *, merging: bool) -> bytes | None:
    """Dot segments resolved, one after the other; ``None`` where they lead above the root."""
    kept: list[bytes] = []
    segments = path.split(b"/")[1:]
    for place, segment in enumerate(segments):
        last = place == len(segments) - 1
        if segment == b".." and not kept:
            return None
        if segment == b"..":
            kept.pop()
        elif (segment and segment != b".") or (not segment and not merging and not last):
            kept.append(segment)
        if last and segment in (b"", b".", b".."):
            kept.append(b"")
    return b"/" + b"/".join(kept)


def _path(target: bytes) -> bytes:
    return re.split(rb"[?#]", target, maxsplit=1)[0]


def nginx(target: bytes, *, merging: bool = True) -> bytes | None:
    """ngx_http_parse_complex_uri: escapes, slashes and dots in one pass, escapes once."""
    path = unquote_to_bytes(_path(target))
    return None if b"\0" in path or path[:1] != b"/" else _resolved(path, merging=merging)


def nginx_merging_nothing(target: bytes) -> bytes | None:
    """``merge_slashes off``."""
    return nginx(target, merging=False)


def python_http_server(target: bytes) -> bytes | None:
    """SimpleHTTPRequestHandler.translate_path."""
    if target.startswith(b"//"):
        target = b"/" + target.lstrip(b"/")
    path = unquote_to_bytes(_path(target))
    words = [word for word in posixpath.normpath(path).split(b"/") if word and word not in (b".", b"..")]
    return b"/" + b"/".join(words) + (b"/" if path.endswith(b"/") and words else b"")


def whatwg(target: bytes) -> bytes | None:
    """``new URL(target, "http://host").pathname``."""
    url = re.sub(rb"[\t\r\n]", b"", _path(target)).replace(b"\\", b"/")
    if url.startswith(b"//"):
        rest = url.lstrip(b"/")
        authority, slash, rest = rest.partition(b"/")
        if not authority:
            return None
        url = slash + rest or b"/"
    kept: list[bytes] = []
    segments = url.split(b"/")[1:]
    for place, segment in enumerate(segments):
        dots = segment.lower().replace(b"%2e", b".")
        if dots == b"..":
            kept = kept[:-1]
        elif dots != b".":
            kept.append(segment)
        if place == len(segments) - 1 and dots in (b".", b".."):
            kept.append(b"")
    return b"/" + b"/".join(kept)


def node(target: bytes) -> bytes | None:
    """A static server: ``path.normalize(decodeURIComponent(new URL(…).pathname))``."""
    path = whatwg(target)
    return None if path is None else posixpath.normpath(b"/" + unquote_to_bytes(path)) + _slash(path)


def _slash(path: bytes) -> bytes:
    return b"/" if unquote_to_bytes(path).endswith(b"/") else b""


def perl_http_daemon(target: bytes) -> bytes | None:
    """``URI->new(target)->path``, unescaped, and below a folder."""
    path = _path(target)
    if path.startswith(b"//"):
        path = b"/" + path[2:].partition(b"/")[2]
    return posixpath.normpath(b"/" + unquote_to_bytes(path).lstrip(b"/")) + _slash(path)


def rfc3986(target: bytes) -> bytes | None:
    """What normalizes by RFC 3986, 6.2.2, as a CDN may, in front of what unescapes once."""
    unreserved = rb"%(2[DE]|3[0-9]|4[1-9A-F]|5[0-9AF]|6[1-9A-F]|7[0-9AE])"
    path = re.sub(unreserved, lambda found: bytes.fromhex(found[1].decode()), _path(target), flags=re.IGNORECASE)
    resolved = _resolved(path, merging=False)
    return None if resolved is None else unquote_to_bytes(resolved)


def apache(target: bytes, *, decode_slashes: bool = False) -> bytes | None:
    """httpd from 2.4.50 with ``AllowEncodedSlashes NoDecode``: merge, unescape once but slashes, resolve."""
    path = re.sub(rb"/+", b"/", _path(target))
    escape = rb"%([0-9A-Fa-f]{2})" if decode_slashes else rb"%(?!2[Ff])([0-9A-Fa-f]{2})"
    path = re.sub(escape, lambda found: bytes.fromhex(found[1].decode()), path)
    return None if b"\0" in path else _resolved(path, merging=True)


def apache_decoding_slashes(target: bytes) -> bytes | None:
    """The same with ``AllowEncodedSlashes On``."""
    return apache(target, decode_slashes=True)


def tomcat(target: bytes, *, keep_slashes: bool = False) -> bytes | None:
    """CoyoteAdapter: parameters dropped, unescaped once, backslashes taken for slashes, merged and resolved."""
    path = re.sub(rb";[^/]*", b"", _path(target))
    if keep_slashes:
        path = re.sub(rb"%(?!2[Ff])([0-9A-Fa-f]{2})", lambda found: bytes.fromhex(found[1].decode()), path)
    else:
        path = unquote_to_bytes(path)
    return None if b"\0" in path else _resolved(re.sub(rb"/+", b"/", path.replace(b"\\", b"/")), merging=True)


def tomcat_keeping_slashes(target: bytes) -> bytes | None:
    """The same with ``encodedSolidusHandling="passthrough"``."""
    return tomcat(target, keep_slashes=True)


def jetty(target: bytes) -> bytes | None:
    """Dot segments are resolved with their parameters, before anything is unescaped."""
    path = _resolved(re.sub(rb";[^/]*", b"", _path(target)), merging=False)
    return None if path is None else unquote_to_bytes(path)


def iis(target: bytes) -> bytes | None:
    """Escapes of four digits too, a backslash is a slash."""
    path = re.sub(rb"%[uU]00([0-9A-Fa-f]{2})", lambda found: bytes.fromhex(found[1].decode()), _path(target))
    return _resolved(unquote_to_bytes(path).replace(b"\\", b"/"), merging=True)


def aspnet(target: bytes) -> bytes | None:
    """CookielessHelper.cs of .NET Framework behind IIS; and again, as HttpResponse.RemoveAppPathModifier did."""
    path = iis(target)
    found = re.search(rb"/(\((?:[A-Z]\([^/)]*\))+\))/", path or b"")
    if path is None or found is None:
        return path
    path = path[: found.start()] + path[found.end() - 1 :]
    return path.replace(b"/" + found[1], b"", 1) or b"/"


def windows(target: bytes) -> bytes | None:
    """A static server on NTFS, to which a folder's name is the same with the type of its stream ([MS-FSCC] 2.1.5)."""
    path = iis(target)
    return None if path is None else re.sub(rb"(?i)(:\$I30:|::)\$(INDEX_ALLOCATION|DATA)(?=/|\Z)", b"", path)


def unescaping_twice(target: bytes) -> bytes | None:
    """An application that unescapes what its server has unescaped, and resolves then."""
    return _resolved(unquote_to_bytes(unquote_to_bytes(_path(target))), merging=True)


def unescaping_again(target: bytes) -> bytes | None:
    """An application that unescapes what nginx has resolved, and asks the file system."""
    path = nginx(target)
    return None if path is None else posixpath.normpath(unquote_to_bytes(path)) + _slash(unquote_to_bytes(path))


def gunicorn(target: bytes) -> bytes | None:
    """``split_request_uri`` and PATH_INFO, in front of an application that asks the file system."""
    uri = b"." + target if target.startswith(b"//") else target
    path = unquote_to_bytes(urlsplit(uri.decode("latin-1")).path.encode("latin-1"))
    return posixpath.normpath(b"/" + path.removeprefix(b".").lstrip(b"/")) + _slash(path)


def plain(target: bytes) -> bytes | None:
    """A router that compares what was asked for, unescaped once."""
    return unquote_to_bytes(_path(target))


SERVERS: dict[str, Model] = {
    model.__name__: model
    for model in (
        nginx,
        nginx_merging_nothing,
        python_http_server,
        whatwg,
        node,
        perl_http_daemon,
        rfc3986,
        apache,
        apache_decoding_slashes,
        tomcat,
        tomcat_keeping_slashes,
        jetty,
        iis,
        aspnet,
        windows,
        unescaping_twice,
        unescaping_again,
        gunicorn,
        plain,
    )
}
#: what stands in front of a server and passes on what it has read, as it is
IN_FRONT: dict[str, Model] = {"": lambda target: target, "whatwg": whatwg, "rfc3986": rfc3986, "apache": apache}

_PIECES = (
    *(b"/", b"/", b"/", b"//", b"\\", b"%2f", b"%2F", b"%252f", b"%5c", b"%255C"),
    *(b"..", b"..", b".", b"%2e%2e", b".%2E", b"%2e", b"%252e%252e", b"%2%65."),
    *(b";", b";x", b"%3b", b"%3Bx", b"?", b"#", b"%3f", b"%23", b"%253F", b"%u002f", b"%", b"%25", b"%09", b"%00"),
    *(b"a", b"b", b"live", b"secret", b"%73ecret", b"/(S(x))", b"%28A(y)%29/", b"::$INDEX_ALLOCATION"),
)
_ENDS = (b"/secret/x", b"secret/x", b"%2fsecret/x", b"/%73ecret/x", b"\\secret/x", b"/hidden", b"hidden", b"/x")


def targets(number: int, seed: int) -> Iterator[bytes]:
    """Random targets that begin with a slash; many lead somewhere on one server or another."""
    chance = random.Random(seed)
    for _ in range(number):
        start = chance.choice((b"/", b"/", b"//", b"/live/", b"/\\"))
        yield start + b"".join(chance.choices(_PIECES, k=chance.randint(1, 9))) + chance.choice(_ENDS)


def _terms(action: Action) -> Terms:
    return Terms(action, "test", "test", layer="lists")


def _engine(*rules: tuple[Expression | ExpressionHash, Action]) -> Engine:
    found = [Rule(pattern, _terms(action), line) for line, (pattern, action) in enumerate(rules, 1)]
    return Engine(Policy("test", (Layer("lists"),)), index_of(found))


BLOCKED_FOLDER = {
    "in the clear": _engine((Expression(b"path.test/secret/"), Action.BLOCK)),
    "as a hash": _engine((ExpressionHash(full_hash(b"path.test/secret/")), Action.BLOCK)),
}
ALLOWED_FOLDER = _engine((Expression(b"path.test/"), Action.BLOCK), (Expression(b"path.test/live/"), Action.ALLOW))


def misses(target: bytes) -> Iterator[str]:
    """Each server that would serve for a target what is blocked, though the filter lets the target pass."""
    served = {
        f"{front} {name}".strip(): path
        for front, first in IN_FRONT.items()
        if (passed_on := first(target)) is not None
        for name, server in SERVERS.items()
        if (path := server(passed_on)) is not None
    }
    secret = [name for name, path in served.items() if _is_below(path, b"/secret/")]
    if secret:
        for how, engine in BLOCKED_FOLDER.items():
            if passes(engine, target):
                yield from (f"{name}, {how}" for name in secret)
    out = [name for name, path in served.items() if not _is_below(_open(path) + b"/", b"/live/")]
    if out and passes(ALLOWED_FOLDER, target):
        yield from (f"{name}, out of an allowed folder" for name in out)


def _is_below(path: bytes, folder: bytes) -> bool:
    """Whether a path lies in a folder, for what looks at the path or for what looks into the file system."""
    path = re.sub(rb"/+", b"/", path)
    found = posixpath.normpath(path) + (b"/" if re.search(rb"/\.{0,2}\Z", path) else b"")
    return path.startswith(folder) or found.startswith(folder)


def _open(path: bytes) -> bytes:
    """A path without escapes: to a rule, what is still escaped in a name is the name without escapes."""
    while path != (path := unquote_to_bytes(path)):
        pass
    return path


def passes(engine: Engine, target: bytes) -> bool:
    """Whether the filter lets a target of path.test pass."""
    return engine.decide(Request(b"http", (b"path.test",), 80, target)).action not in STOPPING


def main() -> int:
    """Try targets; print what was missed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--targets", type=int, default=500_000, help="how many (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32), help="default: a new one")
    arguments = parser.parse_args()
    print(f"seed {arguments.seed}")
    missed: Counter[str] = Counter()
    for target in targets(arguments.targets, arguments.seed):
        for miss in misses(target):
            if not missed[miss]:
                print(f"missed: {miss}: {target!r}")
            missed[miss] += 1
    print(f"{arguments.targets:,} targets, {len(SERVERS) * len(IN_FRONT)} models, {missed.total()} missed")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
