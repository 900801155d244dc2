"""A list that has changed is held back where it is much worse than its last good copy; each limit, and its boundary."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from hushlist.core.compile import policy_compiler
from hushlist.core.compile.index_cache import IndexCache
from hushlist.core.compile.policy_compiler import Compiled, compile_policy
from hushlist.core.lists.list_source import ProblemReport
from hushlist.core.match.expressions import full_hash
from hushlist.core.policy.policy_file import PolicyError
from hushlist.core.policy.policy_reader import read_policy
from hushlist.extensions.subscriptions.gate import reasons
from hushlist.extensions.subscriptions.gate_limits import GateLimits
from hushlist.extensions.subscriptions.list_comparison import BroadRule, ListChange, compare_lists
from hushlist.extensions.subscriptions.list_store import store_of_file
from unit.rows import each_row

BROAD, BELOW = "a new rule covers too much", "the rule covers every site below it"
PAGE = "<!DOCTYPE html>\n<title>502 Bad Gateway</title>\n"


def hosts(*numbers: int) -> str:
    return "".join(f"h{number}.example\n" for number in numbers)


class Lists:
    """A policy of one list, and its cache."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.cache = folder, IndexCache(folder / "cache")
        self.policy, self.list = folder / "policy.yaml", folder / "bad.txt"
        self.write_policy()

    def write_policy(self, entry: str = "{file: bad.txt, format: domains}", gate: str = "on") -> None:
        self.policy.write_text(f"gate: {gate}\nlayers: [{{name: lists, lists: [{entry}]}}]\n")

    def compile(self, text: str | bytes | None = None, file: str = "bad.txt") -> Compiled:
        """Compile, with a new text of the list."""
        if text is not None:
            (self.folder / file).write_bytes(text if isinstance(text, bytes) else text.encode())
        return compile_policy(self.policy, cache=self.cache)

    def why(self, text: str | bytes | None = None, file: str = "bad.txt") -> str | None:
        """Why the list is held back, without what is always said."""
        held = self.compile(text, file).policy.held.get(self.folder / file)
        return held and held.removeprefix("held back: ").partition("; its last good copy stays in force")[0]

    def accept(self) -> None:
        policy = read_policy(self.policy, ProblemReport(""))
        assert policy is not None
        store = store_of_file(Path(policy.source), self.list, self.cache.folder)
        with store.locked():
            assert store.accept() is not None


@pytest.fixture
def lists(tmp_path: Path) -> Lists:
    return Lists(tmp_path)


def rules_of(compiled: Compiled, *names: str) -> set[str]:
    return {name for name in names if compiled.index.on_host(name.encode()).matches}


# -- what is held back -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (
            PAGE,
            "it cannot be read: bad.txt:1: <!DOCTYPE html>: the file begins as a web page does (HTML), and is no list",
        ),
        ("", "nothing in it can be used, and it had 3 rules"),
        ("# Title: bad\n", "nothing in it can be used, and it had 3 rules"),
        ("Too many requests\n", "nothing in it can be used, and it had 3 rules"),
        ("a b\nc d\nh1.example\n", "it is no list of its format: 2 of 3 entries cannot be read"),
        ("a b\nh1.example\n", None),
        (b"\x1f\x8b\x08\0abc", "it cannot be read: bad.txt: its compression is broken: it ends too early"),
        ("Forbidden\n", f"{BROAD}: line 1: forbidden/: it is a single label: {BELOW}"),
        ("h1.example\nco.uk\n", f"{BROAD}: line 2: co.uk/: it is a public suffix (as com is): {BELOW}"),
    ],
)
def test_what_is_no_list_any_more_is_held_back(lists: Lists, text: str | bytes, why: str | None) -> None:
    assert lists.why(hosts(1, 2, 3)) is None
    assert lists.why(text) == why
    if why:
        assert rules_of(lists.compile(), "h1.example", "h2.example") == {"h1.example", "h2.example"}


def test_the_message_has_the_command_that_accepts_and_it_does(lists: Lists) -> None:
    lists.compile(hosts(*range(200)))
    (why,) = lists.compile(hosts(*range(50))).policy.held.values()
    assert why == (
        "held back: it loses 150 of 200 rules, more than 50 %; its last good copy stays in force; "
        f"to use it as it is: hushlist update --policy {lists.policy} --accept {lists.list}"
    )
    lists.accept()
    accepted = lists.compile()
    assert accepted.policy.held == {}
    assert rules_of(accepted, "h49.example", "h150.example") == {"h49.example"}
    assert lists.why(hosts(*range(40))) is None  # compared with what was accepted


def test_a_list_that_cannot_be_opened_is_held_back(lists: Lists) -> None:
    lists.compile(hosts(1, 2, 3))
    lists.list.unlink()
    os.mkfifo(lists.list)
    assert lists.why() == "it cannot be read: bad.txt: it is no regular file"
    assert rules_of(lists.compile(), "h1.example") == {"h1.example"}
    lists.write_policy(gate="{format: off}")
    with pytest.raises(PolicyError, match="it is no regular file"):
        lists.compile()


@pytest.mark.parametrize("name", ["urls", "domains.1"])
def test_a_file_that_is_gone_out_of_a_folder_is_an_error(lists: Lists, name: str) -> None:
    folder = lists.folder / "bad"
    folder.mkdir()
    for own in ("domains.0", "domains.1", "urls"):
        (folder / own).write_text(f"{own}.example\n")
    lists.write_policy("bad")
    lists.compile()
    (folder / name).unlink()
    with pytest.raises(PolicyError, match="it is gone, and its rules are in force") as error:
        lists.compile()
    assert folder / name in error.value.files  # it is watched
    (folder / name).touch()
    held = lists.compile()
    assert [*held.policy.held] == [folder / name]
    assert rules_of(held, f"{name}.example")
    store = store_of_file(Path(held.policy.source), folder / name, lists.cache.folder)
    with store.locked():
        assert store.accept()
    assert not rules_of(lists.compile(), f"{name}.example")


def test_at_first_nothing_is_compared(lists: Lists) -> None:
    compiled = lists.compile("co.uk\n")
    assert compiled.policy.held == {}
    assert any("public suffix" in warning.why for warning in compiled.report.warnings)
    lists.write_policy("{file: hashes, format: sha256}")
    compiled = lists.compile(full_hash(b"co.uk/").hex(), "hashes")
    (warning,) = compiled.report.warnings
    assert warning.why.startswith("it is the hash of co.uk/: it is a public suffix")
    (lists.folder / "page.txt").write_text(PAGE)
    lists.write_policy("{file: page.txt, format: domains}")
    with pytest.raises(PolicyError, match="web page"):
        lists.compile()


def test_the_limits_of_the_policy_and_of_a_list(lists: Lists) -> None:
    entry = "{{file: bad.txt, format: domains, gate: {}}}"
    for gate, own, is_held in (
        ("{loses: 10%}", "on", True),
        ("{loses: 50%}", "on", False),
        ("on", "{loses: 29%}", True),
        ("on", "{loses: 30%}", False),
        ("{loses: 10%}", "{loses: off}", False),
        ("off", "{loses: 10%}", True),
        ("{loses: 10%}", "off", False),
    ):
        lists.write_policy(entry.format("off"))
        lists.compile(hosts(*range(10)))
        lists.write_policy(entry.format("on"))
        lists.compile()
        lists.write_policy(entry.format(own), gate)
        assert (lists.why(hosts(*range(7))) is not None) is is_held, (gate, own)
        lists.list.write_text(hosts(*range(10)))


@pytest.mark.parametrize(
    ("gate", "own", "held"),
    [("on", "on", True), ("{suffixes: off}", "on", False), ("{suffixes: off}", "{suffixes: on}", True)],
)
def test_new_public_suffixes_of_hashes(lists: Lists, gate: str, own: str, *, held: bool) -> None:
    lists.write_policy(f"{{file: bad.txt, format: sha256, gate: {own}}}", gate)
    known = "".join(f"{sha256(bytes([number])).hexdigest()}\n" for number in range(9))
    lists.compile(known)
    for octets in (32, 8):
        why = lists.why(known + full_hash(b"github.io/")[:octets].hex())
        assert (why is not None) is held
        assert not why or "the hash of github.io/: it is a public suffix (as github.io is)" in why


def test_new_popular_domains_in_the_clear_and_as_hashes(lists: Lists) -> None:
    (lists.folder / "popular").write_text("1,www.bank.example\n2,news.example\n")
    for form, rule, new in (
        ("domains", "h1.example", "bank.example"),
        ("sha256", full_hash(b"h1.example/").hex(), full_hash(b"news.example/").hex()),
    ):
        for own, is_held in (("on", True), ("{popular: off}", False)):
            lists.write_policy(f"{{file: {form}-{is_held}, format: {form}, gate: {own}}}", "{popular: popular}")
            lists.compile(f"{rule}\n", f"{form}-{is_held}")
            why = lists.why(f"{rule}\n{new}\n", f"{form}-{is_held}")
            assert (why is not None) is is_held
            assert not why or "of the popular domains" in why
    (lists.folder / "popular").write_text("9,other.example\n")
    lists.write_policy("{file: domains-True, format: domains}", "{popular: popular}")
    assert lists.why(None, "domains-True") is None  # judged anew by another file


# -- what counts as lost -----------------------------------------------------------------------------------------------


def lost(lists: Lists, old: str, new: str, form: str = "domains") -> str | None:
    lists.write_policy(f"{{file: bad.txt, format: {form}, gate: off}}")
    lists.compile(old)
    lists.write_policy(f"{{file: bad.txt, format: {form}}}")
    lists.compile()
    return lists.why(new)


def hashed(names: str, octets: int = 32) -> str:
    return "".join(full_hash(f"{name}/".encode())[:octets].hex() + "\n" for name in names.split())


@pytest.mark.parametrize("pieces", [None, 1000])
def test_what_a_broader_rule_covers_is_not_lost(
    lists: Lists, pieces: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    if pieces:
        monkeypatch.setattr("hushlist.core.compile.list_chunks.PIECE", pieces)
    below = "".join(f"a{number}.h{number % 10}.example\n" for number in range(200))
    assert lost(lists, below, hosts(*range(10))) is None
    assert lost(lists, below, hosts(*range(4))) == "it loses 120 of 200 rules, more than 50 %"
    assert lost(lists, below, below * 2) is None


def test_hashes_of_the_same_names_are_the_same_rules(lists: Lists) -> None:
    names = hosts(*range(200))
    lists.write_policy("{file: bad.txt, format: domains}")
    lists.compile(names)
    lists.write_policy("{file: bad.txt, format: sha256}")
    assert lists.why(hashed(names)) is None
    assert lists.why(hashed(names, 8)) is None
    assert lists.why(hashed(names)) == "it loses 200 of 200 rules, more than 50 %"  # a prefix fits more


def test_of_rules_of_two_actions_those_are_covered_whose_action_is_the_cover_s(lists: Lists) -> None:
    def text(*rules: tuple[str, str]) -> str:
        return "rules:\n" + "".join(f"- {{expression: {name}, action: {action}}}\n" for name, action in rules)

    kept, own = range(100), (("x", "block"), ("y", "allow"))
    lists.write_policy("own.yaml")
    lists.compile(text(*((f"{name}.h{at}.example", action) for at in kept for name, action in own)), "own.yaml")
    why = lists.why(text(("z.example", "allow"), *((f"h{at}.example", "block") for at in kept)), "own.yaml")
    assert why == "it loses 100 of 200 rules, and 1 new one takes others back, more than 50 %"


@each_row(
    ("old", "new", "form", "number"),
    [
        ("192.0.{}.0/25", "192.0.0.0/16", "addresses", 0),
        ("192.0.{}.0/25", "192.0.0.0/18", "addresses", 136),
        ("a{}.example", "example", "domains", 0),
    ],
)
def test_what_is_merged_into_one_is_not_lost(lists: Lists, old: str, new: str, form: str, number: int) -> None:
    lists.write_policy(f"{{file: bad.txt, format: {form}, gate: {{suffixes: off}}}}")
    lists.compile("".join(old.format(own) + "\n" for own in range(200)))
    why = lists.why(f"{new}\n")
    assert why == ((number and f"it loses {number} of 200 rules, more than 50 %") or None)


RULE = BroadRule(3, "co.uk/", "why")


@each_row(
    ("change", "bad", "is_written", "limits", "found"),
    [
        (ListChange(100, 50, 50, []), (0, 0), False, GateLimits(), 0),
        (ListChange(100, 49, 51, []), (0, 0), False, GateLimits(), 1),
        (ListChange(99, 1, 98, []), (0, 0), False, GateLimits(), 0),
        (ListChange(10, 10, 10, []), (0, 0), False, GateLimits(), 1),
        (ListChange(10, 10, 10, []), (0, 0), True, GateLimits(), 0),
        (ListChange(10, 9, 9, []), (0, 0), False, GateLimits(), 0),
        (ListChange(9, 9, 9, []), (0, 0), False, GateLimits(), 0),
        (ListChange(9, 0, 9, []), (0, 0), False, GateLimits(), 1),
        (ListChange(9, 0, 9, []), (0, 0), True, GateLimits(), 0),
        (ListChange(100, 0, 100, []), (0, 0), True, GateLimits(), 1),
        (ListChange(9, 0, 9, []), (0, 0), False, GateLimits(format=False), 0),
        (ListChange(0, 0, 0, []), (0, 0), False, GateLimits(loses=0, is_own=True), 0),
        (ListChange(3, 2, 1, []), (0, 0), True, GateLimits(loses=33, is_own=True), 1),
        (ListChange(3, 2, 1, []), (0, 0), True, GateLimits(loses=34, is_own=True), 0),
        (ListChange(9, 9, 0, []), (0, 9), False, GateLimits(), 0),
        (ListChange(9, 9, 0, []), (9, 10), False, GateLimits(), 1),
        (ListChange(9, 9, 0, []), (10, 10), False, GateLimits(), 0),
        (ListChange(9, 9, 0, []), (9, 10), False, GateLimits(format=False), 0),
        (ListChange(200, 9, 191, [RULE, RULE]), (0, 10), False, GateLimits(), 3),
        (ListChange(200, 200, 0, [RULE]), (0, 0), False, GateLimits(), 1),
    ],
)
def test_the_boundaries(
    change: ListChange, bad: tuple[int, int], limits: GateLimits, found: int, *, is_written: bool
) -> None:
    assert len(list(reasons(change, limits, bad, is_written=is_written))) == found


# -- what is known of it -----------------------------------------------------------------------------------------------


def test_what_is_held_back_is_judged_once(lists: Lists, monkeypatch: pytest.MonkeyPatch) -> None:
    lists.compile(hosts(1, 2, 3))
    why = lists.why(PAGE)
    monkeypatch.setattr("hushlist.extensions.subscriptions.gate.compare_lists", None)
    assert lists.why() == why
    lists.write_policy(gate="{loses: 1%}")
    with pytest.raises(TypeError):
        lists.compile()


def test_what_a_person_rolled_back_stays_back(lists: Lists) -> None:
    lists.compile(hosts(1, 2, 3))
    compiled = lists.compile(hosts(1, 2, 4))
    store = store_of_file(Path(compiled.policy.source), lists.list, lists.cache.folder)
    with store.locked():
        store.roll_back()
    lists.write_policy(gate="{loses: 10%}")
    assert lists.why() == "a person has rolled it back"
    assert rules_of(lists.compile(), "h3.example", "h4.example") == {"h3.example"}
    lists.accept()
    assert rules_of(lists.compile(), "h3.example", "h4.example") == {"h4.example"}


def test_a_damaged_copy_is_an_error(lists: Lists) -> None:
    compiled = lists.compile(hosts(1, 2, 3))
    version = store_of_file(Path(compiled.policy.source), lists.list, lists.cache.folder).current()
    assert version is not None
    version.path.write_bytes(b"other")
    assert lists.compile().policy.held == {}  # it is not needed
    with pytest.raises(PolicyError, match=r"its last good copy is damaged: remove .* to use it as it is"):
        lists.compile(hosts(1, 2))
    version.path.unlink()
    assert lists.compile().policy.held == {}


def test_where_nothing_can_be_written_the_copies_still_count(
    lists: Lists, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "own"))
    lists.list.write_text(hosts(1, 2, 3))
    compile_policy(lists.policy)
    lists.list.write_text(PAGE)

    monkeypatch.setattr(IndexCache, "writing", _only_elsewhere(IndexCache.writing, tmp_path / "own"))
    compiled = compile_policy(lists.policy)
    try:
        assert compiled.temporary is not None
        assert [*compiled.policy.held] == [lists.list]
        assert rules_of(compiled, "h1.example") == {"h1.example"}
    finally:
        compiled.let_go()


def _only_elsewhere(writing: Callable[[IndexCache], object], folder: Path) -> Callable[[IndexCache], object]:
    def checked(self: IndexCache) -> object:
        if self.folder.is_relative_to(folder):
            raise OSError(28, "No space left on device", str(self.folder))
        return writing(self)

    return checked


def test_the_list_may_not_change_while_it_is_kept(lists: Lists, monkeypatch: pytest.MonkeyPatch) -> None:
    assemble = policy_compiler.assemble

    def changed(*arguments: Any) -> object:
        lists.list.write_text(hosts(7))
        return assemble(*arguments)

    monkeypatch.setattr(policy_compiler, "assemble", changed)
    with pytest.raises(PolicyError, match="it changed while it was read"):
        lists.compile(hosts(1, 2, 3))
    monkeypatch.undo()
    assert lists.compile(hosts(8)).policy.held == {}


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_kill_at_any_step_leaves_the_good_rules_in_force(lists: Lists) -> None:
    """Each operation on a file is an audit event, before which the process ends."""
    lists.compile(hosts(*range(20)))
    lists.list.write_text(hosts(*range(30, 50)))
    for step in range(1, 2000, 7):
        if (child := os.fork()) == 0:
            left = step

            def hook(event: str, arguments: tuple[object, ...]) -> None:
                nonlocal left
                left -= event in ("open", "os.rename", "os.remove", "os.mkdir") and str(lists.folder) in str(arguments)
                if left <= 0:
                    os._exit(9)

            sys.addaudithook(hook)
            compile_policy(lists.policy, cache=lists.cache, jobs=1)
            os._exit(0)
        if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0:
            break
        compiled = lists.compile()
        assert rules_of(compiled, "h1.example", "h30.example") == {"h1.example"}
        assert [*compiled.policy.held] == [lists.list]
    assert step > 20


@pytest.mark.parametrize(
    "new",
    [
        *("@@||com^", "@@||co.uk^$third-party", "@@*$script", "@@/.*/", "@@://", "@@|https:", "@@.com^"),
        *("||com^$important", "@@://www.", "@@|https://m", r"@@/^https?:\/\/[^qjxzv]/", "@@*$domain=one.example|com"),
    ],
)
def test_filters_that_newly_cover_too_much_are_held_back(lists: Lists, new: str) -> None:
    lists.write_policy("{file: bad.txt, format: adblock}")
    known = "[Adblock Plus 2.0]\n||h1.example^\n||h2.example/ads/*$script\n@@||fine.example^$script\n"
    lists.compile(known)
    assert (lists.why(f"{known}{new}\n") or "").startswith(f"{BROAD}: line 5: {new}: it ")
    assert lists.why(f"{known}/banner/*$image\n@@*$script,domain=one.example\n||h3.example^$script\n") is None


def test_rules_that_are_made_to_expire_are_lost(lists: Lists) -> None:
    def text(more: str) -> str:
        rules = "".join(f"- {{expression: h{number}.example{more}}}\n" for number in range(200))
        return f"name: hrn://a.example/b\naction: block\nrules:\n{rules}"

    lists.write_policy("{file: bad.txt, format: yaml}")
    lists.compile(text(""))
    assert lists.why(text(", expires: 2001-01-01")) is not None
    assert lists.why(text(", expires: 9999-01-01")) is None


@pytest.mark.parametrize("new", ["@@||{}^", "@@||{}^$important", "||{}^$badfilter", "@@*$domain={}"])
def test_what_takes_too_many_others_back_is_held_back(lists: Lists, new: str) -> None:
    lists.write_policy("{file: bad.txt, format: adblock}")
    old = "".join(f"||h{number}.example^\n" for number in range(200))

    def opening(number: int) -> str:
        return old + "".join(new.format(f"h{own}.example") + "\n" for own in range(number))

    lists.compile(opening(1))
    why = lists.why(opening(150))
    assert why == "it loses 0 of 201 rules, and 149 new ones take others back, more than 50 %"
    assert rules_of(lists.compile(), "h100.example") == {"h100.example"}
    assert lists.why(opening(90)) is None


@pytest.mark.slow
@pytest.mark.parametrize(
    ("new", "why"),
    [
        (hosts(*range(9, 20_000)), None),
        (hosts(*range(9, 20_000)) + "co.uk\n", f"{BROAD}: line 19992: co.uk/: it is a public suffix"),
        (hosts(*range(11_000, 20_000)), "it loses 11,000 of 20,000 rules, more than 50 %"),
        (hosts(*range(20_000)) + "no host\n" * 20_001, "it is no list of its format: 20,001 of 40,001 entries"),
        (PAGE + hosts(*range(20_000)), "it cannot be read: bad.txt:1: <!DOCTYPE html>: the file begins as a web page"),
    ],
    ids=["few lines", "a public suffix", "half of them", "bad entries", "a page"],
)
def test_a_long_list_is_judged_by_the_lines_that_differ_or_as_a_whole(
    lists: Lists, new: str, why: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    lists.compile(hosts(*range(20_000)))
    compared = []
    look = "hushlist.extensions.subscriptions.gate.compare_lists"
    monkeypatch.setattr(look, lambda *given: (compared.append(given), compare_lists(*given))[1])
    found = lists.why(new)
    assert (found or "").startswith(why or "")
    assert bool(found) is bool(why)
    (first, *_), *others = compared
    assert bool(others) is bool(why)
    assert why or first.length < 20_000


# -- by effect ---------------------------------------------------------------------------------------------------------

FILTERS = "[Adblock Plus]\n" + "".join(f"||h{number}.example/ads/\n" for number in range(120))
ADBLOCK = "{file: bad.txt, format: adblock}"
#: what a new filter does with ordinary requests
TOO_MUCH = {
    ".js": "stops",
    ".css": "stops",
    "?q=": "stops",
    "*.png$image": "stops",
    "/api/": "stops",  # a regular expression
    "*$font,3p": "stops",
    "/[a-f0-9]{6}\\.js/": "stops",
    "@@.js": "opens",
    "@@*/api/*": "opens",
    "@@*$image,to=~h1.example": "opens",
}


@pytest.mark.parametrize("new", TOO_MUCH)
def test_filters_that_fit_ordinary_requests_are_held_back(lists: Lists, new: str) -> None:
    lists.write_policy(ADBLOCK)
    assert lists.why(FILTERS) is None
    why = lists.why(f"{FILTERS}{new}\n") or ""
    verb = TOO_MUCH[new]
    assert f"it {verb} " in why
    assert "of 360 ordinary requests to made-up sites, more than 1 %, such as https://" in why
    lists.write_policy(ADBLOCK, "{requests: off, suffixes: off}")
    assert lists.why() is None


def test_a_list_that_is_new_each_day_is_judged_by_its_effect_and_its_size(lists: Lists) -> None:
    lists.write_policy("{file: bad.txt, format: domains, gate: {rolling: true}}")
    assert lists.why(hosts(*range(200))) is None
    assert lists.why(hosts(*range(200, 400))) is None
    assert lists.why(hosts(*range(400, 499))) == "it has 99 rules, and had 200: fewer by more than 50 %"
    assert lists.why(hosts(*range(400, 500))) is None
    assert (lists.why(hosts(*range(500, 600)) + "co.uk\n") or "").startswith(BROAD)
