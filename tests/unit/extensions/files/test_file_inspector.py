"""Downloads, from the heads of their answers on: what a look at the first octets says, and what flows on."""

from __future__ import annotations

import asyncio
import gzip
import random
from collections.abc import Awaitable, Callable
from io import BytesIO
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest
from mitmproxy import http

from hushlist.core.url.request import request_of
from hushlist.extensions.files import file_inspector
from hushlist.extensions.files.file_inspector import FileInspector
from hushlist.proxy.flow_request import SelfConnections
from hushlist.proxy.runtime import Runtime
from support.engines import engine_of, judgement_of
from support.flows import flow_of
from support.policies import read_whole
from support.scanners import EICAR, icap_service
from unit.rows import each_row

PROGRAM, TEXT = b"MZ\x90\0" + bytes(100), b"plain text\n" * 10


class Download:
    """A file on its way through a part of a proxy that has a policy with these settings."""

    def __init__(
        self, folder: Path, patch: pytest.MonkeyPatch, settings: str, body: bytes, url: str = "", **headers: str
    ) -> None:
        self._looks: list[tuple[Callable[..., bool], Callable[..., Any]]] = []
        patch.setattr(file_inspector, "look_at_answer", lambda _, *looks, **__: self._looks.append(looks))  # type: ignore[arg-type]
        self.runtime, self._body = Runtime(SelfConnections()), body
        self.runtime.engine = engine_of("rules: []")
        policy, errors = read_whole(folder, f"{settings}\nlayers: []\n")
        assert errors == []
        decided = judgement_of(self.runtime.engine.decide(request_of("http://h.example/")))
        self.part = FileInspector(self.runtime, SelfConnections())
        self.flow = flow_of(url or "http://h.example/data.bin")
        self.judgement = decided._replace(settings=policy.all_groups[-1].settings)
        self.part.passed(self.flow, self.flow.client_conn, self.judgement)
        fields = {"Content-Type": "application/octet-stream", "Content-Length": str(len(body)), **headers}
        self.flow.response = http.Response.make(200, headers={})
        self.flow.response.headers.clear()
        self.flow.response.headers.update({name: text for name, text in fields.items() if text})

    def arrive(self, step: int = 30) -> tuple[int, bytes]:
        """The status of what the client gets, and the body; 0 if the connection ends within it."""
        assert self.flow.response is not None
        self.part.responseheaders(self.flow)
        for is_enough, look in self._looks:
            came = next((end for end in range(0, len(self._body), step) if is_enough(self._body[:end], end)), None)
            said = look(self._body[:came], came is None)
            if isinstance(said, Awaitable):
                said = asyncio.run(self._awaited(said))
            if said is not None:
                return said.status_code, b""
        body, stream = b"", self.flow.response.stream
        for octets in (*(self._body[at : at + step] for at in range(0, len(self._body), step)), b""):
            body += stream(octets) if callable(stream) else octets  # type: ignore[operator]
        return 0 if self.flow.error else 200, body

    async def _awaited(self, said: Awaitable[http.Response | None]) -> http.Response | None:
        return await said

    @property
    def recorded(self) -> dict[str, int]:
        self.runtime.statistics.count()
        return {str(outcome.action): number for outcome, number in self.runtime.statistics.outcomes.top()}


@each_row(
    ("settings", "body", "headers", "status", "recorded"),
    [
        ("files: [{content: program}]", PROGRAM, {}, 403, {"block": 1}),
        ("files: [{content: program}]", TEXT, {}, 200, {}),
        ("files: [{content: program, action: tag}]", PROGRAM, {}, 200, {"tag": 1}),
        ("files: [{content: program, action: allow}]", PROGRAM, {}, 200, {}),
        ("files: [{content: program}]\nmode: tag", PROGRAM, {}, 200, {"block": 1}),
        ("files: [{endings: bin}]", TEXT, {}, 403, {"block": 1}),
        ("files: [{endings: bin, action: tag}]", TEXT, {}, 200, {"tag": 1}),
        ("files: [{endings: exe}]", TEXT, {}, 200, {}),
        ("files: [{types: image/*}]", TEXT, {"Content-Type": "image/png"}, 403, {"block": 1}),
        ("files: [{larger-than: 1k}]", bytes(1025), {}, 403, {"block": 1}),
        ("files: [{larger-than: 1k}]", bytes(1024), {}, 200, {}),
        ("files: [{content: program}]", gzip.compress(PROGRAM), {"Content-Encoding": "gzip"}, 403, {"block": 1}),
        ("files: [{content: program}]", gzip.compress(TEXT), {"Content-Encoding": "gzip"}, 200, {}),
        ("files: [{content: program}]", TEXT, {"Content-Encoding": "gzip, gzip"}, 403, {"block": 1}),
        ("files: [{content: program}]\nranges: pass", TEXT, {"Content-Encoding": "gzip, gzip"}, 200, {}),
        ("files: [{content: program, for: upload}]", PROGRAM, {}, 200, {}),
    ],
)
def test_a_file_is_stopped_or_passes_whole(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    settings: str,
    body: bytes,
    headers: dict[str, str],
    status: int,
    recorded: dict[str, int],
) -> None:
    download = Download(tmp_path, monkeypatch, settings, body, **headers)
    assert download.arrive() == (status, body if status == 200 else b"")
    assert download.recorded == recorded


@pytest.mark.parametrize(("mode", "status", "octets"), [("block", 0, 1020), ("tag", 200, 5000)])
def test_a_file_that_does_not_tell_its_length_ends_where_it_is_too_large(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: str, status: int, octets: int
) -> None:
    settings = f"files: [{{larger-than: 1k}}]\nmode: {mode}"
    download = Download(tmp_path, monkeypatch, settings, bytes(5000), **{"Content-Length": ""})
    assert download.arrive() == (status, bytes(octets))


@each_row(
    ("body", "more", "status", "fault"),
    [
        (EICAR, "", 403, False),
        (TEXT, "", 200, False),
        (b"", "", 200, False),
        (EICAR, ", largest: 10", 403, False),
        (EICAR, ", largest: 10, larger: pass", 200, False),
        (EICAR, ", address: 'icap://127.0.0.1:1/x'", 403, True),
        (EICAR, ", address: 'icap://127.0.0.1:1/x', on-failure: pass", 200, True),
    ],
)
def test_a_file_is_scanned_before_anything_of_it_passes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, body: bytes, more: str, status: int, fault: bool
) -> None:
    with icap_service() as address:
        if "address" not in more:
            more += f", address: '{address}'"
        settings = f"files: [{{infected: true}}]\nscanner: {{{more.removeprefix(', ')}}}"
        download = Download(tmp_path, monkeypatch, settings, body)
        assert download.arrive() == (status, body if status == 200 else b"")
        assert bool([*download.part.faults()]) is fault


@each_row(
    ("settings", "range_asked", "is_changed"),
    [
        ("files: [{content: program}]", "bytes=100-", True),
        ("files: [{content: program}]", "bytes=0-9", True),
        ("files: [{content: program}]", "", False),
        ("files: [{content: program}]\nranges: pass", "bytes=100-", False),
        ("files: [{content: program}]\nmode: tag", "bytes=100-", False),
        ("files: [{endings: exe}]", "bytes=100-", False),
        ("mode: block", "bytes=100-", False),
    ],
)
def test_the_whole_file_is_asked_for_where_a_part_would_say_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, settings: str, range_asked: str, is_changed: bool
) -> None:
    download = Download(tmp_path, monkeypatch, settings, TEXT)
    if range_asked:
        download.flow.request.headers["Range"] = range_asked
    assert download.part.change(download.flow, download.judgement) is is_changed
    assert ("Range" in download.flow.request.headers) is (bool(range_asked) and not is_changed)


@each_row(("name", "mode", "status"), [("b.exe", "block", 0), ("b.txt", "block", 200), ("b.exe", "tag", 200)])
@pytest.mark.parametrize("is_known", [True, False])
def test_an_archive_ends_before_its_end_where_a_member_is_blocked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, mode: str, status: int, is_known: bool
) -> None:
    archive = BytesIO()
    with ZipFile(archive, "w") as members:
        members.writestr("a.txt", random.Random(7).randbytes(400_000))
        members.writestr(name, b"text")
    settings = f"files: [{{endings: exe, members: true}}]\nmode: {mode}"
    headers = {} if is_known else {"Content-Length": ""}
    download = Download(tmp_path, monkeypatch, settings, archive.getvalue(), "http://h.example/a.zip", **headers)
    code, body = download.arrive(step=10_000)
    assert code == status
    assert (body == archive.getvalue()) is (status == 200)
    assert archive.getvalue().startswith(body)
    assert download.recorded == ({} if name == "b.txt" else {"block": 1})
