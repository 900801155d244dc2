"""The parts of ``peers.py`` that decide within a process.

Everything is measured in fresh processes, ours and the peers' in turns. Files are in the page cache.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from itertools import product
from pathlib import Path
from shutil import copytree
from statistics import median
from tempfile import TemporaryDirectory
from time import process_time, sleep, thread_time, time

import data
import ours
import theirs
from timing import drain, each, in_child, in_turns, once, percentile, resident
from workbench import Row, Skipped, Workbench, at_most, at_most_times, row

#: rounds over the same URLs after the first, in one process
WARM_ROUNDS = 5
MICROSECONDS = 1e6
MILLISECONDS = 1e3
MEGABYTES = 1e-6
#: no more rules than adblock-rust holds in reasonable time and memory
MOST_ADBLOCK_RULES = 1_000_000


@dataclass(frozen=True, slots=True)
class Timed:
    """Seconds for one URL, in one process, and of how many it was said that they are blocked."""

    #: the first time that each is asked, in recorded order
    cold: float
    #: the median of later rounds over the same URLs
    warm: float
    #: of single decisions, each timed by itself
    median: float
    p99: float
    blocked: int


#: what is reported of it; of growth, the first two
FIGURES: dict[str, Callable[[Timed], float]] = {
    "first time": lambda timed: timed.cold,
    "again": lambda timed: timed.warm,
    "median of single ones": lambda timed: timed.median,
    "99th percentile": lambda timed: timed.p99,
}
#: how many times as long as adblock-rust we may take
TIMES = {"first time": 0.8, "again": 1, "median of single ones": 1, "99th percentile": 2}


def _timed(
    function: Callable[..., object], columns: tuple[Iterable[object], ...], blocks: Callable[..., bool]
) -> Timed:
    urls = columns[0]
    assert isinstance(urls, list)
    count = len(urls)
    cold = drain(function, *columns) / count
    warm = median(drain(function, *columns) / count for _ in range(WARM_ROUNDS))
    single = each(function, *columns)
    blocked = sum(map(blocks, map(function, *columns)))
    return Timed(cold, warm, median(single), percentile(single, 99), blocked)


# -- In a process of its own -------------------------------------------------------------------------------------


def time_ours(policy: Path) -> Timed:
    return _timed(ours.load(policy), (data.urls(),), ours.is_blocked)


def p99_of_ours(policy: Path) -> float:
    """Seconds that one in a hundred decisions takes or more, the first time that each URL is asked."""
    return percentile(each(ours.load(policy), data.urls()), 99)


def time_adblock(filters: Path) -> Timed:
    check = theirs.load_adblock(filters).check_network_urls
    return _timed(check, theirs.adblock_arguments(data.urls()), lambda result: result.matched)


def time_braveblock(filters: Path) -> Timed:
    check = theirs.load_braveblock(filters).check_network_urls
    return _timed(check, theirs.adblock_arguments(data.urls()), bool)


def time_gglsbl() -> Timed:
    return _timed(theirs.gglsbl_hashes(), (data.urls(),), lambda _: False)


def time_loading_ours(policy: Path) -> float:
    other = policy.parent / "other"
    other.mkdir(exist_ok=True)
    (other / "list").write_text("nobody.example\n")
    ours.load(ours.write_policy(other, other / "list", "domains"))  # has everything imported
    return once(lambda: ours.load(policy))


def time_loading_adblock(filters: Path) -> float:
    theirs.need_package("adblock")
    return once(lambda: theirs.load_adblock(filters))


def time_groups(groups: int, clients: int) -> float:
    """Seconds of processor time that a look-up takes; a third of the groups go by IPv6, a user and a port."""
    from hushlist.core.policy.group_table import GroupTable
    from hushlist.core.policy.groups import Client, Group, GroupSettings

    def group(number: int) -> Group:
        network = IPv4Network((number << 14, 18)) if number % 3 else IPv6Network((number << 96, 32))
        users, ports = (frozenset[str](), frozenset[int]()) if number % 3 else ({f"u{number}"}, {8080 + number % 5})
        who = {"networks": (network,), "users": frozenset(users), "ports": frozenset(ports)}
        return Group(str(number), (), GroupSettings(), **who)  # type: ignore[arg-type]

    def client(number: int) -> Client:
        place = number % groups
        address = IPv4Address((place << 14) + number % 16384) if place % 3 else IPv6Address((place << 96) + number)
        return Client(str(address), f"u{place}", 8080 + place % 5)

    table = GroupTable([*map(group, range(groups)), Group("everybody", (), GroupSettings())])
    every = [client(number * 7919) for number in range(clients)]
    assert all(table.group(client).name != "everybody" for client in every)
    return once(lambda: deque(map(table.group, every), maxlen=0), process_time) / clients


def time_log(policy: Path, together: int) -> float:
    """Seconds of processor time that a decision takes from the event loop into file and database, of real requests.

    So many are written together. What makes the decisions, and waits for the log, is not counted. The log pauses for a
    tenth of its times, with as many batches to an addition to the numbers of requests.
    """
    decided = ours.decided_requests(policy)
    from hushlist.core.decide.decision import LogRecord
    from hushlist.extensions.journal import log_writer
    from hushlist.extensions.journal.log_keys import LoggedRequests, LogSettings

    log_writer.GATHER, log_writer.COUNT = log_writer.GATHER / 10, log_writer.COUNT / 10
    with TemporaryDirectory(dir=policy.parent) as folder:
        log = log_writer.LogWriter(LogSettings(folder=Path(folder), what=LoggedRequests.ALL), state=Path(folder))

        def wait() -> None:
            while log.waiting:
                sleep(0.002)

        def write(first: int) -> float:
            """Seconds that the caller waits for it afterwards."""
            for number, (request, decision) in enumerate(decided[first : first + together], first):
                moment = time()
                who = f"10.0.0.{number % 50}", None, "default"
                reference = log.reference(moment)
                log.write(LogRecord(reference, moment, decision, *who, "GET", False, None, 9, request))
            return once(wait, thread_time)

        write(0)  # the files are made
        start = process_time()
        waited = sum(map(write, range(together, len(decided), together)))
        taken = process_time() - start - waited
        assert log.close()
    return taken / (len(decided) - together)


def memory_of_ours(policy: Path, decisions: int) -> int:
    return _memory_after(ours.load(policy), (data.repeated_urls(decisions),))


def memory_of_adblock(filters: Path, decisions: int) -> int:
    check = theirs.load_adblock(filters).check_network_urls
    return _memory_after(check, theirs.adblock_arguments(data.repeated_urls(decisions)))


def _memory_after(function: Callable[..., object], columns: tuple[Iterable[object], ...]) -> int:
    drain(function, *columns)
    return resident()


# -- The parts ---------------------------------------------------------------------------------------------------


def clear_policy(bench: Workbench, count: int) -> Path:
    """A compiled policy with so many domains."""
    return ours.compiled(bench.folder / f"clear-{count}", data.domain_list(bench.lists, count), "domains")


def shipped_policy(bench: Workbench, name: str = "rules") -> Path:
    """A compiled policy of this checkout, in a copy of its folder."""
    folder = copytree(data.ROOT / name, bench.folder / "policies" / name, dirs_exist_ok=True)
    return ours.compile_policy(folder / "policy.yaml")


def hashed_policy(bench: Workbench, count: int) -> Path:
    """A compiled policy with the full hashes of so many domains."""
    return ours.compiled(bench.folder / f"hashes-{count}", data.hash_list(bench.lists, count), "sha256")


def decide(bench: Workbench) -> list[Row]:
    """One decision by rules in the clear, beside adblock-rust with the same domains."""
    theirs.need_package("adblock")
    policy = clear_policy(bench, bench.sizes.rules)
    filters = data.adblock_list(bench.lists, bench.sizes.rules)
    runs = [partial(in_child, time_ours, policy), partial(in_child, time_adblock, filters)]
    names = ["adblock"]
    if _is_there("braveblock"):
        runs.append(partial(in_child, time_braveblock, filters))
        names.append("braveblock")
    own, *others = in_turns(bench.sizes.rounds, *runs)
    return [
        row(
            f"decide, {bench.sizes.rules:,} domains: {what}",
            "µs",
            [figure(timed) for timed in own],
            scale=MICROSECONDS,
            peer=name,
            theirs=[figure(timed) for timed in other],
            target=at_most_times(TIMES[what]) if name == "adblock" else None,
            note=f"{_seen(what)}Hushlist blocked {own[0].blocked:,} URLs, {name} {other[0].blocked:,}",
        )
        for name, other in zip(names, others, strict=True)
        for what, figure in FIGURES.items()
    ]


def adblock_filters(bench: Workbench) -> list[Row]:
    """One decision by EasyList and EasyPrivacy, of each URL first and again, beside adblock-rust with page and type."""
    theirs.need_package("adblock")
    lists, asked = data.filter_lists(), data.asked_urls()
    folder = bench.folder / "filters"
    folder.mkdir(parents=True, exist_ok=True)
    files = [folder / f"{number}.adblock" for number, _ in enumerate(lists)]
    for file, text in zip(files, lists, strict=True):
        file.write_text(text)
    policy = ours.compile_policy(ours.write_lists(folder, *({"file": str(file)} for file in files)))
    own, other = in_turns(
        bench.sizes.rounds,
        partial(in_child, ours.time_filters, policy, asked),
        partial(in_child, theirs.time_filters, lists, asked),
    )
    times = [zip(*timed, strict=True) for timed in (own, other)]
    return [
        row(
            f"decide, EasyList and EasyPrivacy: {what}",
            "µs",
            of_ours,
            scale=MICROSECONDS,
            peer="adblock",
            theirs=of_theirs,
            target=at_most_times(3),
        )
        for what, of_ours, of_theirs in zip(("first time", "again"), *times, strict=True)
    ]


def _is_there(package: str) -> bool:
    try:
        theirs.need_package(package)
    except Skipped:
        return False
    return True


def _seen(what: str) -> str:
    """What is to be said of a figure of decisions."""
    return "" if what == "first time" else "hosts that were seen before; "


def hashes(bench: Workbench) -> list[Row]:
    """One decision by full hashes, beside what gglsbl takes only to make the hashes."""
    policy = hashed_policy(bench, bench.sizes.rules)
    runs = (partial(in_child, time_ours, policy), partial(in_child, p99_of_ours, policy))
    peer = (partial(in_child, time_gglsbl),) if _is_there("gglsbl") else ()
    own, p99, *others = in_turns(bench.sizes.rounds, *runs, *peer)
    measure = f"decide, {bench.sizes.rules:,} hashes:"
    rows = [
        row(
            f"{measure} {what}",
            "µs",
            [figure(timed) for timed in own],
            scale=MICROSECONDS,
            peer="gglsbl, hashing alone",
            theirs=[figure(timed) for other in others for timed in other],
            target=None if what == "99th percentile" else at_most(10),
            note=f"{_seen(what)}Hushlist blocked {own[0].blocked:,} of {len(data.urls()):,} URLs",
        )
        for what, figure in FIGURES.items()
    ]
    first = f"{measure} 99th percentile, first time"
    return [*rows, row(first, "µs", p99, scale=MICROSECONDS, target=at_most(30))]


def hashed_uris(bench: Workbench) -> list[Row]:
    """One decision by hashed URIs: by those of each algorithm and variant, with and without flags; then by all."""
    count = bench.sizes.rules // 10
    lists: dict[str, list[dict[str, str]]] = {}
    for number, kind in enumerate(product(("sha1", "md5", "x-sha256"), ("n", "p"), (False, True))):
        algorithm, variant, is_flagged = kind
        hashed = partial(ours.hashed_uri, algorithm=algorithm, variant=variant, is_flagged=is_flagged)
        file = data.hashed_uri_list(bench.lists, count, number, hashed)
        name = f"{algorithm}, variant {variant.upper()}, {'with' if is_flagged else 'without'} flags"
        lists[name] = [{"file": str(file), "format": "hashed-uris", "variant": variant}]
    lists["each of these kinds"] = [own for one in lists.values() for own in one]
    policies = [
        ours.compile_policy(ours.write_lists(bench.folder / f"uris-{count}-{number}", *own))
        for number, own in enumerate(lists.values())
    ]
    timed = in_turns(bench.sizes.rounds, *(partial(in_child, ours.time_requests, policy) for policy in policies))
    return [
        row(
            f"decide, {count:,} hashed URIs, {name}",
            "µs",
            times,
            scale=MICROSECONDS,
            target=at_most(25),
            note="processor time, each URL new",
        )
        for name, times in zip(lists, timed, strict=True)
    ]


def shipped(bench: Workbench) -> list[Row]:
    """One decision by the policy of a checkout and by each example's, each URL new."""
    names = ("rules", "examples/family", "examples/school", "examples/company")
    policies = {name: shipped_policy(bench, name) for name in names}
    timed = in_turns(
        bench.sizes.rounds, *(partial(in_child, ours.time_requests, policy) for policy in policies.values())
    )
    return [
        row(f"decide, policy of {name}", "µs", times, scale=MICROSECONDS, target=at_most(10), note="each URL new")
        for name, times in zip(policies, timed, strict=True)
    ]


def longest(bench: Workbench) -> list[Row]:
    """The longest decision, by the policy of a checkout, which has every kind of rule."""
    (times,) = in_turns(bench.sizes.rounds, partial(in_child, ours.time_longest, shipped_policy(bench)))
    return [row("longest decision, target of 64 KiB", "ms", times, scale=MILLISECONDS, target=at_most(40))]


def groups(bench: Workbench) -> list[Row]:
    """Which group a client is in, of a thousand groups, and of a hundred thousand clients in turns."""
    times = [in_child(time_groups, 1_000, 100_000) for _ in range(bench.sizes.rounds)]
    return [
        row("client to its group, 1,000 groups, 100,000 clients", "µs", times, scale=MICROSECONDS, target=at_most(3))
    ]


def log(bench: Workbench) -> list[Row]:
    """A row of the decision log, in the files of lines and in SQLite, by both threads.

    A proxy writes ten times a second what it has: many rows together at 10,000 requests a second, 80 at 800.
    """
    policy = clear_policy(bench, bench.sizes.rules)
    many, some = in_turns(
        bench.sizes.rounds, *(partial(in_child, time_log, policy, together) for together in (1_000, 80))
    )
    return [
        row("a row of the log, what: all", "µs", many, scale=MICROSECONDS, target=at_most(15)),
        row("a row of the log, what: all, at 800 requests/s", "µs", some, scale=MICROSECONDS),
    ]


def growth(bench: Workbench) -> list[Row]:
    """How the time for a decision grows with the rules."""
    sizes = bench.sizes.growth
    rows = []
    for kind, prepared in (("domains", clear_policy), ("hashes", hashed_policy)):
        policies = [prepared(bench, count) for count in sizes]
        by_size = in_turns(bench.sizes.rounds, *(partial(in_child, time_ours, policy) for policy in policies))
        for what in ("first time", "again"):
            taken = [[FIGURES[what](timed) for timed in timeds] for timeds in by_size]
            medians = ", ".join(f"{median(times) * MICROSECONDS:.2f}" for times in taken)
            rows.append(
                row(
                    f"growth from {sizes[0]:,} to {sizes[-1]:,} {kind}: {what}",
                    "times",
                    [last / first for first, last in zip(taken[0], taken[-1], strict=True)],
                    target=at_most(1.5),
                    note=f"{medians} µs at {', '.join(f'{count:,}' for count in sizes)}",
                )
            )
    return rows


def opening(bench: Workbench) -> list[Row]:
    """From a process that has everything imported to one that can decide."""
    theirs.need_package("adblock")
    most = bench.sizes.growth[-1]
    policy = clear_policy(bench, most)
    fewer = min(bench.sizes.rules, MOST_ADBLOCK_RULES)
    filters = data.adblock_list(bench.lists, fewer)
    index = ours.index_file(policy)
    opened, loaded, other = in_turns(
        bench.sizes.rounds,
        partial(in_child, ours.time_to_open, index),
        partial(in_child, time_loading_ours, policy),
        partial(in_child, time_loading_adblock, filters),
    )
    peer = f"adblock, loading {fewer:,}"
    return [
        *(
            row(f"{what} of {most:,} rules", "ms", times, scale=MILLISECONDS, peer=peer, theirs=other, target=target)
            for what, times, target in (
                ("open an index", opened, at_most(20)),
                ("load a compiled policy", loaded, None),
            )
        ),
        row(f"index file of {most:,} rules", "octets a rule", [index.stat().st_size / most]),
    ]


def memory(bench: Workbench) -> list[Row]:
    """Resident memory that a list adds to a process, beside what it adds to one with adblock-rust."""
    theirs.need_package("adblock")
    count, decisions = bench.sizes.rules, bench.sizes.decisions
    filters = [data.adblock_list(bench.lists, size) for size in (1, count)]
    rows = []
    for kind, prepared in (("domains", clear_policy), ("hashes", hashed_policy)):
        policies = [prepared(bench, size) for size in (1, count)]
        one, many, their_one, their_many = in_turns(
            bench.sizes.rounds,
            *(partial(in_child, memory_of_ours, policy, decisions) for policy in policies),
            *(partial(in_child, memory_of_adblock, file, decisions) for file in filters),
        )
        rows.append(
            row(
                f"memory added by {count:,} {kind}",
                "MB",
                [after - before for before, after in zip(one, many, strict=True)],
                scale=MEGABYTES,
                peer="adblock",
                theirs=[after - before for before, after in zip(their_one, their_many, strict=True)],
                target=at_most(12),
                note=f"VmRSS after {decisions:,} decisions, less that with 1 rule",
            )
        )
        octets = in_child(ours.hot_octets_a_rule, ours.index_file(policies[-1]))
        rows.append(row(f"hot part of an index of {count:,} {kind}", "octets a rule", [octets], target=at_most(8)))
    return rows
