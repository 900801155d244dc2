"""How a look-up, an index and compiling grow up to 100,000,000 rules, and which bound comes next.

    python tests/bench/sizes.py [--rules N ...]

Keys are spread evenly over their first bits. So of a table of any size a slice is made, with as many keys to a bucket
of its fan-out and to an octet of its filter as the whole has, and look-ups in it take as long. What an index has in all
is told by the shapes of its sections. Time to merge is measured for the rows of a slice; each rule takes it once.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections.abc import Sequence
from io import BytesIO
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "addon"))

from hushlist.core.compile.list_chunks import PIECE
from hushlist.core.match.index import Index
from hushlist.core.match.index_file import EXPRESSIONS, encode_terms
from hushlist.core.match.index_table import MARKS, MOST_BITS, PLACE, Shape, bits_for, filter_length, first_bits
from hushlist.core.match.index_writer import Merged, assemble, merge_runs, merge_tasks
from hushlist.core.match.rule import Action, Terms
from hushlist.core.match.rule_collector import MOST_PARTS, CollectedPart
from hushlist.core.match.sorted_runs import sorted_run
from hushlist.core.system.files import LONGEST_LIST

SIZES = (1_000_000, 10_000_000, 100_000_000)
#: keys of a slice, about
SLICE = 1 << 18
#: octets of a line of a list of domains, and look-ups of a round
LINE, LOOKS, ROUNDS = 20, 50_000, 7


def main(argv: Sequence[str] | None = None) -> int:
    """Print a row for each size, and the bounds."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rules", type=int, nargs="+", default=SIZES, metavar="N", help="default: %(default)s")
    print("        rules  index, MB  hot, MB  keys a bucket  absent, µs  present, µs  merged, µs a rule")
    for rules in parser.parse_args(argv).rules:
        shape = Shape(rules, 32, bits_for(rules))
        hot = sum(shape.lengths[:2]) + filter_length(rules)
        absent, present, merged = _measured(rules)
        row = (
            f"{rules:13,}  {(hot + shape.lengths[2]) / 1e6:9,.0f}  {hot / 1e6:7,.0f}  {rules / (1 << shape.bits):13.1f}"
        )
        print(f"{row}  {absent:10.2f}  {present:11.2f}  {merged:16.2f}")
    print("the bounds, in their order:")
    for number, what in sorted(_bounds()):
        print(f"{number:17,} rules: {what}")
    return 0


def _bounds() -> list[tuple[int, str]]:
    most_filter = max(filter_length(1 << bits) for bits in range(40))
    return [
        (LONGEST_LIST // LINE, f"{LONGEST_LIST:,} octets, the most of one list; a policy may have several"),
        (4 << MOST_BITS, f"the fan-out has {MOST_BITS} bits at most: from here on, buckets grow with the rules"),
        (most_filter, f"the filter has {most_filter:,} octets at most: from here on, it spares fewer look-ups"),
        (MOST_PARTS * PIECE // LINE, f"{MOST_PARTS:,} pieces of {PIECE:,} octets: more is an error"),
        (1 << 32, "the fan-out counts with 32 bits"),
    ]


def _measured(rules: int) -> tuple[float, float, float]:
    """Microseconds to look up an absent and a present key, and to merge a row."""
    shift = max(0, (rules // SLICE).bit_length() - 1)
    numbers, count = random.Random(rules), rules >> shift
    keys = [numbers.randbytes(32) for _ in range(count)]
    terms = Terms(Action.BLOCK, "list", "list")
    rows = [key + PLACE.pack(0, line & 0xFFFFFFFF, 0) for line, key in enumerate(keys)]
    part = CollectedPart(
        0,
        "",
        {EXPRESSIONS: sorted_run(rows, None)},
        [encode_terms(terms, is_clear=True)],
        count,
        5,
        4,
        has_hashes=False,
    )
    start = time.process_time()
    tasks = merge_tasks([part])[EXPRESSIONS]
    # as many bits of the fan-out and octets of the filter as the slice has of the whole
    bits, marks = max(0, bits_for(rules) - shift), max(1 << 12, filter_length(rules) >> shift)
    tasks = [task._replace(shape=Shape(count, 32, bits), marks=marks) for task in tasks]
    pieces = [merge_runs(task) for task in tasks]
    merged = (time.process_time() - start) / count
    file = BytesIO()
    assemble(file, [part], {EXPRESSIONS: Merged(tasks[0].shape, pieces)})
    index = Index(file.getvalue())
    absent = [numbers.randbytes(32) for _ in range(LOOKS)]
    present = numbers.choices(keys, k=LOOKS)
    return *(median(_look_up(index, some) for _ in range(ROUNDS)) * 1e6 for some in (absent, present)), merged * 1e6


def _look_up(index: Index, keys: Sequence[bytes]) -> float:
    unmarked, shift, find = index._filter, index._filter_shift, index._clear.find
    start = time.process_time()
    for key in keys:
        first = first_bits(key)[0]
        if not unmarked[first >> shift] & MARKS[first & 255]:
            find(key)
    return (time.process_time() - start) / len(keys)


if __name__ == "__main__":
    sys.exit(main())
