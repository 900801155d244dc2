"""Rules for files, with real downloads and uploads."""

from __future__ import annotations

import gzip
import io
import json
import os
import re
import shutil
import socket
import subprocess
import tarfile
import zipfile
import zlib
from contextlib import suppress
from functools import cache
from hashlib import md5, sha256
from pathlib import Path
from random import Random

import httpx
import pytest

from e2e.origin import PATIENCE, Origin
from e2e.plain_origin import PlainOrigin
from e2e.proxy import Proxy, mitmdump
from e2e.test_streaming import read_head
from e2e.test_unblock import form_of
from support.policies import write_policy
from support.seven_zip import LZMA, archive, index

_PROGRAM = b"MZ\x90\0" + bytes(1 << 19)
#: how an origin answers that closes its connection then: else the proxy may just have begun to send on it
_ONCE = b"HTTP/1.1 200 OK\r\nConnection: close\r\n"
_RULES = """
files:
- {content: audio, action: tag, reason: Sound}
- {content: [program, part], reason: No programs}
- {endings: bat, reason: No batches}
- {endings: torrent, action: warn, reason: Mind this}
- {types: video/*, reason: No films}
- {sites: good.test/drive, larger-than: 5, for: upload, reason: Files stay here}
- {larger-than: 1m, for: download, reason: Too large}
- {larger-than: 10k, for: upload, reason: Too much}
log: on
reports: on
"""


@pytest.fixture(scope="module")
def inspecting(tmp_path_factory: pytest.TempPathFactory, origin: Origin) -> object:
    folder = tmp_path_factory.mktemp("files")
    with mitmdump(folder, origin, policy=write_policy(folder, _RULES)) as proxy:
        yield proxy


@pytest.mark.parametrize("http2", [False, True])
def test_a_page_stands_in_place_of_a_download(inspecting: Proxy, origin: Origin, http2: bool) -> None:
    origin.pages |= {
        "/a.png": ("image/png", _PROGRAM),
        "/small": ("text/plain", b"MZ\0"),
        "/a.bat": ("text/plain", b"dir"),
        "/film": ("video/mp4", b"film"),
        "/large": ("text/plain", bytes(1 << 21)),
        "/text": ("text/plain", b"x" * (1 << 18)),
    }
    reasons = {}
    with inspecting.client(http2=http2) as client:
        for page in (*origin.pages, "/text"):
            answer = client.get(f"{'https' if http2 else 'http'}://good.test{page}", headers={"Accept": "text/html"})
            said = [
                reason for reason in ("No programs", "No batches", "No films", "Too large") if reason in answer.text
            ]
            reasons[page] = said or [answer.status_code, len(answer.content)]
    assert {page: reasons[page] for page in ("/a.png", "/small", "/a.bat", "/film", "/large", "/text")} == {
        "/a.png": ["No programs"],
        "/small": ["No programs"],
        "/a.bat": ["No batches"],
        "/film": ["No films"],
        "/large": ["Too large"],
        "/text": [200, 1 << 18],
    }


def test_page_log_and_numbers_know_the_file(tmp_path: Path, origin: Origin) -> None:
    origin.pages |= {"/a.png": ("image/png", _PROGRAM)}
    with (
        mitmdump(
            tmp_path, origin, policy=write_policy(tmp_path, _RULES.replace("log: on", "log: {folder: log}"))
        ) as proxy,
        proxy.client() as client,
    ):
        answer = client.get("http://good.test/a.png", headers={"Accept": "text/html"})
        assert f"a.png (image/png, program, {len(_PROGRAM):,} bytes)" in answer.text
        live = client.get("http://hushlist.internal/api/v1/live", headers={"X-Hushlist": "live"}).json()
    file = {"name": "a.png", "media_type": "image/png", "kinds": ["program"], "size": len(_PROGRAM)}
    assert live["counts"]["files"] == [{"kind": "program", "action": "block", "count": 1}]
    lines = [json.loads(line) for path in tmp_path.rglob("decisions.jsonl") for line in path.read_text().splitlines()]
    assert [line["file"] for line in lines if "file" in line] == [file]


def test_an_upload_that_is_too_large_does_not_begin(inspecting: Proxy, origin: Origin) -> None:
    with origin.watch() as arrivals, inspecting.client() as client:
        assert (
            "Too much" in client.post("http://good.test/", content=bytes(20_000), headers={"Accept": "text/html"}).text
        )
        untold = client.post("http://good.test/", content=iter([b"a"]), headers={"Accept": "text/html"})
        assert client.post("http://good.test/", content=b"a").status_code == 200
        kept = client.post("http://good.test/drive/new", content=b"a secret", headers={"Accept": "text/html"})
    assert "Files stay here" in kept.text
    assert "Too much" in untold.text
    assert [request.body for request in arrivals.requests] == [1]


def test_a_click_on_the_warning_of_a_file_opens_its_address_alone(inspecting: Proxy, origin: Origin) -> None:
    origin.pages |= dict.fromkeys(("/a.torrent", "/b.torrent"), ("text/plain", b"a file"))
    with inspecting.client() as client, inspecting.client() as program:
        client.headers["Accept"] = "text/html"
        page = client.get("https://good.test/a.torrent")
        assert "Mind this" in page.text
        action, token = form_of(page)
        forged = client.post(action, data={"token": token[::-1]})
        assert (forged.status_code, "too old" in forged.text, "Mind this" in forged.text) == (403, True, True)
        scripted = client.post(action, data={"token": token}, headers={"Origin": "https://good.test"})
        assert (scripted.status_code, "too old" in scripted.text) == (403, True)
        assert "Mind this" in client.get("https://good.test/a.torrent").text
        assert client.post(action, data={"token": token}).headers["location"] == "/a.torrent"
        assert client.get("https://good.test/a.torrent").text == "a file"
        assert "Mind this" in client.get("https://good.test/b.torrent").text
        again = client.post(action, data={"token": token})
        assert again.status_code == 303  # the form was sent twice
        told = program.get("https://good.test/b.torrent", headers={"Accept": "application/json"})
        assert (told.status_code, told.headers["content-type"], told.json()["reason"]) == (
            403,
            "application/json",
            "Mind this",
        )


@pytest.mark.parametrize("name", ["c.torrent", "c.bat"])
def test_the_page_of_a_file_takes_reports_and_over_http_no_click(inspecting: Proxy, origin: Origin, name: str) -> None:
    url = f"http://good.test/{name}"
    origin.pages[f"/{name}"] = ("text/plain", b"a file")
    with inspecting.client() as client:
        client.headers["Accept"] = "text/html"
        page = client.get(url)
        assert page.text.count("<form") == 1  # a script of the site could send one that leads on
        action, token = form_of(page)
        stale = client.post(action, data={"token": token[::-1], "report": "on", "words": "It is fine"})
        assert "too old" in stale.text
        told = client.post(action, data={"token": token, "report": "on", "words": "It is fine"})
        assert (told.status_code, 'role="status"' in told.text, name in told.text) == (403, True, True)
        assert client.post(action, data={"token": form_of(client.get(url))[1]}).status_code == 403
        lost = client.post(re.sub("reference=[^&]*", "", action), data={"token": token, "report": "on"})
        assert lost.status_code == 403  # nothing that somebody has written is lost without a word
        assert client.get(url).status_code == 403


@cache
def _bomb() -> bytes:
    """Half a gigabyte of zeros behind a beginning that a program does not have, in half a megabyte."""
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    return b"".join((*(packer.compress(bytes(1 << 20)) for _ in range(1 << 9)), packer.flush()))


#: fields of an answer, and its body: none of them is a file that passes
_LIES = {
    **{
        f"/name{number}": (f"Content-Disposition: attachment; {spelling}\r\nContent-Length: 2", b"ok")
        for number, spelling in enumerate(
            (
                "filename*=UTF-8''game%2Ebat",
                "FileName* = utf-8'en'game.bat",
                "filename*=\"UTF-8''game.bat\"",
                "filename*0*=UTF-8''ga; filename*1*=me%2ebat",
                "filename=a.txt; filename*=UTF-8''game.bat",
                "filename*=UTF-8''a.txt; filename*=nothing''game.bat",
                "filename*=UTF-8''a.txt\r\nContent-Disposition: inline; filename*=iso-8859-1''game.bat",
            )
        )
    },
    "/longer": ("Content-Length: 4000000", b"ok"),
    "/two": ("Content-Length: 2\r\nContent-Length: 4", b"MZ\x90\0"),
    "/negative": ("Content-Length: -2", b"MZ\x90\0"),
    "/packed": ("Content-Encoding: gzip\r\nContent-Length: 2000000", b""),
}


def test_neither_a_spelling_of_a_name_nor_a_lie_about_the_length_gets_past(tmp_path: Path) -> None:
    def lie(connection: socket.socket) -> None:
        fields, body = _LIES.get(read_head(connection).split()[1].decode(), ("Content-Length: 2", b"ok"))
        connection.sendall(f"HTTP/1.1 200 OK\r\n{fields}\r\n\r\n".encode() + body)

    passed = {}
    with (
        PlainOrigin(lie) as origin,
        mitmdump(tmp_path, origin, policy=write_policy(tmp_path, _RULES)) as proxy,
        proxy.client(timeout=PATIENCE) as client,
    ):
        for path in (*_LIES, "/plain"):
            try:
                answer = client.get(f"http://good.test{path}", headers={"Accept": "text/html"})
                passed[path] = answer.status_code == 200
            except httpx.HTTPError:
                passed[path] = False
    assert [path for path, has_passed in passed.items() if has_passed] == ["/plain"]


_BOMB_RULES = """
files:
- {{infected: true, sites: good.test/scanned}}
- {{listed: true, sites: good.test/listed}}
- {{endings: exe, members: true, sites: good.test/members}}
scanner: {{address: 'clamd://127.0.0.1:1', larger: {choice}, on-failure: {choice}}}
ranges: {ranges}
"""


@pytest.mark.parametrize(
    ("choice", "ranges"), [pytest.param("block", "whole", marks=pytest.mark.thorough), ("pass", "pass")]
)
def test_a_bomb_is_not_unpacked_but_refused_or_passed_on(tmp_path: Path, choice: str, ranges: str) -> None:
    bomb, tar = _bomb(), io.BytesIO()
    with tarfile.open(fileobj=tar, mode="w:gz") as packed:
        member = tarfile.TarInfo("a.txt")
        member.size = 1 << 26
        packed.addfile(member, io.BytesIO(bytes(1 << 26)))

    def send(connection: socket.socket) -> None:
        is_tar = b"/members" in read_head(connection)
        field, octets = (b"", tar.getvalue()) if is_tar else (b"Content-Encoding: gzip\r\n", bomb)
        connection.sendall(_ONCE + b"%bContent-Length: %d\r\n\r\n%b" % (field, len(octets), octets))

    def is_whole(path: str) -> bool:
        with suppress(httpx.RemoteProtocolError), client.stream("GET", f"http://good.test/{path}") as answer:
            return b"".join(answer.iter_raw()) in (bomb, tar.getvalue())
        return False

    policy = write_policy(tmp_path, _BOMB_RULES.format(choice=choice, ranges=ranges))
    with (
        PlainOrigin(send) as origin,
        mitmdump(tmp_path, origin, policy=policy) as proxy,
        proxy.client(timeout=PATIENCE) as client,
    ):
        whole = {path: is_whole(path) for path in ("a", "scanned", "listed", "members")}
        assert whole == {"a": True} | dict.fromkeys(("scanned", "listed", "members"), choice == "pass")


def serve(connection: socket.socket) -> None:
    """A program with a content coding; then a body without a length that does not end by itself; or a part."""
    head = read_head(connection)
    if b"/packed" in head:
        body = gzip.compress(b"") + gzip.compress(_PROGRAM)
        connection.sendall(_ONCE + b"Content-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
    elif b"/empty" in head:
        body = gzip.compress(b"") * 300 + gzip.compress(_PROGRAM)
        connection.sendall(_ONCE + b"Content-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
    elif b"/doubled" in head:
        body = gzip.compress(gzip.compress(_PROGRAM))
        connection.sendall(_ONCE + b"Content-Encoding: gzip, gzip\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
    elif b"/foreign" in head:
        connection.sendall(_ONCE + b"Content-Encoding: a\r\nContent-Length: 9\r\n\r\nMZ" + bytes(7))
    elif b"/transfer" in head:
        body = gzip.compress(_PROGRAM)
        connection.sendall(_ONCE + b"Transfer-Encoding: gzip, chunked\r\n\r\n")
        connection.sendall(b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body))
    elif b"/events" in head:
        connection.sendall(_ONCE + b"Content-Type: text/event-stream\r\n\r\ndata: 1\n\n")
        connection.recv(1)
    elif b"/part" in head:
        connection.sendall(
            b"HTTP/1.1 206 Partial\r\nConnection: close\r\nContent-Range: bytes 5-8/9\r\nContent-Length: 4\r\n\r\nprog"
        )
    else:
        connection.sendall(_ONCE + b"Transfer-Encoding: chunked\r\n\r\n")
        while True:
            connection.sendall(b"10000\r\n" + bytes(1 << 16) + b"\r\n")


def test_what_does_not_tell_itself_is_seen(tmp_path: Path) -> None:
    with (
        PlainOrigin(serve) as origin,
        mitmdump(tmp_path, origin, policy=write_policy(tmp_path, _RULES)) as proxy,
        proxy.client(timeout=PATIENCE) as client,
    ):
        for page in ("packed", "empty", "doubled", "foreign", "transfer", "part"):
            assert "No programs" in client.get(f"http://good.test/{page}", headers={"Accept": "text/html"}).text
        with client.stream("GET", "http://good.test/events") as answer:
            assert next(answer.iter_raw()) == b"data: 1\n\n"
        received = 0
        with client.stream("GET", "http://good.test/endless") as answer, pytest.raises(httpx.RemoteProtocolError):  # noqa: PT012
            for octets in answer.iter_raw():
                received += len(octets)
        assert received <= 1 << 20


def form(*contents: bytes) -> bytes:
    parts = (b'--q7\r\nContent-Disposition: form-data; name="f"\r\n\r\n%b\r\n' % content for content in contents)
    return b"".join(parts) + b"--q7--\r\n"


@pytest.mark.parametrize(
    ("http2", "stated"),
    [(False, True), (True, False), *(pytest.param(same, same, marks=pytest.mark.thorough) for same in (False, True))],
)
def test_nothing_of_a_blocked_upload_reaches_the_origin(
    tmp_path: Path, origin: Origin, http2: bool, stated: bool
) -> None:
    """A bare body by its beginning, a form by each part, and a form whose parts are not read for certain."""
    policy = write_policy(tmp_path, "files: [{content: program, reason: No programs}]\nuploads: {hold: 1m}\n")
    fine, bad = form(b"a" * 200_000, b"b"), form(b"a" * 200_000, _PROGRAM)
    typed = {"Content-Type": "multipart/form-data; boundary=q7"}
    sent = {
        "/bare": (_PROGRAM, {}),
        "/bad": (bad, typed),
        "/unsure": (b"hidden" + fine, typed),
        "/long": (form(b"a" * (1 << 21)), typed),
        "/fine": (fine, typed),
        "/text": (b"a" * 3_000_000, {}),
    }
    with (
        mitmdump(tmp_path, origin, policy=policy) as proxy,
        origin.watch() as arrivals,
        proxy.client(http2=http2, timeout=PATIENCE) as client,
    ):
        statuses = {}
        for page, (body, headers) in sent.items():
            pieces = iter([body[at : at + 50_000] for at in range(0, len(body), 50_000)])
            content = body if stated else pieces
            url = f"{'https' if http2 else 'http'}://good.test{page}"
            answer = client.post(url, content=content, headers={"Accept": "text/html", **headers})
            statuses[page] = 403 if "No programs" in answer.text else answer.status_code
    assert statuses == {"/bare": 403, "/bad": 403, "/unsure": 403, "/long": 403, "/fine": 200, "/text": 200}
    assert [request.body for request in arrivals.requests] == [len(fine), 3_000_000]


def test_an_origin_never_gets_the_end_of_what_is_blocked_on_its_way(tmp_path: Path) -> None:
    """Nor anything of the part that is blocked."""
    received = bytearray()

    def keep(connection: socket.socket) -> None:
        while octets := connection.recv(1 << 16):
            received.extend(octets)

    policy = write_policy(
        tmp_path, "files: [{content: program, reason: No programs}]\nuploads: {hold: 10k, unseen: pass}\n"
    )
    body = form(b"a" * 200_000, _PROGRAM)
    with (
        PlainOrigin(keep) as origin,
        mitmdump(tmp_path, origin, policy=policy) as proxy,
        proxy.client(timeout=PATIENCE) as client,
    ):
        answer = client.post(
            "http://good.test/",
            content=(body[at : at + 10_000] for at in range(0, len(body), 10_000)),
            headers={"Accept": "text/html", "Content-Type": "multipart/form-data; boundary=q7"},
        )
    assert "No programs" in answer.text
    assert b"a" * 10_000 in received
    assert b"MZ" not in received
    assert b"q7--" not in received


_LISTED = b"\x7fELF" + bytes(range(256)) * 4000
_SMALL = b"a listed text"


def test_what_is_listed_is_never_whole_at_a_client(tmp_path: Path, origin: Origin) -> None:
    """By SHA-256 and MD5, in the lists of ClamAV."""
    origin.pages |= {"/listed.bin": ("application/x", _LISTED), "/small": ("text/plain", _SMALL)}
    origin.pages |= {"/fine.bin": ("application/x", _LISTED[:-1] + b"x"), "/film": ("video/mp4", _LISTED)}
    (tmp_path / "bad.hsb").write_text(f"{sha256(_LISTED).hexdigest()}:{len(_LISTED)}:Test.A\n")
    (tmp_path / "bad.hdb").write_text(f"{md5(_SMALL).hexdigest()}:{len(_SMALL)}:Test.B\n")
    policy = tmp_path / "policy.yaml"
    policy.write_text(
        "layers: [{name: bad, lists: [{file: bad.hsb, reason: Malware}, {file: bad.hdb, reason: Malware}]}]\n"
        "files: [{listed: true, types: [application/*, text/*]}]\nlog: on\n"
    )
    with mitmdump(tmp_path, origin, policy=policy) as proxy, proxy.client(timeout=PATIENCE) as client:
        assert client.get("http://good.test/fine.bin").content == _LISTED[:-1] + b"x"
        assert client.get("http://good.test/film").content == _LISTED
        assert "Malware" in client.get("http://good.test/small", headers={"Accept": "text/html"}).text
        received = b""
        with client.stream("GET", "http://good.test/listed.bin") as answer, pytest.raises(httpx.RemoteProtocolError):  # noqa: PT012
            for octets in answer.iter_raw():
                received += octets
        assert len(_LISTED) - (1 << 15) < len(received) < len(_LISTED)
        assert received == _LISTED[: len(received)]


def zip_of(**members: bytes) -> bytes:
    """An archive of members with an ending; ``__`` stands for its dot."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as made:
        for name, content in members.items():
            made.writestr(name.replace("__", "."), content)
    return file.getvalue()


def test_what_has_a_blocked_member_is_never_whole_at_a_client_or_an_origin(tmp_path: Path, origin: Origin) -> None:
    noise = Random(49).randbytes(1 << 19)
    far, fine = zip_of(a__txt=noise, b__exe=noise), zip_of(a__txt=noise, b__txt=noise)
    files = {"/near.zip": zip_of(a__txt=b"a", b__exe=b"MZ"), "/odd.7z": b"7z\xbc\xaf\x27\x1c" + bytes(60)}
    files |= {"/far.zip": far, "/fine.zip": fine, "/noise": noise, "/allowed/far.zip": far}
    files["/near.7z"] = archive(index("a.txt", "b.exe"), LZMA)
    files["/fine.7z"] = archive(index("a.txt", "b.txt"), LZMA, content=noise)
    files["/far.7z"] = archive(index("a.txt", "b.exe"), LZMA, content=noise)
    origin.pages |= {page: ("application/x", body) for page, body in files.items()}
    rules = (
        "files: [{sites: good.test/allowed, action: allow}, "
        "{endings: exe, members: true, for: both, reason: No programs}]\nlog: on\n"
    )
    expected: dict[str, object] = dict.fromkeys(files, "whole")
    expected |= dict.fromkeys(("/near.zip", "/near.7z", "/odd.7z"), "page")
    with (
        mitmdump(tmp_path, origin, policy=write_policy(tmp_path, rules)) as proxy,
        origin.watch() as arrivals,
        proxy.client(timeout=PATIENCE) as client,
    ):
        client.headers["Accept"] = "text/html"
        seen: dict[str, object] = {}
        for page in files:
            received = b""
            with client.stream("GET", f"http://good.test{page}") as answer, suppress(httpx.RemoteProtocolError):
                for octets in answer.iter_raw():
                    received += octets
            seen[page] = "whole" if received == files[page] else "page" if b"No programs" in received else received
        cut, seven = seen.pop("/far.zip"), seen.pop("/far.7z")
        del expected["/far.zip"], expected["/far.7z"]
        assert seen == expected
        assert isinstance(seven, bytes)
        assert files["/far.7z"].startswith(seven)
        assert 1 << 18 < len(seven) <= len(files["/far.7z"]) - (1 << 14)
        assert isinstance(cut, bytes)
        assert far.startswith(cut)
        assert 1 << 18 < len(cut) < far.index(b"b.exe")
        with pytest.raises(httpx.RemoteProtocolError):
            client.get("http://good.test/far.zip", headers={"Range": f"bytes={len(cut)}-"})
        for body in (far, files["/odd.7z"], files["/near.7z"]):
            assert "No programs" in client.post("http://good.test/", content=body).text
        assert client.post("http://good.test/", content=fine).status_code == 200
    assert [request.body for request in arrivals.requests if request.body] == [len(fine)]


def test_a_dry_run_says_which_member_would_end_a_download(tmp_path: Path, origin: Origin) -> None:
    far = zip_of(a__txt=Random(49).randbytes(1 << 18), b__exe=b"MZ", vbaProject__bin=b"a")
    origin.pages |= {"/far.zip": ("application/x", far)}
    for content in ("endings: exe", "content: macros"):
        folder = tmp_path / content[-3:]
        folder.mkdir()
        rules = f"mode: tag\nfiles: [{{{content}, members: true}}]\nlog: {{folder: log}}\n"
        with mitmdump(folder, origin, policy=write_policy(folder, rules)) as proxy, proxy.client() as client:
            assert client.get("http://good.test/far.zip").content == far
        lines = [json.loads(line) for path in folder.rglob("decisions.jsonl") for line in path.read_text().splitlines()]
        assert [line["file"]["name"] for line in lines if "file" in line] == ["far.zip"]


def serve_parts(connection: socket.socket) -> None:
    """A file that can be asked for in parts, as servers do."""
    head = read_head(connection)
    asked = re.search(rb"(?i)\r\nrange: bytes=(\d+)-(\d*)", head)
    whole = _PROGRAM if b"/program" in head else b"t" * len(_PROGRAM)
    first, last = (0, len(whole) - 1) if asked is None else (int(asked[1]), int(asked[2] or len(whole) - 1))
    octets = whole[first : last + 1]
    answer = b"HTTP/1.1 200 OK\r\n" if asked is None else b"HTTP/1.1 206 Partial Content\r\n"
    if asked is not None:
        answer += b"Content-Range: bytes %d-%d/%d\r\n" % (first, last, len(whole))
    answer += b'Connection: close\r\nETag: "1"\r\nContent-Length: %d\r\n\r\n%b' % (len(octets), octets)
    connection.sendall(answer)


@pytest.mark.parametrize(
    ("ranges", "rows"),
    [
        (
            "whole",
            [
                ("program", ["0-1"], [403]),
                ("program", ["5-"], [403]),
                ("program", [f"{1 << 18}-"], [403]),
                ("text", ["0-9999", "10000-"], [206, 206]),
                ("text", ["10000-", "10000-"], [206, 206]),
                ("text", ["0-99"], [200]),
            ],
        ),
        ("refuse", [("program", ["5-"], [403]), ("text", ["0-9999", "10000-"], [206, 206]), ("text", ["0-99"], [403])]),
        ("pass", [("program", ["5-"], [206]), ("program", ["0-"], [403])]),
    ],
)
def test_a_part_passes_if_the_rest_was_seen(
    tmp_path: Path, ranges: str, rows: list[tuple[str, list[str], list[int]]]
) -> None:
    policy = write_policy(tmp_path, f"files: [{{content: program}}]\nranges: {ranges}\n")
    with (
        PlainOrigin(serve_parts) as origin,
        mitmdump(tmp_path, origin, policy=policy) as proxy,
        proxy.client(timeout=PATIENCE) as client,
    ):
        for number, (page, asked, expected) in enumerate(rows):
            url = f"http://good.test/{page}?{number}"
            client.head(url)  # which shows nothing of the file
            assert [client.get(url, headers={"Range": f"bytes={each}"}).status_code for each in asked] == expected, url


@pytest.mark.parametrize("program", ["curl", pytest.param("wget", marks=pytest.mark.thorough)])
@pytest.mark.parametrize(
    "rule", ["content: program", "listed: true", "types: video/mp4", "listed: true, larger-than: 1"]
)
def test_programs_go_on_with_a_download(tmp_path: Path, program: str, rule: str) -> None:
    if shutil.which(program) is None:
        pytest.skip(f"{program} is not installed")
    whole, file = b"t" * len(_PROGRAM), tmp_path / "text"
    file.write_bytes(whole[:100_000])
    with (
        PlainOrigin(serve_parts) as origin,
        mitmdump(tmp_path, origin, policy=write_policy(tmp_path, f"files: [{{{rule}}}]\n")) as proxy,
    ):
        command = {"curl": ["curl", "-sSC", "-", "-o"], "wget": ["wget", "-qc", "-t1", "-O"]}[program]
        environment = {**os.environ, "http_proxy": f"http://127.0.0.1:{proxy.port}", "no_proxy": ""}
        subprocess.run([*command, str(file), "http://good.test/text"], env=environment, timeout=PATIENCE, check=True)
    assert file.read_bytes() == whole


#: what is asked for, and status and length of the answer
_RESTS = (
    ({"Range": "bytes=524000-"}, 206, 292),
    ({"Range": "bytes=524000-", "If-Range": '"1"'}, 206, 292),
    ({"Range": "bytes=524000-", "If-Range": '"2"'}, 200, 524_292),
    ({"Range": "bytes=524292-"}, 200, 524_292),
    ({"Range": "bytes=5-9"}, 200, 524_292),
    ({"Range": "bytes=0-"}, 206, 524_292),
)


def test_the_rest_of_a_file_is_of_the_same_version(tmp_path: Path) -> None:
    policy = write_policy(tmp_path, "files: [{listed: true}]\n")
    with (
        PlainOrigin(serve_parts) as origin,
        mitmdump(tmp_path, origin, policy=policy) as proxy,
        proxy.client(timeout=PATIENCE) as client,
    ):
        answers = [client.get(f"http://good.test/text?{at}", headers=row[0]) for at, row in enumerate(_RESTS)]
    assert [(answer.status_code, len(answer.content)) for answer in answers] == [row[1:] for row in _RESTS]
