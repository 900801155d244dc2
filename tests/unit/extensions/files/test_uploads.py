"""Uploads: how forms are read, what rules say of their parts, and how much goes on when."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mitmproxy import http

from hushlist.core.decide.decision import Judgement
from hushlist.core.match.rule_match import SeenFile
from hushlist.core.url.request import request_of
from hushlist.extensions.files.file_outcome import FileOutcome
from hushlist.extensions.files.file_rules import FileFacts, judge_file
from hushlist.extensions.files.file_scans import FileScans
from hushlist.extensions.files.held_upload import HeldUpload, UploadSettings
from hushlist.extensions.files.multipart import MultipartError, MultipartReader, PartHead, boundary_of
from hushlist.extensions.files.upload_inspector import UploadInspector
from hushlist.extensions.files.upload_look import UploadLook, media_types_of
from hushlist.proxy.runtime import Runtime
from support.engines import engine_of, judgement_of
from support.flows import flow_of
from support.policies import read_whole
from support.scanners import EICAR, icap_service
from unit.rows import each_row

NOW = datetime(2026, 11, 28, 12, tzinfo=UTC)
MIXED = "multipart/mixed; boundary=q7"
FORM = "multipart/form-data; boundary=q7"
PROGRAM = b"MZ\x90\0" + bytes(100)


def part(content: bytes, disposition: str = 'form-data; name="a"', *fields: str) -> bytes:
    head = "".join(f"{field}\r\n" for field in (f"Content-Disposition: {disposition}", *fields))
    return f"--q7\r\n{head}\r\n".encode() + content + b"\r\n"


def form(*parts: bytes) -> bytes:
    return b"".join(parts) + b"--q7--\r\n"


class Kept:
    is_settled = True

    def __init__(self) -> None:
        self.octets, self.has_ended = b"", False

    def take(self, octets: bytes) -> None:
        assert octets
        self.octets += octets

    def end(self) -> None:
        self.has_ended = True


def parts_of(body: bytes, step: int) -> list[tuple[PartHead, bytes]]:
    found: list[tuple[PartHead, Kept]] = []

    def begin(head: PartHead) -> Kept:
        found.append((head, Kept()))
        return found[-1][1]

    reader = MultipartReader(b"q7", begin)
    for at in range(0, len(body), step):
        reader.take(body[at : at + step])
    reader.end()
    assert all(kept.has_ended for _, kept in found)
    return [(head, kept.octets) for head, kept in found]


@given(st.lists(st.binary(max_size=40).filter(lambda octets: b"--q7" not in octets), max_size=4), st.integers(1, 50))
def test_each_part_is_as_it_was_sent(contents: list[bytes], step: int) -> None:
    body = form(*map(part, contents))
    assert [octets for _, octets in parts_of(body, step)] == contents


@each_row(
    ("content_type", "boundary"),
    [
        ("multipart/form-data; boundary=q7", "q7"),
        ('Multipart/Form-Data;charset=utf-8; BOUNDARY="q 7"', "q 7"),
        (
            "multipart/form-data; boundary=----WebKitFormBoundary7MA4YWxkTrZu0gW",
            "----WebKitFormBoundary7MA4YWxkTrZu0gW",
        ),
        ("multipart/form-data", ""),
        ("multipart/form-data; boundary=", ""),
        ("multipart/form-data; boundary=a; boundary=b", ""),
        ("multipart/form-data; boundary*=utf-8''a", ""),
        ("multipart/form-data; boundary*0=a; boundary*1=b", ""),
        ("multipart/form-data; boundary=a b", ""),
        ("multipart/form-data; boundary=a, text/plain", ""),
        ('multipart/form-data; boundary="a\\"b"', ""),
        ('multipart/form-data; boundary="a ', ""),
        (f"multipart/form-data; boundary={'a' * 71}", ""),
        ("text/plain, multipart/form-data; boundary=a", ""),
        ("text/plain; x=multipart/form-data; boundary=a", ""),
    ],
)
def test_a_media_type_states_one_boundary(content_type: str, boundary: str) -> None:
    try:
        assert boundary_of(content_type) == boundary.encode()
    except MultipartError:
        assert boundary == ""


@each_row(
    ("body", "why"),
    [
        (b"hidden" + form(part(b"a")), "does not begin"),
        (b"\r\n" + form(part(b"a")), ""),
        (b"--q7--", ""),
        (form(part(b"a")).replace(b"--q7--", b"--q7 \t\r\n\r\n\r\n--q7--"), ""),
        (part(b"a"), "ends before"),
        (form(part(b"a\n--q7\nb")), "within a line"),
        (form(part(b"a--q7")), "within a line"),
        (form(part(b"a\r\n--q7more\r\n")), "more behind it"),
        (form(part(b"a\r\n--q7-\r\n")), "more behind it"),
        (form(part(b"a")) + b"--q7\r\n", "behind its last"),
        (form(part(b"a")) + b"more", "behind its last"),
        (form(part(b"a", "form-data", "X: " + "a" * 9000)), "too long"),
        (form(part(b"a", "form-data", *["X: a"] * 16)), "too many fields"),
        (form(part(b"a", "form-data", "Content-Disposition: form-data; filename=a.exe")), "twice"),
        (form(part(b"a", "form-data;\r\n filename=a.exe")), "cannot be read"),
        (form(part(b"a", "form-data;\n filename=a.exe")), "cannot be read"),
        (form(part(b"a", "form-data; x=\0")), "cannot be read"),
        (form(part(b"a", "form-data", "no field")), "cannot be read"),
        (form(part(b"a", "form-data", "X : a")), "cannot be read"),
        (form(part(b"a", "form-data; name=--q7")), "within a head"),
        (form(*[part(b"")] * 1001), "more than 1000 parts"),
    ],
)
def test_what_servers_read_in_different_ways_is_refused(body: bytes, why: str) -> None:
    for step in (1, 3, len(body)):
        try:
            parts_of(body, step)
        except MultipartError as error:
            assert (why or "nothing") in str(error)  # noqa: PT017
        else:
            assert not why


def look_through(
    folder: Path, rules: str, body: bytes, content_types: str, codings: str = "", step: int = 7
) -> UploadLook:
    policy, errors = read_whole(folder, f"files: {rules}\nlayers: []\n")
    assert errors == []
    known = policy.all_groups[-1].settings.of("files")
    types = content_types.split("|") if content_types else []
    facts = FileFacts(True, media_types_of(types), (), len(body))
    look = UploadLook(known, lambda facts: judge_file(known, facts, NOW).match, facts, codings, types)
    for at in range(0, len(body), step):
        look.take(body[at : at + step])
    look.end()
    return look


def looked(folder: Path, rules: str, body: bytes, content_types: str, codings: str = "", step: int = 7) -> str:
    """The evidence of what matches, why not all is seen, or nothing."""
    look = look_through(folder, rules, body, content_types, codings, step)
    return look.why_unseen or "; ".join(str(match.text) for match in look.matches)


_CODING = "Content-Transfer-Encoding"
_QUOTED = f"{_CODING}: quoted-printable"
_UNREAD = "a part has a coding that is not read"
_MISREAD = "a part has a coding that is not as it says"
_INNER = b"--i\r\nContent-Disposition: file; filename=a.exe\r\n\r\n\r\n--i--\r\n"
_INNER_TYPE = "Content-Type: multipart/mixed; boundary=i"
_FILMS = "[{types: video/*, larger-than: 10}]"
_FILM = "Content-Type: video/a"
_CONTENT = "[{content: program}]"
_NAMED = "[{endings: exe}]"


@pytest.mark.slow
@each_row(
    ("rules", "body", "content_types", "codings", "expected"),
    [
        (_CONTENT, PROGRAM, "", "", "program"),
        (_CONTENT, b"MZ\0", "image/png", "", "program"),
        (_CONTENT, b"text", "", "", ""),
        (_CONTENT, gzip.compress(PROGRAM), "", "gzip", "program"),
        (_CONTENT, b"", "", "compress", "its coding is compress"),
        (_CONTENT, b"", "", "gzip,gzip", "its coding is gzip, gzip"),
        (_CONTENT, b"no gzip", "", "gzip", "its coding is not as it says"),
        (_CONTENT, form(part(b"a"), part(PROGRAM)), FORM, "", "program"),
        (_CONTENT, gzip.compress(form(part(b"a"), part(PROGRAM))), FORM, "gzip", "program"),
        (_CONTENT, form(part(b"a"), part(b"#")), FORM, "", ""),
        (_CONTENT, form(part(b"TVqQ\r\nAAMA", "form-data", f"{_CODING}: BASE64")), FORM, "", "program"),
        (_CONTENT, form(part(b"MZ=90=00", "form-data", f"{_CODING}: quoted-printable")), FORM, "", "program"),
        (_CONTENT, form(part(b"MZ", "form-data", f"{_CODING}: x-uu")), FORM, "", _UNREAD),
        (_CONTENT, form(part(b"MZ", "form-data", "Content-Encoding: gzip")), FORM, "", _UNREAD),
        ("[{content: unknown}]", form(part(b"=", "form-data", f"{_CODING}: base64")), FORM, "", ""),
        ("[{content: unknown}]", form(part(b"A===A", "form-data", f"{_CODING}: base64")), FORM, "", _MISREAD),
        (_CONTENT, form(part(b"\r\n" * 9000 + b"TVqQAAMA", "form-data", f"{_CODING}: base64")), FORM, "", "program"),
        (_CONTENT, form(part(b" !" * 9000 + b"TVqQAAMA", "form-data", f"{_CODING}: base64")), FORM, "", "program"),
        (_CONTENT, form(part(b"TQ==WpAA", "form-data", f"{_CODING}: base64")), FORM, "", _MISREAD),
        (_CONTENT, form(part(b"= \r\n" * 9000 + b"MZ=90=00", "form-data", _QUOTED)), FORM, "", "program"),
        (_CONTENT, form(part(b"=" + b" " * 20000 + b"\r\nMZ=90=00", "form-data", _QUOTED)), FORM, "", _MISREAD),
        (_CONTENT, form(part(b"a=3D" * 9000, "form-data", _QUOTED)), FORM, "", ""),
        (_NAMED, form(part(b"", 'form-data; name="f"; filename="a.exe"')), FORM, "", "a.exe"),
        (_NAMED, form(part(b"", "form-data; filename=a.exe")), FORM, "", "a.exe"),
        (_NAMED, form(part(b"", "form-data; filename=a.png; filename*=UTF-8''a%2Eexe")), FORM, "", "a.exe"),
        (_NAMED, form(part(b"", "form-data; filename*=UTF-8''a%2Eexe")), FORM, "", "a.exe"),
        (_NAMED, form(part(b"", "form-data; filename*0=a.e; filename*1=xe")), FORM, "", "a.exe"),
        (_NAMED, form(part(b"", "form-data; filename*0*=UTF-8''a%2Ee; filename*1=xe")), FORM, "", "a.exe"),
        (_NAMED, form(part(b"", 'form-data; FILENAME = "C:\\\\a.exe "')), FORM, "", "a.exe"),
        (_NAMED, form(part(b"", 'form-data; filename="=?utf-8?B?YS5leGU=?="')), FORM, "", "a.exe"),
        (_NAMED, form(part(b"", "form-data", "Content-Type: application/x; name=a.exe")), FORM, "", "a.exe"),
        (_NAMED, form(part(b"", f"form-data; x={'a' * 4096}; filename=a.exe")), FORM, "", "a name that is not read"),
        (_NAMED, form(part(b"", "form-data; filename*=idna''a.exe")), FORM, "", "a.exe"),
        ("[{types: video/*}]", form(part(b"", "form-data", "Content-Type: a/b, video/a")), FORM, "", "video/a"),
        (_NAMED, form(part(b"", "attachment; filename=a.txt")), FORM, "", "a part of it is none of a form"),
        (_NAMED, form(part(b"", "attachment; filename=a.exe")), MIXED, "", "a.exe"),
        (_NAMED, form(part(b"")), f"{FORM}|text/plain", "", "it states several media types"),
        (_NAMED, form(part(b"")), "multipart/form-data", "", "its media type does not state one boundary"),
        ("[{types: video/*}]", form(part(b"", "form-data", "Content-Type: Video/MP4; a=b")), FORM, "", "video/mp4"),
        (_FILMS, form(part(bytes(11), "form-data", _FILM)), FORM, "", "video/a, 11 octets"),
        (_FILMS, form(part(bytes(10), "form-data", _FILM)), FORM, "", ""),
        ("[{disguised: true}]", form(part(PROGRAM, "form-data; filename=a.png")), FORM, "", "program"),
        (
            "[{endings: png, action: allow}, {content: program}]",
            form(part(PROGRAM, "a=b; filename=a.png")),
            MIXED,
            "",
            "",
        ),
        (
            _NAMED,
            form(part(_INNER, "form-data", _INNER_TYPE)),
            FORM,
            "",
            "a.exe",
        ),
        (
            _NAMED,
            form(part(b"--i\r\n\r\n", "form-data", _INNER_TYPE)),
            FORM,
            "",
            "it ends before its last boundary",
        ),
    ],
)
def test_each_part_is_judged(
    tmp_path: Path, rules: str, body: bytes, content_types: str, codings: str, expected: str
) -> None:
    assert looked(tmp_path, rules, body, content_types, codings).splitlines()[:1] == ([expected] if expected else [])
    assert looked(tmp_path, rules, body, content_types, codings, step=1 << 16) == expected


@pytest.mark.parametrize(("content", "size"), [(b"MZ\0", 3), (PROGRAM, None)])
def test_the_length_of_a_part_is_shown_when_all_of_it_has_come(
    tmp_path: Path, content: bytes, size: int | None
) -> None:
    body = form(part(content, 'form-data; name="f"; filename="a.exe"', "Content-Type: video/a"))
    (match,) = look_through(tmp_path, _CONTENT, body, FORM).matches
    assert match.file == SeenFile("a.exe", "video/a", ("program",), size)


def never(error: Exception) -> None:
    raise error


def held(
    folder: Path,
    settings: UploadSettings,
    *,
    waits: bool = True,
    fail: Callable[[Exception], http.Response | None] = never,
) -> HeldUpload:
    policy, _ = read_whole(folder, f"files: {_CONTENT}\nlayers: []\n")
    rules = policy.all_groups[-1].settings.of("files")
    look = UploadLook(
        rules,
        lambda facts: judge_file(rules, facts, NOW).match,
        FileFacts(True),
        "",
        ["multipart/form-data; boundary=q7"],
    )
    refuse = (lambda: http.Response.make(403)) if waits else (lambda: None)
    return HeldUpload(look, settings, refuse, fail, "192.0.2.1", waits=waits)


def sent(upload: HeldUpload, *pieces: bytes) -> list[object]:
    """What goes on at each piece, and at the end: ``all`` that has come, or the status of a page."""
    told, waiting = list[object](), b""
    for piece in (*pieces, b""):
        waiting += piece
        given = upload.take(piece, not piece)
        told.append(given.status_code if isinstance(given, http.Response) else "all" if given == waiting else given)
        waiting = b"" if given else waiting
    return told


_LONG = part(b"a" * 9000)
_END = form(part(b"b"))


@each_row(
    ("hold", "unseen", "waits", "pieces", "expected", "why"),
    [
        (1 << 20, "block", True, [_LONG, _END], [None, None, "all"], ""),
        (1 << 20, "block", True, [_LONG, part(PROGRAM)], [None, "all", "all"], ""),
        (1000, "block", True, [_LONG, _END], ["all", "all", "all"], "it is longer than what is held"),
        (1000, "pass", True, [_LONG, _END], ["all", "all", "all"], ""),
        (1000, "pass", True, [_LONG, part(b"M")[:-2], b"\r\n", _END], ["all", b"", b"", "all", "all"], ""),
        (1000, "pass", True, [_LONG, part(PROGRAM), _END], ["all", 403, "all", "all"], ""),
        (1000, "pass", True, [_LONG, b"--q7\r\nConte"], ["all", b"", 403], "it ends before its last boundary"),
        (1000, "block", False, [_LONG, part(PROGRAM)], ["all", "all", "all"], ""),
        (1000, "pass", True, [b"hidden", part(PROGRAM)], ["all", "all", "all"], "it does not begin with its boundary"),
    ],
)
def test_nothing_of_a_part_goes_on_before_it_is_seen(
    tmp_path: Path, hold: int, unseen: str, waits: bool, pieces: list[bytes], expected: list[object], why: str
) -> None:
    upload = held(tmp_path, UploadSettings(hold, unseen), waits=waits)
    assert (sent(upload, *pieces), upload.why_unseen) == (expected, why)


@each_row(
    ("hold", "waits", "passes", "fails_at", "expected"),
    [
        (1 << 20, True, False, 0, ["all", "all", "all"]),  # the request's decision refuses it
        (1 << 20, True, False, 1, [None, "all", "all"]),
        (1 << 20, True, False, 2, [None, None, "all"]),
        (1 << 20, True, True, 1, [None, "all", "all"]),
        (1000, True, False, 1, ["all", 500, "all"]),
        (1000, True, True, 1, ["all", "all", "all"]),
        (1000, False, False, 0, ["all", "all", "all"]),
        (1000, False, False, 1, ["all", 500, "all"]),
    ],
)
def test_a_look_that_fails_refuses_or_passes_as_the_policy_says(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    hold: int,
    waits: bool,
    passes: bool,
    fails_at: int,
    expected: list[object],
) -> None:
    errors = list[Exception]()

    def fail(error: Exception) -> http.Response | None:
        errors.append(error)
        return None if passes else http.Response.make(500)

    upload = held(tmp_path, UploadSettings(hold, "pass"), waits=waits, fail=fail)
    take, taken = upload.look.take, list[bytes]()

    def take_or_fail(octets: bytes) -> None:
        taken.append(octets)
        if len(taken) > fails_at:
            raise KeyError
        take(octets)

    monkeypatch.setattr(upload.look, "take", take_or_fail)
    assert (sent(upload, _LONG, _END), [type(error) for error in errors], upload.is_over) == (
        expected,
        [KeyError],
        True,
    )
    assert (upload.failure is not None) is (not passes and 500 not in expected)


@each_row(
    ("rules", "content_type", "body", "status"),
    [
        ("[{content: program, for: upload}]", "application/octet-stream", PROGRAM, 403),
        ("[{content: program, for: upload}]", "application/octet-stream", b"text", None),
        ("[{content: program, for: download}]", "application/octet-stream", PROGRAM, None),
        ("[{content: program, for: upload}]", FORM, form(part(b"text"), part(PROGRAM)), 403),
        ("[{content: program, for: upload}]", FORM, form(part(b"text")), None),
        ("[{content: program, for: upload, action: tag}]", FORM, form(part(PROGRAM)), None),
        ("[{endings: exe, for: upload}]", FORM, form(part(b"a", 'form-data; name="a"; filename="b.exe"')), 403),
        ("[{endings: exe, for: upload}]", FORM, form(part(b"a", 'form-data; name="a"; filename="b.txt"')), None),
        ("[{types: image/*, for: upload}]", "image/png", b"text", 403),
        ("[{larger-than: 1k, for: upload}]", "application/octet-stream", bytes(1025), 403),
        ("[{larger-than: 1k, for: upload}]", "application/octet-stream", bytes(1024), None),
        ("[{endings: exe, for: upload}]", "application/octet-stream", b"", None),
    ],
)
def test_an_upload_that_has_come_is_refused_or_goes_on(
    tmp_path: Path, rules: str, content_type: str, body: bytes, status: int | None
) -> None:
    flow = flow_of("http://h.example/", "POST", Content_Type=content_type)
    flow.request.content = body
    uploads, judgement = inspector_of(tmp_path, rules)
    uploads.request(flow, judgement)
    assert (flow.response and flow.response.status_code) == status


def inspector_of(folder: Path, rules: str) -> tuple[UploadInspector, Judgement]:
    policy, errors = read_whole(folder, f"files: {rules}\nlayers: []\n")
    assert errors == []
    judgement = judgement_of(engine_of("rules: []").decide(request_of("http://h.example/")))
    outcome = FileOutcome(runtime := Runtime())
    uploads = UploadInspector(runtime, outcome, FileScans(outcome))
    return uploads, judgement._replace(settings=policy.all_groups[-1].settings)


@each_row(
    ("content_type", "body", "status"),
    [
        ("text/plain", b"text", None),
        ("text/plain", EICAR, 403),
        (FORM, form(part(b"text"), part(EICAR)), 403),
        (FORM, form(part(b"text")), None),
    ],
)
def test_an_upload_is_scanned_as_a_whole_and_by_its_parts(
    tmp_path: Path, content_type: str, body: bytes, status: int | None
) -> None:
    flow = flow_of("http://h.example/", "POST", Content_Type=content_type)
    flow.request.content = body
    with icap_service() as address:
        uploads, judgement = inspector_of(
            tmp_path, f"[{{infected: true, for: upload}}]\nscanner: {{address: '{address}'}}"
        )
        asyncio.run(scanned(uploads, flow, judgement))
    assert (flow.response and flow.response.status_code) == status


async def scanned(uploads: UploadInspector, flow: http.HTTPFlow, judgement: Judgement) -> None:
    scan = uploads.request(flow, judgement)
    assert scan is not None
    await scan


@each_row("hold", ["65m", "big", "-1"])
def test_a_form_is_held_up_to_a_bound(tmp_path: Path, hold: str) -> None:
    assert read_whole(tmp_path, "uploads: {hold: 64m}\nlayers: []\n")[1] == []
    (error,) = read_whole(tmp_path, f"uploads: {{hold: {hold}}}\nlayers: []\n")[1]
    assert error.endswith("expected a size such as 8m, at most 64m")


def test_an_upload_that_cannot_be_looked_at_is_told_as_a_request(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    flow = flow_of("http://h.example/", "POST")
    flow.request.content = PROGRAM
    monkeypatch.setattr(UploadLook, "take", lambda *_: {}["broken"])
    uploads, judgement = inspector_of(tmp_path, "[{content: program, for: upload}]")
    uploads.request(flow, judgement)
    assert flow.response is not None
    assert "the filter failed on a request, it is refused (on-failure: error)" in caplog.text
