"""Files that wait for their clients: who gets them, where, and how much of them is kept."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

import pytest
from mitmproxy import http

from hushlist.core.policy.groups import Client
from hushlist.core.url.request import request_of
from hushlist.extensions.files import checked_files, file_inspector, held_upload
from hushlist.extensions.files.checked_files import PATH, CheckedFiles, Place, is_for_file, may_wait
from hushlist.extensions.files.file_inspector import FileInspector
from hushlist.extensions.files.upload_look import media_types_of
from hushlist.proxy.flow_request import SelfConnections
from hushlist.proxy.runtime import Runtime
from hushlist.proxy.service.siblings import Siblings
from support.engines import engine_of, judgement_of
from support.flows import flow_of
from support.policies import read_whole
from unit.rows import each_row

URL = "http://h.example/a/data.bin?q"
CLIENT, OTHER = Client("10.0.0.1"), Client("10.0.0.2")
NAVIGATES = {"sec-fetch-dest": "document", "sec-fetch-mode": "navigate", "accept": "text/html,*/*"}
PASSES = "rules: [{expression: other.example/}]"


def request_to(url: str = URL, method: str = "GET", **headers: str) -> http.Request:
    flow = flow_of(url, method, **headers)
    flow.request.headers["Host"] = flow.request.host
    return flow.request


def judged(client: Client = CLIENT) -> Any:
    return judgement_of(engine_of(PASSES).decide(request_of(URL)))._replace(client=client)


async def kept(
    files: CheckedFiles, client: Client = CLIENT, octets: bytes = b"abc", **headers: str
) -> tuple[str, Callable[[http.Response | None], Any]]:
    """The token of a file, empty if there is no page for it; and what ends its scan."""
    said = asyncio.get_running_loop().create_future()

    async def scan() -> http.Response | None:
        return await said

    async def end(result: http.Response | None = None) -> None:
        said.set_result(result)
        for _ in range(3):
            await asyncio.sleep(0)

    answer = http.Response.make(200, octets, headers)
    page = files.keep(judged(client), request_to(), answer, asyncio.ensure_future(scan()))
    return "" if page is None else page.headers["Refresh"].partition("?")[2], end


def taken(files: CheckedFiles, token: str, client: Client = CLIENT, url: str = URL) -> http.Response:
    return files.take(token, Place.of(client, request_to(url)), request_to(url))


@each_row(
    ("headers", "content_type", "waits"),
    [
        (NAVIGATES, "application/zip", True),
        ({"accept": "text/html,*/*"}, "application/zip", True),
        ({"accept": "*/*, text/html"}, "application/zip", False),
        (NAVIGATES | {"sec-fetch-dest": "iframe"}, "application/zip", False),
        (NAVIGATES | {"sec-fetch-dest": "empty"}, "application/zip", False),
        (NAVIGATES | {"sec-fetch-mode": "cors"}, "application/zip", False),
        ({"sec-fetch-site": "none", "accept": "text/html"}, "application/zip", False),
        *(
            (NAVIGATES, named, False)
            for named in (
                None,
                "text/plain",
                "text/html",
                "application/xhtml+xml",
                "image/svg+xml",
                "application/xml",
                "application/javascript",
                "multipart/x-mixed-replace",
                "application/zip, text/html",
            )
        ),
    ],
)
def test_a_page_is_for_a_tab_that_asks_for_a_file(
    headers: dict[str, str], content_type: str | None, waits: bool
) -> None:
    answer = http.Response.make(200, b"", {} if content_type is None else {"Content-Type": content_type})
    types = media_types_of(answer.headers.get_all("content-type"))
    assert may_wait(request_to(**headers), answer, types) is waits
    assert not may_wait(request_to(method="HEAD", **headers), answer, types)


@each_row(
    ("target", "is_for"),
    [
        (f"{PATH}?token", True),
        (PATH, True),
        (f"{PATH}/x", True),
        ("/.well-known/hushlist/%66ile?token", True),
        ("/.well-known/hushlist/%2566ile?token", True),
        ("/%2ewell-known/./hushlist/x/../file?token", True),
        ("//.well-known//hushlist/file?token", True),
        ("/.well-known/hushlist/file;a=b?token", True),
        ("/.well-known/hushlist/unblock?url=x", False),
        ("/a?/.well-known/hushlist/file?token", False),
        ("/%66ile", False),
    ],
)
def test_no_spelling_of_the_address_goes_on(target: str, is_for: bool) -> None:
    assert is_for_file(target.encode()) is is_for


@pytest.mark.parametrize(
    ("client", "url"),
    [
        (OTHER, URL),
        (Client("10.0.0.1", "user"), URL),
        (CLIENT, "https://h.example/"),
        (CLIENT, "http://h.example:81/"),
        (CLIENT, "http://other.example/"),
    ],
)
def test_a_file_is_for_one_client_at_one_origin_once(client: Client, url: str) -> None:
    async def steps() -> None:
        files = CheckedFiles(lambda: None)
        token, end = await kept(files)
        assert "Refresh" in taken(files, token).headers
        await end()
        assert taken(files, token, client, url).status_code == 404
        assert taken(files, "x").status_code == 404
        assert taken(files, token).content == b"abc"
        again = taken(files, token)
        assert (again.status_code, again.headers["Location"]) == (303, "/a/data.bin?q")
        assert taken(files, token, client, url).status_code == 404

    asyncio.run(steps())


@each_row(
    ("told", "expected"),
    [
        (None, 'attachment; filename="data.bin"'),
        ("inline", 'attachment; filename="data.bin"'),
        ('inline; filename="b.zip"', 'attachment; filename="b.zip"'),
        ("attachment", 'attachment; filename="data.bin"'),
        ('attachment; filename="b.zip"', 'attachment; filename="b.zip"'),
        ("inline; filename=s.e\xfcxe", "attachment; filename=\"s.e_xe\"; filename*=UTF-8''s.e%C3%BCxe"),
    ],
)
def test_a_file_is_a_download_by_its_name(told: str | None, expected: str) -> None:
    async def steps() -> http.Response:
        files = CheckedFiles(lambda: None)
        headers = {"Content-Security-Policy": "sandbox allow-scripts"}
        token, end = await kept(files, **headers | ({} if told is None else {"Content-Disposition": told}))
        await end()
        return taken(files, token)

    headers = asyncio.run(steps()).headers
    assert headers.get_all("Content-Disposition") == [expected]
    assert headers.get_all("Content-Security-Policy") == ["sandbox"]
    assert headers["X-Content-Type-Options"] == "nosniff"


def test_heads_count_and_there_is_a_number_of_files(monkeypatch: pytest.MonkeyPatch) -> None:
    async def steps() -> None:
        files = CheckedFiles(lambda: None)
        held = [await kept(files) for _ in range(20)]
        assert not (await kept(files))[0]
        assert (await kept(files, OTHER))[0]
        await held[3][1]()  # the one that waits gives way
        assert (await kept(files))[0]
        assert taken(files, held[3][0]).status_code == 303
        monkeypatch.setattr(checked_files, "MOST", 21)
        assert not (await kept(files, Client("10.0.0.3")))[0]
        monkeypatch.setattr(held_upload, "MOST_OF_CLIENT", 1 << 20)
        assert (await kept(CheckedFiles(lambda: None), Client("10.0.0.4")))[0]
        assert not (await kept(CheckedFiles(lambda: None), Client("10.0.0.5"), x="a" * (1 << 20)))[0]

    asyncio.run(steps())


def test_what_waits_takes_no_room_of_others_and_the_oldest_gives_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checked_files, "MOST_OF_CLIENT", 3 << 20)
    monkeypatch.setattr(checked_files, "MOST_WAITING", 4 << 20)

    async def steps() -> None:
        files = CheckedFiles(lambda: None)
        before = held_upload._held.total()
        held = []
        for client in (CLIENT, CLIENT, CLIENT, OTHER, OTHER):
            held.append(await kept(files, client, bytes(1 << 20)))
            await held[-1][1]()
        assert held_upload._held.total() == before
        assert [files.judgement(token, Place.of(CLIENT, request_to())) is not None for token, _ in held[:3]] == [
            False,
            False,
            True,
        ]
        assert all(taken(files, token, OTHER).status_code == 200 for token, _ in held[3:])

    asyncio.run(steps())


def test_a_file_that_nobody_asks_for_and_all_of_another_policy_are_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checked_files, "KEPT", 0.05)

    async def steps() -> None:
        files = CheckedFiles(lambda: None)
        (token, end), (other, _) = await kept(files), await kept(files)
        await end()
        files.forget()
        assert taken(files, other).status_code == 303
        token, end = await kept(files)
        await end()
        while files.judgement(token, Place.of(CLIENT, request_to())) is not None:
            await asyncio.sleep(0.01)
        assert taken(files, token).status_code == 303

    asyncio.run(steps())


def test_a_scan_for_which_nobody_waits_is_ended() -> None:
    async def steps() -> None:
        files, scan = CheckedFiles(lambda: None), asyncio.ensure_future(asyncio.Event().wait())
        files.keep(judged(), request_to(), http.Response.make(200), scan)  # type: ignore[arg-type]
        files.forget()
        with suppress(asyncio.CancelledError):
            await scan
        assert scan.cancelled()

    asyncio.run(steps())


@pytest.mark.parametrize("has_siblings", [False, True])
def test_one_of_several_workers_shows_no_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_siblings: bool
) -> None:
    looks: list[object] = []
    monkeypatch.setattr(file_inspector, "look_at_answer", lambda *_, meanwhile, **__: looks.append(meanwhile))
    runtime = Runtime(SelfConnections())
    runtime.siblings = cast(Siblings, object()) if has_siblings else None
    scans = "files: [{infected: true}]\nscanner: {address: 'clamd://127.0.0.1:1'}\n"
    part, settings = FileInspector(runtime, SelfConnections()), read_whole(tmp_path, scans)[0].all_groups[-1].settings
    flow = flow_of(URL, accept="text/html")
    flow.response = http.Response.make(200, b"", {"Content-Type": "application/zip"})
    part.passed(flow, flow.client_conn, judged()._replace(settings=settings))
    part.responseheaders(flow)
    assert [meanwhile is None for meanwhile in looks] == [has_siblings]


def test_a_file_is_judged_again_and_no_method_reaches_the_origin() -> None:
    async def answered(part: FileInspector, token: str, method: str = "GET") -> http.Response:
        flow = flow_of(f"http://h.example{PATH}?{token}", method, client=CLIENT.address, Host="h.example")
        answering = part.answer(flow)
        assert answering is not None
        await answering
        assert flow.response is not None
        return flow.response

    async def steps() -> None:
        runtime = Runtime(SelfConnections())
        runtime.engine = engine_of(PASSES)
        part = FileInspector(runtime, SelfConnections())
        assert part.is_idle(is_needed=False)
        token, end = await kept(part._checked)
        await end()
        assert not part.is_idle(is_needed=False)
        for method in ("HEAD", "OPTIONS", "POST", "get"):
            assert (await answered(part, token, method)).status_code == 404
        runtime.engine = engine_of("rules: [{expression: h.example/}]")
        assert (await answered(part, token)).status_code == 403
        runtime.engine = engine_of(PASSES)
        assert (await answered(part, token)).headers["Location"] == "/a/data.bin?q"
        token, end = await kept(part._checked)
        await end()
        assert (await answered(part, token)).content == b"abc"

    asyncio.run(steps())
