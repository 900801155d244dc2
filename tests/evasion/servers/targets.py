"""Random targets that lead to /secret/ on one server or another, or out of /live/: the same for the same seed."""

from __future__ import annotations

from random import Random

# The first of each is the plain one. What a server may take for one slash, or for a part of a name:
_SLASHES = (
    b"/",
    *(b"//", b"//", b"///", b"/./", b"/%2e/", b"/.;x/", b"/;/", b"/;x/", b";x/", b"%3bx/", b"/%2f", b"%2f/", b"%2F/"),
    *(b"%2f", b"%2F", b"%2f", b"%252f", b"%252F", b"%25252f", b"\\", b"\\", b"/\\", b"%5c", b"%5C", b"%255c"),
    *(b"%u002f", b"%u005c", b"%c0%af", b"%c1%9c", b"%%32f", b"\xc0\xaf"),
)
_PARENTS = (
    b"..",
    *(b"%2e%2e", b"%2E%2e", b".%2e", b"%2e.", b"%252e%252e", b".%252e", b"%25252e%25252e", b"%%32e."),
    *(b"..;x", b"..;", b"..%3bx", b"%2e%2e;x", b"%2e%2e%3b", b"..%253b", b"..;a=%2f", b";x..", b"..%00", b"..%20"),
    *(b"%u002e%u002e", b".%u002e", b"%c0%ae%c0%ae", b".%c0%ae", b"..\t", b".\t.", b"..%09", b"...", b"..%23", b"..%3f"),
)
_NAMES = (
    b"a",
    *(b"b", b"b", b"live", b"live", b"hidden", b"secret", b"x", b"", b".", b"%2e", b"%252e", b"...", b"a..", b"..a"),
    *(b"a%2fb", b"a%2Fb", b"a%252fb", b"a%252Fb", b"a%25252fb", b"a%5cb", b"a%255cb", b"a\\b", b"%2f", b"%5c", b"\\"),
    *(b"a;x", b";x", b";", b"a;x=%2f", b"a;x=..", b"a%3bx", b"%3bx", b"a%253bx", b"a;%2fb", b"a%2fb;x", b"a;\\b"),
    *(b"a%3f", b"%3fb", b"a%253f", b"a%23", b"%23", b"a%2523b", b"a%u002fb", b"a%c0%afb", b"a%00b", b"%00", b"a\tb"),
    *(b"a:b", b"http:", b"a@b", b"%40", b"[a]", b"%", b"%zz", b"%u", b"a%2", b"a%25", b"%25", b"*", b"\xff", b"%ff"),
)
_SECRETS = (
    b"secret",
    *(b"%73ecret", b"secre%74", b"%2573ecret", b"se%63ret", b"secret;x", b"secret;", b"secret%3bx", b";secret"),
    *(b"%u0073ecret", b"s%65cre%2574", b"se\tcret", b"%%373ecret", b"%252573ecret", b"secret;x=%2f", b"secret;/.."),
)
#: what a reference begins with that has an authority, for those who read a target as one
_AUTHORITIES = (
    *(b"//a", b"/\\a", b"\\\\a", b"\\/a", b"//a:80", b"//b@a", b"//a%2fb", b"//a\\b", b"///a", b"//a;x", b"//[::1]"),
    *(
        b"/\t/a",
        b"//live",
        b"//secret",
        b"/%2fa",
        b"/%5ca",
        b"//path.test",
        b"//",
        b"////a",
        b"//.",
        b"//..",
        b"//a..b",
    ),
    *(b"//\\a", b"/\\/a", b"/.//a", b"//a@", b"//:80", b"//a:b", b"/http://a", b"//a%3f", b"//a%23"),
)
_TAILS = (
    b"",
    *(
        b"?",
        b"?q",
        b"?/../..",
        b"#",
        b"#x",
        b"#/../..",
        b";x",
        b"/",
        b"//",
        b"/.",
        b"/..",
        b"%00",
        b"%3f",
        b"%3f/..",
        b"%23",
    ),
    *(b"?/../live/", b"#/../live/", b"%3f/../../live/x", b"%23/../../live/x", b"%2f..", b"%5c..", b"/../x", b"%20"),
)
_LIVE = (b"/live", b"/live", b"//live", b"/a/../live", b"/a%2f../live", b"/%6cive", b"/live;x", b"/\\live", b"/live/")
_OUTSIDE = (b"hidden", b"x", b"a/x", b"a/b/x", b"")


def targets(number: int, seed: int) -> list[bytes]:
    """So many different targets; about a quarter is for ways out of /live/."""
    random, found = Random(seed), dict[bytes, None]()
    while len(found) < number:
        target = _Maker(random).target()
        if target[:1] != b"/" and random.random() < 0.9:
            target = b"/" + target
        found[target] = None
    return list(found)


class _Maker:
    """Makes one target; ``rarely`` says how much of it is unusual, as each server knows some of it only."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._rarely = random.choice((0.05, 0.15, 0.3, 1.0))

    def target(self) -> bytes:
        make = self._random.choice((self._climbing, self._climbing, self._with_authority, self._out_of_live))
        return make()

    def _climbing(self) -> bytes:
        """Down and up again, by as many parents as names, or nearly; then what is secret."""
        return self._walk() + self._secret()

    def _with_authority(self) -> bytes:
        walk = self._walk() if self._random.random() < 0.5 else b""
        return self._random.choice(_AUTHORITIES) + walk + self._secret()

    def _out_of_live(self) -> bytes:
        """From /live/ to a place that is not in it, which may be the secret one."""
        random = self._random
        start = self._choice(_LIVE)
        end = self._secret() if random.random() < 0.5 else self._choice(_SLASHES) + random.choice(_OUTSIDE)
        if start.startswith(b"//") and random.random() < 0.5:
            return start + end
        return start + self._walk() + self._choice(_SLASHES) + self._choice(_PARENTS) + end

    def _walk(self) -> bytes:
        random = self._random
        depth = random.choice((0, 1, 1, 1, 2, 2, 3))
        steps = [_NAMES] * depth + [_PARENTS] * max(0, depth + random.choice((-1, 0, 0, 0, 0, 0, 1)))
        if random.random() < 0.5:
            random.shuffle(steps)
        return b"".join(self._choice(kind) for step in steps for kind in (_SLASHES, step))

    def _secret(self) -> bytes:
        inside = self._random.choice((b"x", b"x", b"x", b"", b"a/x"))
        return b"".join(map(self._choice, (_SLASHES, _SECRETS, _SLASHES))) + inside + self._choice(_TAILS)

    def _choice(self, kind: tuple[bytes, ...]) -> bytes:
        """The plain one, which is the first, or any."""
        return self._random.choice(kind) if self._random.random() < self._rarely else kind[0]
