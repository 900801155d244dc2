"""Faults of what a lab's proxy asks for a part of its work: a scanner of files, and the store of reports."""

from __future__ import annotations

import html
import re
import sqlite3
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from urllib.parse import urljoin

import httpx

from e2e.origin import PATIENCE
from e2e.proxy import eventually
from faults.lab import DECIDES, Lab
from support.scanners import EICAR, Does, SpoiledClamd
from support.waiting import wait_until

#: what clients send, and get
FILE = b"a file " * 10_000
#: seconds that a scan may take; those beside it are answered in less
_SECONDS = 10
_TAKEN = "Thank you."


def _use_scanner(lab: Lab, scanner: SpoiledClamd) -> None:
    """Have a lab scan uploads and downloads, with an ``on-failure`` of the scanner's as the lab has it."""
    on_failure = "block" if lab.choice == "closed" else "pass"
    where = f"clamd://self.test:{scanner.port}"
    lab.policy.write_text(
        f"{lab.policy.read_text()}files: [{{infected: true, types: application/*, for: both}}]\n"
        f"scanner: {{address: '{where}', seconds: {_SECONDS}, on-failure: {on_failure}}}\n"
    )
    lab.origin.pages["/file"] = "application/x", FILE
    lab.origin.pages["/infected"] = "application/x", FILE + EICAR


def _is_got(client: httpx.Client, path: str = "file") -> bool:
    """Whether a client gets all of a file."""
    try:
        return len(client.get(f"http://good.test/{path}").content) >= len(FILE)
    except httpx.RemoteProtocolError:  # it had its first octets while it was scanned
        return False


def _is_well(lab: Lab, client: httpx.Client) -> bool:
    return lab.seen(sends=FILE) == DECIDES and _is_got(client) and not _is_got(client, "infected")


def _times_logged(lab: Lab, words: str) -> int:
    log = lab.log / "decisions.jsonl"
    return log.read_text().count(words) if log.is_file() else 0


def scanner(does: Does | None, words: str) -> Callable[[Lab], AbstractContextManager[None]]:
    """A scanner does something else with questions, or is gone, and the log has these words.

    What is scanned meanwhile is for the scanner's ``on-failure``; others wait no longer, and it comes back.
    """

    @contextmanager
    def inject(lab: Lab) -> Iterator[None]:
        with SpoiledClamd() as clamd, lab.proxy.client() as client, ThreadPoolExecutor() as beside:
            start = len(lab.proxy.log)
            _use_scanner(lab, clamd)
            lab.wait_for(" rules of ", start)
            assert _is_well(lab, client)
            before = _times_logged(lab, words)
            clamd.connected.queue.clear()
            if does is None:
                clamd.go_away()
            else:
                clamd.does = does
            waiting = beside.submit(_is_got, client)
            if does == SpoiledClamd.hang:
                clamd.connected.get(timeout=PATIENCE)
                assert lab.seen() == DECIDES
                assert not waiting.done(), "others wait for a scan"
            else:
                waiting.result()
            yield
            assert waiting.result() is (lab.choice == "open")
            wait_until(lambda: _times_logged(lab, words) > before)
            clamd.come_back()
            assert _is_well(lab, client), "it does not come back"
        lab.restore()

    return inject


@contextmanager
def scanner_away(lab: Lab) -> Iterator[None]:
    """Nobody listens where the scanner should, before a proxy runs."""
    with SpoiledClamd() as asked:
        _use_scanner(lab, asked)
        asked.go_away()
        yield
    assert _times_logged(lab, "not scanned: the scanner cannot be asked")


def _reports(lab: Lab) -> int:
    """How many reports the store has; none if it cannot be read."""
    with suppress(sqlite3.Error), closing(sqlite3.connect(f"{lab.store.as_uri()}?mode=ro", uri=True)) as database:
        return int(database.execute("SELECT coalesce(sum(times), 0) FROM reports").fetchone()[0])
    return 0


def _report(client: httpx.Client) -> bool:
    """Whether the page says that a report was taken."""
    page = client.get("http://ads.test/")
    actions = re.findall(r'action="([^"]*)"', page.text)
    tokens = re.findall(r'name="token" value="([^"]*)"', page.text)
    form = {"token": html.unescape(tokens[-1]), "report": "on", "words": "no ad"}
    answer = client.post(urljoin(str(page.url), html.unescape(actions[-1])), data=form)
    assert answer.status_code == 403
    return _TAKEN in answer.text


def report(fault: Callable[[Lab], AbstractContextManager[None]]) -> Callable[[Lab], AbstractContextManager[None]]:
    """Somebody reports a mistake while the store has a fault: the page says that it was taken where it is stored.

    Afterwards, reports are taken.
    """

    @contextmanager
    def inject(lab: Lab) -> Iterator[None]:
        start = len(lab.proxy.log)
        lab.policy.write_text(f"{lab.policy.read_text()}reports: on\n")
        lab.wait_for(" rules of ", start)
        with lab.proxy.client() as client:
            assert _report(client), "nobody can report"
            with fault(lab):
                before = _reports(lab)
                assert _report(client) == (_reports(lab) > before), "the page does not say what has become of a report"
                yield
            before = _reports(lab)
            assert eventually(lambda: _report(client) and _reports(lab) > before), "it does not come back"
        assert "Traceback" not in lab.proxy.log.text(start)
        lab.restore()

    return inject
