"""Which lists of a policy are published, and when they are read again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest

from hushlist.core.errors import Problem, SourceError
from hushlist.core.policy.policy_file import PolicyError
from hushlist.extensions.safe_browsing.v4_messages import ThreatType
from hushlist.tools.publish import list_publisher
from hushlist.tools.publish.list_publisher import (
    Publication,
    keep_publishing,
    make_versions,
    open_histories,
    read_publication,
)
from support.in_process import InProcess

PATIENCE = 60.0


@pytest.fixture(autouse=True)
def _compiles_in_process(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if "all_lists" not in request.node.name:  # one test is enough to see that the two belong together
        monkeypatch.setattr(list_publisher, "BackgroundCompiler", InProcess)


@pytest.fixture
def policy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    lists = "[{file: games.domains, title: Games}, phishing.domains]"
    (tmp_path / "policy.yaml").write_text(f"layers: [{{name: lists, lists: {lists}}}]")
    (tmp_path / "games.domains").write_text("games.example\n")
    (tmp_path / "phishing.domains").write_text("phishing.example\nphish.example\n")
    return tmp_path / "policy.yaml"


@pytest.mark.slow
def test_all_lists_are_published_as_malware_or_chosen_ones_as_what_is_said(policy: Path) -> None:
    sizes = {threat: len(own) for threat, own in read_publication(policy, {}).lists.items()}
    assert sizes == {1: 3, 2: 0, 3: 0, 4: 0}
    chosen = {"Games": ThreatType.UNWANTED_SOFTWARE, "phishing.domains": ThreatType.SOCIAL_ENGINEERING}
    publication = read_publication(policy, chosen)
    assert {threat: len(own) for threat, own in publication.lists.items()} == {1: 0, 2: 2, 3: 1, 4: 0}
    histories = open_histories(policy, pytest.fail)
    make_versions(publication, histories)
    assert list(publication.lines(histories)) == ["se-4b: version 1, 2 full hashes", "uws-4b: version 1, 1 full hash"]
    make_versions(publication, open_histories(policy, pytest.fail))
    assert [history.number for history in open_histories(policy, pytest.fail).values()] == [1, 1, 1, 1]


def test_a_list_that_is_not_there_is_named(policy: Path) -> None:
    with pytest.raises(SourceError, match="game: the policy has no such list; did you mean 'Games'"):
        read_publication(policy, {"game": ThreatType.MALWARE})


def published_while(
    policy: Path, change: Callable[[], object], ends: Callable[[list[Publication], list[Exception]], bool]
) -> tuple[list[Publication], list[Exception]]:
    """What is published, and what is complained of, from a change on until something is so."""
    found, problems = list[Publication](), list[Exception]()

    async def run() -> None:
        read = partial(read_publication, policy, {})
        first = await asyncio.to_thread(read)
        with ThreadPoolExecutor(1) as thread:
            task = asyncio.create_task(keep_publishing(first, read, found.append, thread, problems.append))
            await asyncio.to_thread(change)
            async with asyncio.timeout(PATIENCE):
                while not ends(found, problems):
                    assert not task.done(), task.exception()
                    await asyncio.sleep(0.02)
            task.cancel()

    asyncio.run(run())
    return found, problems


@pytest.mark.slow
def test_a_changed_list_is_published(policy: Path) -> None:
    games = policy.parent / "games.domains"
    found, problems = published_while(
        policy, lambda: games.write_text("games.example\nmore.example\n"), lambda found, _: bool(found)
    )
    assert ([len(own.lists[1]) for own in found], problems) == ([4], [])


def spent() -> float:
    """Seconds of processor that this process and those that it has waited for have used; they pass as fast if busy."""
    resource = pytest.importorskip("resource")
    return sum(sum(resource.getrusage(who)[:2]) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))


@pytest.mark.slow
def test_a_changed_list_is_soon_a_new_version(policy: Path) -> None:
    """When it was seen twice, it takes what the processor has to do: less than a second, in one of six tries."""
    histories, least, begun = open_histories(policy, pytest.fail), 60.0, list[float]()
    make_versions(read_publication(policy, {}), histories)

    def change() -> None:
        names = (f"{name}.{len(begun)}.example\n" for name in range(2000))
        begun.append(spent())
        (policy.parent / "games.domains").write_text("".join(names))

    for number in range(6):
        found, problems = published_while(policy, change, lambda found, _: bool(found))
        make_versions(found[0], histories)
        least = min(least, spent() - begun[-1])
        assert (problems, histories[1].number, len(found[0].lists[1])) == ([], number + 2, 2002)
        if least < 1.0:
            return
    pytest.fail(f"{least:.2f} s of processor time")


@pytest.mark.slow
def test_a_broken_list_is_complained_of_and_the_last_good_one_stays(policy: Path) -> None:
    policy_text = policy.read_text()

    def mend(found: list[Publication], problems: list[Exception]) -> bool:
        if problems and policy.read_text() == "layers: 1":
            policy.write_text(policy_text + "\n")
        return bool(found)

    found, problems = published_while(policy, lambda: policy.write_text("layers: 1"), mend)
    assert ["policy.yaml:1" in str(problem) for problem in problems] == [True]
    assert len(found[0].lists[1]) == 3


@pytest.mark.parametrize(
    "error",
    [
        OSError(28, "No space left on device"),
        MemoryError(),
        PolicyError([Problem("p", 0, "", "killed")], {}, may_pass=True),
    ],
    ids=lambda error: type(error).__name__,
)
def test_what_the_machine_failed_at_is_tried_again(
    policy: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    monkeypatch.setattr(list_publisher, "RETRY", 0.0)
    monkeypatch.setattr(list_publisher, "INTERVAL", 0.01)
    first, used, told = read_publication(policy, {}), list[Publication](), list[Exception]()

    def use(publication: Publication) -> None:
        if len(told) < 2:
            raise error
        used.append(publication)

    async def run() -> None:
        with ThreadPoolExecutor(1) as thread:
            yesterday = first._replace(day=first.day.replace(year=2001))
            task = asyncio.create_task(keep_publishing(yesterday, lambda: first, use, thread, told.append))
            async with asyncio.timeout(PATIENCE):
                while not used:
                    assert not task.done(), task.exception()
                    await asyncio.sleep(0.01)
            task.cancel()

    asyncio.run(run())
    assert (used, told) == ([first], [error, error])


@pytest.mark.slow
def test_rules_expire_at_the_turn_of_a_day(policy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = read_publication(policy, {})
    days = []

    async def run() -> None:
        yesterday = first._replace(day=first.day.replace(year=2001))
        with ThreadPoolExecutor(1) as thread:
            watching = keep_publishing(yesterday, lambda: first, lambda own: days.append(own.day), thread, days.append)
            task = asyncio.create_task(watching)
            async with asyncio.timeout(PATIENCE):
                while not days:
                    await asyncio.sleep(0.02)
            await asyncio.sleep(3 * list_publisher.INTERVAL)
            task.cancel()

    asyncio.run(run())
    assert days == [first.day]
