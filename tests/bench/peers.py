"""Measures Hushlist beside its peers, in one run: decisions, memory, compilation, Squid's helpers, the proxy.

    pip install -e '.[bench,test]'
    python tests/bench/peers.py [--quick] [--full] [--check] [--readme] [--out FOLDER] [--only PART ...]

It needs the real data of ../shared (HUSHLIST_SHARED may name another place), Linux, and the Debian packages squidguard,
nginx-light or nginx, wrk and valgrind. A part whose peer is missing is skipped, and says so. Seeds are fixed; ours and
the peers take turns; figures are medians of all rounds, and a ratio is the median of the ratios of the rounds. Each row
says its target, and whether that is met. With --check the exit code is 1 where one is missed.

Into FOLDER go results.md and results.json (the figures of every round); and into its folder work the lists and indexes
that were made, some gigabytes, which the next run uses again. --quick has small sizes: it shows that
all works, and its figures mean nothing. --full adds the parts that take long. --readme puts the table into README.md.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shlex
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from pathlib import Path

import data
import decisions
import fleet
import relaying
import squidguard
import theirs
import traffic
from timing import processor
from workbench import COLUMNS, FULL, QUICK, Row, Skipped, Workbench

PARTS: dict[str, Callable[[Workbench], list[Row]]] = {
    "decide": decisions.decide,
    "filters": decisions.adblock_filters,
    "hashes": decisions.hashes,
    "hashed-uris": decisions.hashed_uris,
    "shipped": decisions.shipped,
    "longest": decisions.longest,
    "helper": squidguard.helper,
    "groups": decisions.groups,
    "log": decisions.log,
    "growth": decisions.growth,
    "open": decisions.opening,
    "memory": decisions.memory,
    "compile": squidguard.compile_both,
    "compile-many": squidguard.compile_many,
    "proxy": traffic.proxy,
    "instructions": traffic.instructions,
    "logging": traffic.logging,
    "private": traffic.private,
    "reload": traffic.reload,
    "update": traffic.update,
    "tls": relaying.tls,
    "tls-connections": relaying.new_connections,
    "restarts": relaying.restarts,
    "megabyte": relaying.megabyte,
    "page": relaying.page,
    "share": relaying.share,
    "one-command": fleet.one_command,
    "own-workers": fleet.own_workers,
    "workers": fleet.workers,
}
#: those that run only with --full, or when they are named
LONG = ("growth", "open")
README = Path(__file__).with_name("README.md")
#: what stands around the table there
BEGIN, END = "<!-- written by peers.py --readme -->\n", "<!-- end -->\n"

Cells = tuple[str, ...]


def main(argv: Sequence[str] | None = None) -> int:
    """Run the parts; 1 with --check where a target is missed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="small sizes: does all of it work?")
    parser.add_argument("--full", action="store_true", help=f"also what takes long: {', '.join(LONG)}")
    parser.add_argument("--check", action="store_true", help="exit with 1 where a target is missed")
    parser.add_argument("--readme", action="store_true", help=f"put the table into {README.name}")
    parser.add_argument("--only", nargs="+", choices=PARTS, metavar="PART", help=f"of {', '.join(PARTS)}")
    folder = Path(tempfile.gettempdir()) / "hushlist-bench"
    parser.add_argument("--out", type=Path, default=folder, metavar="FOLDER", help="default: %(default)s")
    options = parser.parse_args(argv)
    if options.readme and (options.only or options.quick):
        parser.error("--readme needs all parts, with their whole sizes")
    out = options.out.absolute()
    bench = Workbench(out / "work", QUICK if options.quick else FULL)
    bench.lists.mkdir(parents=True, exist_ok=True)

    facts = [
        ("command", shlex.join(["python", "tests/bench/peers.py", *(sys.argv[1:] if argv is None else argv)])),
        ("machine", f"{processor()}, {os.cpu_count()} processors, {platform.system()} {platform.release()}"),
        ("Python", platform.python_version()),
        ("URLs", data.urls_used()),
        *theirs.versions(),
    ]
    for name, value in facts:
        print(f"{name}: {value}")
    usual = [name for name in PARTS if options.full or name not in LONG]
    rows, skipped = run(options.only or usual, bench)
    table = [row.cells() for row in rows]
    print("\n" + plain_table([COLUMNS, *table]))
    missed = [row.measure for row in rows if row.is_met is False]
    print("\nmissed: " + ("; ".join(missed) or "nothing"))
    text = markdown(facts, table, skipped)
    (out / "results.md").write_text(text)
    if options.readme:
        write_readme(text)
    (out / "results.json").write_text(json.dumps(as_json(facts, rows, skipped), indent=1, ensure_ascii=False) + "\n")
    print(f"\nwritten: {out}/results.md, results.json")
    return 1 if options.check and missed else 0


def run(parts: Iterable[str], bench: Workbench) -> tuple[list[Row], dict[str, str]]:
    """The rows of all parts, and why parts were skipped; what is wrong with one does not end the others."""
    rows, skipped = [], {}
    for name in parts:
        start = time.monotonic()
        try:
            rows += PARTS[name](bench)
        except Skipped as reason:
            skipped[name] = str(reason)
        except Exception as error:
            skipped[name] = f"FAILED: {type(error).__name__}: {error}"
        print(f"{name}: {skipped.get(name, 'done')} ({time.monotonic() - start:.0f} s)", flush=True)
    return rows, skipped


def plain_table(table: Sequence[Cells]) -> str:
    """Columns for a terminal."""
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    lines = ("  ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)) for cells in table)
    return "\n".join(line.rstrip() for line in lines)


def markdown(facts: Iterable[tuple[str, str]], table: Iterable[Cells], skipped: dict[str, str]) -> str:
    """The table with what it was measured on."""
    lines = [f"- {name}: {f'`{value}`' if name == 'command' else value}" for name, value in facts]
    lines += ["", *("| " + " | ".join(cells) + " |" for cells in (COLUMNS, ("---",) * len(COLUMNS), *table))]
    lines += ["", *(f"- not measured: {name}: {reason}" for name, reason in skipped.items())] if skipped else []
    return "\n".join(lines) + "\n"


def write_readme(text: str) -> None:
    """Put the table into README.md in place of the one that is there."""
    before, begin, rest = README.read_text().partition(BEGIN)
    _, end, behind = rest.partition(END)
    if not (begin and end):
        raise ValueError(f"{README} does not have {BEGIN.strip()} and {END.strip()}")
    README.write_text(f"{before}{begin}\n{text}\n{end}{behind}")


def as_json(facts: Iterable[tuple[str, str]], rows: Iterable[Row], skipped: dict[str, str]) -> dict[str, object]:
    """Everything, the figures of every round too."""
    return {
        "facts": dict(facts),
        "skipped": skipped,
        "rows": [
            {**asdict(row), "our_median": row.our_median, "their_median": row.their_median, "ratio": row.ratio,
             "goal": row.goal, "is_met": row.is_met}
            for row in rows
        ],
    }  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
