"""What Safe Browsing costs and hides: octets of updates, the time to decode them, and what prefixes alone give away.

    .venv/bin/python tests/bench/safe_browsing.py [--entries 1000000]

The list has real and made-up domains, as ``data.py`` has them. On its second day, one in two hundred is gone and as
many are new. Times are of processor, seeds are fixed. The client's list is compared with the server's each time.
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
import subprocess
import sys
import time
from base64 import urlsafe_b64encode
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory

import data
import timing
import zstandard

from hushlist.core.match.expressions import full_hash
from hushlist.extensions.safe_browsing.list_updates import update_of_v5, update_to_v4
from hushlist.extensions.safe_browsing.prefix_list import PrefixList
from hushlist.extensions.safe_browsing.rice_coding import V5_PARAMETERS, RiceCoded, rice_decode
from hushlist.extensions.safe_browsing.v4_messages import ThreatListDescriptor
from hushlist.extensions.safe_browsing.v5_messages import HashList
from hushlist.extensions.safe_browsing.wire_format import decode_message, encode_message
from hushlist.tools.publish.list_history import ListHistory
from hushlist.tools.publish.published_list import PublishedList
from hushlist.tools.publish.safebrowsing_service import ApiRequest, SafeBrowsingService


def published(names: list[str]) -> PublishedList:
    return PublishedList(b"".join(sorted({full_hash(f"{name}/".encode()) for name in names})))


def row(what: str, figure: object, beside: object = "") -> None:
    print(f"{what:<58} {figure!s:>16}  {beside}")


def processor(what: str, run) -> object:
    """A row of the processor time that a call takes; returns what the call does."""
    found = []
    row(what, f"{timing.once(lambda: found.append(run()), time.process_time):.2f} s")
    return found[0]


def octets_of_text(names: list[str]) -> str:
    """What the plain list takes, and packed."""
    text = "".join(f"{name}\n" for name in sorted(names)).encode()
    packed = zstandard.ZstdCompressor(19).compress(text)
    return f"plain {len(text):,}, gzip -9 {len(gzip.compress(text, 9)):,}, zstd -19 {len(packed):,}"


def updates(folder: Path, names: list[str], new: list[str]) -> PublishedList:
    """The rows of the first update and the next; returns what is published then."""
    history = ListHistory(folder / "mw-4b", 1)
    service = SafeBrowsingService({1: history}, 300.0)
    first, entries = published(names), f"{len(names):,} entries"
    history.add(processor(f"prefixes of {entries}", first.prefixes))
    octets = processor("server: the first update of v5, made once", lambda: fetch(service, b""))
    row("octets of a first update, v5", f"{len(octets):,}", octets_of_text(names))
    update = history.update_from(history.state_of(b"", 0), 0)[0]
    for is_rice, form in ((True, "v4, Rice"), (False, "v4, raw")):
        sent = encode_message(update_to_v4(update, ThreatListDescriptor(1, 6, 1), is_rice))
        row(f"octets of a first update, {form}", f"{len(sent):,}")
    sent = decode_message(HashList, octets).additions_four_bytes
    coded = RiceCoded(sent.first_value, sent.rice_parameter, sent.entries_count, sent.encoded_data)
    processor(f"decoding the Rice-coded numbers of {entries}", lambda: rice_decode(coded, 32, V5_PARAMETERS[32]))
    known = processor("client: the whole update, checksum too", lambda: applied(PrefixList(), octets))
    assert known.prefixes == first.prefixes()
    second = published(new)
    history.add(second.prefixes())
    octets = processor("server: a day's difference, made once", lambda: fetch(service, known.state))
    changed = sorted({*names} ^ {*new})
    row(
        "octets of a day's difference, v5", f"{len(octets):,}", f"the {len(changed):,} names: {octets_of_text(changed)}"
    )
    known = processor("client: a day's difference", lambda: applied(known, octets))
    assert known.prefixes == second.prefixes()
    taken = timing.seconds(lambda: [list(second.hashes_with(prefix)) for prefix in known.prefixes[:1000]])
    row("server: full hashes for 1,000 prefixes", f"{1000 * taken:.1f} ms")
    return second


def fetch(service: SafeBrowsingService, state: bytes) -> bytes:
    query = f"version={urlsafe_b64encode(state).decode()}"
    return service.answer(ApiRequest("GET", "/v5/hashList/mw-4b", query)).octets


def applied(known: PrefixList, octets: bytes) -> PrefixList:
    return known.updated(update_of_v5(decode_message(HashList, octets)))


def leak(folder: Path, own: PublishedList, on_list: list[str], others: list[str]) -> None:
    """The rows of ``hushlist leak``: the same dictionary at the full hashes and at their prefixes."""
    (folder / "names.txt").write_text("".join(f"{name}\n" for name in (*on_list, *others)))
    hashes = [own.packed[at : at + 32] for at in range(0, len(own.packed), 32)]
    (folder / "full.sha256").write_text("".join(f"{one.hex()}\n" for one in hashes))
    (folder / "prefixes.raw").write_bytes(b"".join(own.prefixes()))
    tried = f"{len(on_list) + len(others):,} names, of which {len(on_list):,} are on the list of {len(own):,}"
    for name, more in (("full.sha256", ()), ("prefixes.raw", ("--format", "safebrowsing-raw", "--prefix-length", "4"))):
        command = [sys.executable, "-m", "hushlist", "leak", name, *more, "--dictionary", "names.txt", "--json"]
        told = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False).stdout
        (kind,) = json.loads(told)["kinds"]
        chance = f"{kind['expected_by_chance']:.1f} by chance"
        row(f"hushlist leak, {kind['kind']}: recovered", f"{kind['recovered']:,}", f"{chance}; {tried}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--entries", type=int, default=1_000_000, metavar="N", help="of the list")
    entries = parser.parse_args().entries
    change = entries // 200
    many = list(islice(data.domains(2 * entries + change), 2 * entries + change))
    names, new = many[:entries], many[entries : entries + change]
    gone = set(random.Random(1).sample(names, change))
    later = [*(name for name in names if name not in gone), *new]
    with TemporaryDirectory() as folder:
        own = updates(Path(folder), names, later)
        on_list = random.Random(2).sample(later, entries // 10)
        leak(Path(folder), own, on_list, many[entries + change :][: entries - len(on_list)])


if __name__ == "__main__":
    main()
