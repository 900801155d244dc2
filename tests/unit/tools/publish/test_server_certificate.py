"""A certificate that is renewed in its file is served, and one that cannot be used is not."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

import httpx
import pytest

from hushlist.tools.publish import list_server
from hushlist.tools.publish.list_server import ListServer, ServerLimits, keep_fresh, read_certificate
from hushlist.tools.publish.safebrowsing_service import SafeBrowsingService
from support.https_origin import write_chain


class _EndError(Exception):
    """Nothing more happens."""


def kept(
    files: tuple[Path, Path], changes: Sequence[Callable[[], object]], monkeypatch: pytest.MonkeyPatch
) -> tuple[list[ssl.SSLContext], list[str]]:
    """What is handed on, and complained of, while something changes before each look."""
    used, complaints, waiting = list[ssl.SSLContext](), list[str](), list(changes)

    async def wait(_: float) -> None:
        if not waiting:
            raise _EndError
        waiting.pop(0)()

    monkeypatch.setattr(list_server.asyncio, "sleep", wait)
    with suppress(_EndError):
        asyncio.run(
            keep_fresh(
                files, lambda: used.append(read_certificate(*files)), lambda error: complaints.append(str(error))
            )
        )
    return used, complaints


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    certificate, key = write_chain(tmp_path, tmp_path / "authority.pem")
    key.chmod(0o600)
    return certificate, key


def test_it_is_handed_on_once_for_each_change(files: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    def renew() -> None:
        write_chain(files[0].parent, files[0].parent / "authority.pem")

    used, complaints = kept(files, [lambda: None, renew, lambda: None, renew], monkeypatch)
    assert (len(used), complaints) == (2, [])


def test_what_cannot_be_used_is_complained_of_and_the_next_change_counts(
    files: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever renews a certificate may write it before its key."""
    good, certificate = files[0].read_bytes(), files[0]
    changes = [
        lambda: certificate.write_bytes(b"half"),
        lambda: None,
        certificate.unlink,
        lambda: certificate.write_bytes(good),
    ]
    used, complaints = kept(files, changes, monkeypatch)
    assert len(used) == 1
    assert ["no certificate with its key" in complaints[0], "No such file" in complaints[1]] == [True, True]
    assert len(complaints) == 2


@pytest.mark.parametrize("number", [0, 1])
def test_a_file_without_end_is_not_read(files: tuple[Path, Path], number: int) -> None:
    longest = 1024 * 1024
    with files[number].open("ab") as file:
        file.truncate(longest)
    read_certificate(*files)
    with files[number].open("ab") as file:
        file.truncate(longest + 1)
    with pytest.raises(OSError, match="longer than"):
        read_certificate(*files)


def test_new_connections_get_the_new_one(files: tuple[Path, Path]) -> None:
    def shown(port: int) -> str:
        return ssl.get_server_certificate(("127.0.0.1", port))

    async def serve() -> None:
        server = ListServer(SafeBrowsingService({}, 300.0), ServerLimits(), lambda _: None)
        port = server.listen("127.0.0.1", 0, read_certificate(*files))
        before = files[0].read_text()
        assert await asyncio.to_thread(shown, port) == before
        write_chain(files[0].parent, files[0].parent / "authority.pem")
        assert await asyncio.to_thread(shown, port) == before
        server.use_tls(read_certificate(*files))
        assert await asyncio.to_thread(shown, port) == files[0].read_text() != before
        server.close()

    asyncio.run(serve())


def test_a_key_that_is_taken_out_of_the_file_opens_nothing(tmp_path: Path) -> None:
    def status(port: int, key: str) -> int:
        return httpx.get(f"http://127.0.0.1:{port}/v5/hashLists?key={key}").status_code

    async def serve() -> None:
        server = ListServer(SafeBrowsingService({}, 300.0), ServerLimits(("old", "kept")), lambda _: None)
        port = server.listen("127.0.0.1", 0)
        assert await asyncio.to_thread(status, port, "old") == 200
        server.use_keys(("kept", "new"))
        assert [await asyncio.to_thread(status, port, key) for key in ("old", "kept", "new")] == [403, 200, 200]
        server.close()

    asyncio.run(serve())
