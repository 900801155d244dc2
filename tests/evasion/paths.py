"""Spellings of paths and queries of sites that are allowed, and ways out of an allowed folder of a blocked site."""

from __future__ import annotations

from collections.abc import Iterator

from e2e.proxy import request_head
from evasion.entries import Entry, fields, shown

#: family -> how a server may be asked for something in /secret/
SECRET: dict[str, list[bytes]] = {
    "escapes in the path": [
        b"/secret/",
        b"/secret/?",
        b"/secret/#top",
        b"/%73ecret/x",
        b"/%73%65%63%72%65%74/x",
        b"/%73%65%63%72%65%74%2F",
        b"/%2573ecret/x",
        b"/%252573ecret/x",
        b"/%25252573ecret/x",
        b"/%%373ecret/x",
        b"/%7%33ecret/x",
        b"/%%37%33ecret/x",
        b"/%25%37%33ecret/x",
        b"/secret%2fx",
        b"/secret%2Fx",
        b"/secret%252Fx",
        b"/secret%25252fx",
        b"%2fsecret%2fx",
        b"/secret/%00",
        b"/secret/%0d%0aX:%20y",
        b"/secret/%",
        b"/secret/%zz",
        b"/secret/%u",
        # IIS's own escapes
        b"/%u0073ecret/x",
        b"/%U0073ecret/x",
        b"/secret%u002fx",
        b"/a/%u002e%u002e/secret/x",
        b"/%25u0073ecret/x",
        b"/%u0073%u0065%u0063%u0072%u0065%u0074/",
    ],
    "dot segments": [
        b"/./secret/x",
        b"/././././secret/x",
        b"/a/../secret/x",
        b"/../../secret/x",
        b"/%2e/secret/x",
        b"/%2E%2e/secret/x",
        b"/a/%2e%2E/secret/x",
        b"/a/.%2e/secret/x",
        b"/a/%2e./secret/x",
        b"/a/%252e%252e/secret/x",
        b"/a%2f..%2fsecret/x",
        b"/a%2f%2e%2e%2fsecret%2fx",
        b"/a/b/c/../../../secret/x",
        b"/a/..//secret/x",
        b"/x//../secret/x",
        b"/x//..//../secret/x",
        b"/secret/.",
        b"/secret/./././",
        b"/secret/x/..",
        b"/secret/../secret/x",
        b"/secret/x/../../secret/",
        b"/secret/..",
        b"/secret/../x",
        # a server that decodes once, or not at all, before it resolves, and takes the rest for part of the name
        b"/./secret/x.php/%252e%252e/%252e%252e/%252e%252e/",
        b"/a/../secret/x.php/%252e%252e/%252e%252e/",
        b"/a/../secret/x.php/%2e%2e/%2e%2e/",
        b"/./secret/x.php%3f/%252e%252e/%252e%252e/",
        b"/a/%2e%2e/secret/x.php/%252e%252e/%252e%252e/",
    ],
    "slashes": [
        b"//secret/x",
        b"///secret///x",
        b"//////////secret/x",
        b"/%2fsecret/x",
        b"/%2f%2f%2Fsecret/x",
        b"/.//secret/x",
        b"/a//..//secret/x",
        b"/secret//x",
        b"/secret/%2f",
    ],
    "backslashes": [
        b"\\secret\\x",
        b"/\\secret/x",
        b"\\/secret/x",
        b"\\\\secret\\\\x",
        b"/secret\\x",
        b"/secret%5cx",
        b"/%5csecret%5cx",
        b"/%255csecret%255Cx",
        b"/a\\..\\secret\\x",
        b"/a%5c%2e%2e%5csecret/x",
        b"/a/..%5csecret/x",
        b"/x\\\\..\\secret/x",
        b"/.\\secret/x",
    ],
    # servers that unescape some of it, or that take the target for a reference
    "half unescaped": [
        b"/a%252fb//..%2fsecret/x",
        b"/a%252Fb/%2f../secret/x",
        b"/a%2Fb/%2e%2e/secret/x",
        b"/a%5cb\\../secret/x",
        b"/a%252Fb/..;x/secret/x",
        b"/a%2Fb/..;x/secret/x",
        b"/a%2Fb/..%3bx/secret/x",
        b"/a%3Bb/%2e%2e/secret/x",
        b"/%2%65/secret/x",
        b"/a%2Fb/%2%65%2%65/secret/x",
        b"/a%252Fb%2F..%2Fsecret/x",
    ],
    "authorities in the path": [
        b"//a/secret/x",
        b"///a/secret/x",
        b"//a:80/secret/x",
        b"//u@a/secret/x",
        b"/\\a/secret/x",
        b"/\\\\a\\secret\\x",
        b"/%2fa/secret/x",
        b"/%5ca/secret/x",
        b"//a//b/secret/x",
        b"//a/b/../secret/x",
        b"/.//a/secret/x",
        b"//a\\secret/x",
    ],
    # what Windows, and servers in C, leave out
    "ends of names": [
        b"/secret./x",
        b"/secret../x",
        b"/secret%20/x",
        b"/secret.%20./x",
        b"/secret%2e/x",
        b"/.../secret/x",
        b"/a/.../../secret/x",
        b"/a/..%20/secret/x",
        b"/secret/x%00",
        b"/secret/x%00/../..",
    ],
    # what is taken for a query or a fragment, and is none
    "question and number signs": [
        b"/a%3f/../secret/",
        b"/a%253f/../secret/x",
        b"/%3f/..//secret/x",
        b"/%3F/%2e%2e/secret/x",
        b"/a%3fb%3fc/../secret/x?q",
        b"/a%3f/../secret/x?y%3fz=%3f",
        b"/a#/../secret/x",
        b"/a%23/../secret/x",
        b"/a%23/..%2fsecret/x",
        b"/secret/x%3f/../..",
        b"/secret/?/../..",
        b"/secret/#/../..",
        b"/secret/??",
        b"/secret/##",
        b"/secret/x%23",
        b"/secret/%23/../..",
    ],
    # which servers in Java leave out
    "path parameters": [
        b"/secret;/x",
        b"/secret;a=b/x",
        b"/secret;a=b;c=d/x",
        b"/secret;jsessionid=0/x",
        b"/;a/secret/x",
        b"/;/secret/x",
        b"/a/..;/secret/x",
        b"/a/..;a=b/secret/x",
        b"/a/.;/..;/secret/x",
        b"/a/%2e%2e;/secret/x",
        b"/a/..%3b/secret/x",
        b"/secret%3ba/x",
        b"/secret;%2fx/x",
        b"/secret/;",
        b"/secret/x;a",
    ],
    # which ASP.NET on .NET Framework takes for a session, whether or not it has one
    "sessions in the path": [
        b"/(S(x))/secret/x",
        b"/(A(x)F(y))/secret/x",
        b"/sec/(S(x))ret/x",
        b"/(S(x))/sec/(S(x))ret/x",
        b"/%28S%28x%29%29/secret/x",
        b"/a/..;/(X(1))/secret/x",
        b"/(S(x))/a/../secret/x",
        b"/secret/(S(x))/",
    ],
    # which Windows takes for the folder or the file itself
    "streams of NTFS": [
        b"/secret::$INDEX_ALLOCATION/x",
        b"/secret:$i30:$Index_Allocation/x",
        b"/secret%3a%3a%24INDEX_ALLOCATION/x",
        b"/a/../secret::$INDEX_ALLOCATION/x::$DATA",
    ],
    "tabs and line ends": [
        b"/se\tcret/x",
        b"/secret/\t",
        b"/\tsecret/x",
        b"/se\rcret/x",
        b"/sec\nret/x",
        b"/secret/x\x0b",
        b"/secret/\x01",
        b"/secret/%09",
        b"/secret/%0a",
        b"/secret/ x",
        b"/secret/%20",
    ],
    "overlong and broken UTF-8": [
        b"/secret%c0%afx",
        b"/secret\xc0\xafx",
        b"/secret%C0%AFx",
        b"/secret%25c0%25afx",
        b"/secret%e0%80%afx",
        b"/secret%f0%80%80%afx",
        b"/secret%f8%80%80%80%afx",
        b"/secret%fc%80%80%80%80%afx",
        b"/a/%c0%ae%c0%ae/secret/x",
        b"/a/%c0%ae./secret/x",
        b"/a%c0%af..%c0%afsecret/x",
        b"/a/\xe0\x80\xae\xe0\x80\xae/secret/x",
        b"/a%c1%9c..%c1%9csecret/x",
        b"/%c1%b3ecret/x",
        b"/%c1%b3%c1%a5%c1%a3%c1%b2%c1%a5%c1%b4%c0%af",
        b"/%e0%81%b3ecret/x",
        b"/secret%c0%bba/x",
        b"/a%c0%bf/../secret/x",
        b"/%c0%a573ecret/x",
        b"/secret/%ff%fe",
        b"/secret/\xff\xfe",
        b"/secret/\xc3",
        b"/secret/%ed%a0%80",
        b"/secret/%f4%90%80%80",
    ],
    "length": [
        b"/secret/" + b"a" * 65536,
        b"/" + b"a/../" * 10000 + b"secret/x",
        b"/" + b"./" * 30000 + b"secret/x",
        b"/" * 65536 + b"secret/x",
        b"/" + b"%25" * 20000 + b"/../secret/x",
        b"/%" + b"25" * 20000 + b"73ecret/x",
        b"/;" + b"a" * 65536 + b"/secret/x",
        b"/a?".replace(b"?", b"%3f") + b"a" * 65536 + b"/../secret/x",
        b"/secret/?" + b"a=b&" * 16384,
        b"/secret/" + b"a" * (1 << 20),
    ],
    "queries on a path": [
        b"/secret/?/../..",
        b"/secret/?x=http://good.test/",
        b"/secret/?x=/../../a",
        b"/secret/?\\..\\..",
        b"/secret/?%2e%2e/%2e%2e/",
        b"/secret/?;a=b",
        b"/secret/x?&&==",
        b"/secret/x?%00",
        b"/secret/x?\xff",
    ],
}

#: spellings of path.test/find?q=secret
QUERIES = [
    b"/find?q=secret",
    b"/find?q=%73ecret",
    b"/find?%71=secret",
    b"/find?q%3dsecret",
    b"/find?q=%2573ecret",
    b"/find?q=%25252573ecret",
    b"/find?q=sec%72et#x",
    b"/find%3fq=secret",
    b"/find%253Fq=secret",
    b"/a/../find?q=sec%2572et",
    b"/find?q=secret#x",
    b"/find?q=secret#?q=good",
    b"/fin%64?q=secret",
    b"//find?q=secret",
    b"/./find?q=secret",
    b"/find?q=se\tcret",
    b"/x/..;/find?q=secret",
    b"\\find?q=secret",
]

#: ways out of video.test/live/, which is all of video.test that is allowed
WAYS_OUT = [
    b"/",
    b"/live",
    b"/live/..",
    b"/live/../x",
    b"/live/a/../../x",
    b"/live/..%2fx",
    b"/live/..%252fx",
    b"/live/%2e%2e/x",
    b"/live/%252e%252e/x",
    b"/live/..\\x",
    b"/live/%5c..%5c../x",
    b"/live//../x",
    b"/live/./../x",
    b"/live/%3f/../../x",
    b"/live/a%3f/../../x",
    b"/live/#/../../x",
    b"/live/..;/x",
    b"/live/..;a/x",
    b"/live/;/../../x",
    b"/live/%u002e%u002e/x",
    b"/live/..%u002fx",
    b"/live/%c0%ae%c0%ae/x",
    b"/live/..%c0%afx",
    b"/live/..%c1%9cx",
    b"/x/../live/../x",
    b"/x/%2e%2e/live/%2e%2e/x",
    b"/x?/live/",
    b"/x%3f/live/",
    b"/x#/live/",
    b"/live%00/",
    b"/x?http://video.test/live/",
    b"/LIVE/x",
    b"/livex/",
    b"/x/live/",
    b"/live/\t../x",
    b"//live/x",
    b"/\\live/x",
    b"///live/x",
    b"/%2flive/x",
    b"/live%2f..//x",
    b"/live/a%252fb//..%2f..%2fx",
    b"/live/a%2Fb/%2e%2e/%2e%2e/x",
    b"/live/a%2Fb/..;x/..;x/x",
    b"/live/a%5cb\\..\\../x",
    b"/live/..%23/x",
    b"/live/%2%65./x",
    b"/live/(S(x))/../x",
    b"/live/(S(x))../x",
    b"/live/./(S(x))./x",
]

#: spellings of hashed URIs, whose canonical form is of its own kind
URIS = {
    "http://hashed.test/page": [
        b"http://hashed.test/page",
        b"HTTP://hashed.test/page",
        b"http://HASHED.test./page",
        b"http://hashed.test:080/page",
        b"http://hashed.test:80/page#x",
        b"http://hashed.test/page?x",
        b"http://hashed.test/%70age",
        b"http://hashed.test/%2570age",
        b"http://hashed.test//page",
        b"http://hashed.test/a/../page",
        b"http://hashed.test/a/%2e%2e/page",
        b"http://hashed.test/a\\..\\page",
        b"http://hashed.test/x/..;/page",
        b"http://hashed.test/%c1%b0age",
    ],
    "http://hashed.test/": [
        b"http://hashed.test",
        b"http://hashed.test/",
        b"http://hashed.test/?",
        b"http://hashed.test/#",
        b"http://hashed.test/.",
        b"http://hashed.test//",
        b"http://hashed.test/index.html",
        b"http://hashed.test/index.htm",
        b"http://hashed.test/x/..",
    ],
    "http://hashed.test/a%2Fb": [
        b"http://hashed.test/a%2fb",
        b"http://HASHED.test./a%2fb",
        b"http://hashed.test/./a%2Fb",
        b"http://hashed.test/%61%2Fb",
    ],
}


def entries() -> Iterator[Entry]:
    """Each path over a plain connection, in a tunnel and over HTTP/2; and of other sites with the same folder."""
    for family, paths in SECRET.items():
        for path in paths:
            yield from _of(family, "path.test/secret/", path)
            if len(path) <= 1 << 16:
                yield _plain(family, "hash.test/secret/", path)
                yield _plain(family, "open.test/secret/", path)
                yield _upload(family, "upload.test/secret/", path)
    for path in QUERIES:
        yield from _of("queries", "path.test/find?q=secret", path)
    for path in WAYS_OUT:
        yield from _of("ways out of an allowed folder", "video.test", path)
    for blocked, urls in URIS.items():
        for url in urls:
            yield Entry("hashed URIs", blocked, shown(url), request_head(url, url.split(b"/")[2]))


def _plain(family: str, blocked: str, path: bytes) -> Entry:
    host = blocked.split("/")[0].encode()
    slash = b"" if path[:1] in b"/\\" else b"/"
    return Entry(family, blocked, shown(path), request_head(b"http://" + host + slash + path, host))


def _upload(family: str, blocked: str, path: bytes) -> Entry:
    headers = [b"Content-Type: application/octet-stream", b"Content-Length: 6"]
    host = blocked.split("/")[0].encode()
    slash = b"" if path[:1] in b"/\\" else b"/"
    head = request_head(b"http://" + host + slash + path, host, method=b"POST", headers=headers)
    return Entry(family, blocked, shown(path), head + b"a file")


def _of(family: str, blocked: str, path: bytes) -> Iterator[Entry]:
    host = blocked.split("/")[0]
    yield _plain(family, blocked, path)
    yield Entry(family, blocked, shown(path), request_head(path, host.encode()), (host, 80))
    if len(path) < 1 << 14:  # what fits into one frame
        yield Entry(family, blocked, shown(path), fields(path, host.encode()))
