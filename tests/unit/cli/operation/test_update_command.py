"""``hushlist update`` and ``lists``."""

import errno
import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from hushlist.extensions.subscriptions.list_store import ListStore
from support.https_origin import HttpsOrigin, Page
from unit.cli.running import Run

OLD, NEW = b"old.example\nboth.example\n", b"new.example\nboth.example\nmore.example\n"


@pytest.fixture
def origin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[HttpsOrigin]:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    for name in ("https_proxy", "http_proxy", "HTTPS_PROXY", "HTTP_PROXY"):
        monkeypatch.delenv(name, raising=False)
    with HttpsOrigin(tmp_path / "origin") as origin:
        monkeypatch.setenv("SSL_CERT_FILE", str(origin.authority))
        origin.pages["/ads.txt"] = Page(OLD)
        origin.pages["/more.txt"] = Page(OLD)
        Path("own.domains").write_text("own.example\n")
        text = (
            f"layers:\n- name: lists\n  lists:\n  - {{url: '{origin.url}/ads.txt', format: domains, title: Ads}}\n"
            f"  - {{url: '{origin.url}/more.txt', format: domains, optional: true}}\n"
            "  - {file: own.domains, format: domains}\n"
        )
        Path("policy.yaml").write_text(text)
        yield origin


@pytest.fixture
def update(run: Run, origin: HttpsOrigin) -> Run:
    def call(*arguments: str) -> tuple[int, str, str]:
        code, out, err = run("update", "--policy", "policy.yaml", *arguments)
        return code, out.replace(origin.url, "URL"), err.replace(origin.url, "URL")

    return call  # type: ignore[return-value]


@pytest.fixture
def lists(run: Run, origin: HttpsOrigin) -> Run:
    def call(*arguments: str) -> tuple[int, str, str]:
        code, out, err = run("lists", "--policy", "policy.yaml", *arguments)
        return code, out.replace(origin.url, "URL"), err.replace(origin.url, "URL")

    return call  # type: ignore[return-value]


def test_each_list_has_a_line(update: Run, origin: HttpsOrigin, run: Run) -> None:
    both = "updated    URL/ads.txt  +2 -0 lines\nupdated    URL/more.txt  +2 -0 lines\n"
    assert update() == (0, both, "")
    assert update("Ads") == (0, "unchanged  URL/ads.txt\n", "")
    origin.pages["/ads.txt"] = Page(NEW)
    origin.pages["/more.txt"] = Page(b"", 404)
    failed = "failed     URL/more.txt  the server says 404 Not Found\n"
    assert update() == (1, f"updated    URL/ads.txt  +2 -1 lines\n{failed}", "")
    assert run("check", "--policy", "policy.yaml", "http://new.example/")[0] == 1


def test_a_list_may_be_named_in_many_ways(update: Run, origin: HttpsOrigin) -> None:
    for name in (f"{origin.url}/ads.txt", "ads.txt", "Ads"):
        assert update(name)[1].endswith("URL/ads.txt\n") or update(name)[1].count("URL/ads.txt") == 1
    assert update("other.txt")[::2] == (
        2,
        "policy.yaml: other.txt: it is none of the policy's lists (URL/ads.txt, URL/more.txt, own.domains)\n",
    )
    assert update("own.domains") == (2, "", "hushlist: own.domains: it is a file, and has no url to fetch it from\n")


def test_without_a_copy_commands_say_what_to_do_and_fetch_nothing(run: Run, lists: Run, origin: HttpsOrigin) -> None:
    for command in (("check", "a.example"), ("explain", "a.example"), ("compile",), ("audit", "own.domains")):
        code, _, err = run(command[0], "--policy", "policy.yaml", *command[1:])
        assert code == 2
        assert f"policy.yaml:4: {origin.url}/ads.txt: there is no copy of it yet: run 'hushlist update" in err
    code, out, _ = lists()
    assert code == 1
    assert "    there is no copy of it yet: run 'hushlist update --policy policy.yaml'\n" in out
    assert origin.requests == []


def test_what_fails_at_first_is_told_once(update: Run, origin: HttpsOrigin) -> None:
    origin.pages.clear()
    code, out, err = update()
    assert (code, out.count("the server says 404 Not Found"), err) == (1, 2, "")


def test_other_mistakes_of_the_policy_are_told_too(update: Run) -> None:
    with Path("policy.yaml").open("a") as file:
        file.write("odd: 1\n")
    code, out, err = update()
    assert (code, out.count("updated")) == (2, 2)
    assert "odd: unknown key" in err
    Path("policy.yaml").write_text("[")
    assert update()[0] == 2


def test_a_policy_without_any_is_told(update: Run) -> None:
    Path("policy.yaml").write_text("layers: [{name: lists, lists: [{file: own.domains, format: domains}]}]")
    assert update() == (0, "", "policy.yaml: none of its lists has a url\n")


def test_held_back_accepted_and_rolled_back(update: Run, lists: Run, origin: HttpsOrigin) -> None:
    update()
    origin.pages["/ads.txt"] = Page(b"...\n")
    why = "nothing in it can be used, and it had 2 rules"
    assert update("Ads") == (1, f"held back  URL/ads.txt  {why}\n", "")
    code, out, _ = lists()
    assert (code, f"    held back: {why}\n" in out) == (1, True)
    assert update("--rollback", "Ads") == (
        2,
        "",
        "hushlist: URL/ads.txt: there is no version before the one in force\n",
    )
    code, out, _ = update("--accept", "Ads")
    assert (code, out.startswith("URL/ads.txt: accepted; in force since 20")) == (0, True)
    assert out.endswith(f"\n    it was held back: {why}\n")  # the publisher may have another by now
    assert update("--accept", "Ads") == (2, "", "hushlist: URL/ads.txt: no version of it is held back\n")
    code, out, _ = update("--rollback", "ads.txt")
    assert (code, out.startswith("URL/ads.txt: rolled back to what came into force 20")) == (0, True)
    assert update("Ads") == (1, "held back  URL/ads.txt  a person has rolled it back\n", "")
    assert update("--accept") == (2, "", "hushlist: name the lists that are to be accepted or rolled back\n")


def test_a_disk_that_keeps_nothing_is_said(update: Run, origin: HttpsOrigin, monkeypatch: pytest.MonkeyPatch) -> None:
    update("Ads")

    def fail(_store: ListStore) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(ListStore, "accept", fail)
    assert update("--accept", "Ads") == (2, "", "hushlist: URL/ads.txt: No space left on device\n")


def test_a_file_that_is_held_back_is_accepted_by_its_path(update: Run) -> None:
    store = ListStore(Path("policy.yaml"), str(Path("own.domains").absolute()))
    with store.locked():
        store.use(store.keep(b"own.example\n"))
        store.hold_back(store.keep(b"other.example\n"), ["why"])
    assert update("--accept", f"{Path.cwd()}/own.domains")[0] == 0
    assert store.current().path.read_bytes() == b"other.example\n"  # type: ignore[union-attr]


def test_a_list_that_is_new_each_day_is_told_how_to_be_let_in(update: Run, lists: Run, origin: HttpsOrigin) -> None:
    """Only when it has happened before: what loses all of itself once may be broken."""
    for letter in b"abc":
        if letter != ord("a"):
            assert "rolling" not in lists()[1]
        origin.pages["/ads.txt"] = Page(b"".join(b"%c%d.example\n" % (letter, number) for number in range(150)))
        code, out, _ = update("Ads")
        assert (code, "it loses 150 of 150 rules" in out) == ((0, False) if letter == ord("a") else (1, True))
        if letter == ord("b"):
            assert "rolling" not in lists()[1]
            assert update("--accept", "Ads")[0] == 0
    assert "write gate: {rolling: true}" in lists()[1]


def test_a_list_of_a_year_that_loses_its_rules_is_not_called_new_each_day(update: Run, lists: Run) -> None:
    store = ListStore(Path("policy.yaml"), str(Path("own.domains").absolute()))
    pages = [b"".join(b"%c%d.example\n" % (letter, number) for number in range(9)) for letter in b"abc"]
    with store.locked():
        for page in pages[:2]:
            store.use(store.keep(page))
        store.hold_back(store.keep(pages[2]), ["it loses 9 of 9 rules, more than 50 %"])
    assert "rolling" in lists()[1]
    with store.locked():
        store.hold_back(store.keep(pages[1] + b"more.example\n"), ["it loses 9 of 9 rules, more than 50 %"])
    assert "rolling" not in lists()[1]


def test_every_list_is_shown(update: Run, lists: Run, origin: HttpsOrigin) -> None:
    update()
    origin.pages.clear()
    update("more.txt")
    code, out, err = lists()
    assert (code, err) == (1, "")
    lines = [" ".join(line.split()) for line in out.splitlines()]
    soon = lines[2].split()[2]
    assert soon in ("11m", "12m", "13m", "14m", "15m", "16m", "17m", "18m")
    assert lines == [
        "rules age next try versions list",
        "2 0m 1d 1 URL/ads.txt",
        f"2 0m {soon} 1 URL/more.txt",
        "failed 1 time: the server says 404 Not Found",
        "1 0m - 1 own.domains",
    ]
    rows = [json.loads(line) for line in lists("--json")[1].splitlines()]
    trouble, fault = ["failed 1 time: the server says 404 Not Found"], "the server says 404 Not Found"
    times = [{key: row[key] for key in ("since", "checked", "next_try")} for row in rows]
    assert rows == [
        {"list": name, "layer": "lists", "rules": number, "versions": kept, "fault": why, "held_back": None, **more}
        for (name, number, kept, why), more in zip(
            [("URL/ads.txt", 2, 1, None), ("URL/more.txt", 2, 1, fault), ("own.domains", 1, 1, None)],
            [time | {"troubles": said} for time, said in zip(times, ([], trouble, []), strict=True)],
            strict=True,
        )
    ]
    assert rows[0]["next_try"] > rows[0]["checked"] + 80_000


def test_a_list_that_another_process_updates_is_waited_for_only_so_long(
    update: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hushlist.extensions.subscriptions.list_update.LONGEST_FETCH", 0.2)
    from hushlist.extensions.subscriptions.list_update import subscribed_lists

    with subscribed_lists(Path("policy.yaml"))[0].store.locked():
        code, out, _ = update("Ads")
    assert (code, out) == (1, "failed     URL/ads.txt  another process is at it\n")
