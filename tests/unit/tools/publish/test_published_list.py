"""What of a list's rules a Safe Browsing client can be given."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest

from hushlist.core.errors import SourceError
from hushlist.core.lists.list_formats import list_format_of
from hushlist.core.lists.list_source import ListDefaults
from hushlist.core.match.expressions import full_hash
from hushlist.core.policy.policy_file import ListFile, list_files
from hushlist.tools.publish import published_list
from hushlist.tools.publish.published_list import PublishedList, publish

TODAY = date(2026, 11, 23)


def files_of(folder: Path, **texts: str) -> list[ListFile]:
    found = []
    for name, text in texts.items():
        path = folder / name.replace("_", ".")
        path.write_text(text)
        found += list_files(path, list_format_of(path), ListDefaults())
    return found


RULES = f"""
rules:
  - video.example/live/
  - {{expression: warned.example, action: warn}}
  - {{expression: tagged.example, action: tag}}
  - {{expression: games.example, action: allow}}
  - {{expression: a.games.example, action: allow}}
  - {{expression: over.example, expires: 2026-11-22}}
  - {{expression: today.example, expires: 2026-11-23}}
  - {{sha256: {full_hash(b"hidden.example/").hex()}}}
  - {{sha256: {full_hash(b"prefix.example/").hex()[:16]}}}
  - {{address: 10.0.0.0/8}}
  - {{address: 192.0.2.7}}
"""


def test_rules_that_block_become_full_hashes(tmp_path: Path) -> None:
    files = files_of(tmp_path, list_yaml=RULES, hosts_hosts="0.0.0.0 ads.example\n0.0.0.0 games.example\n")
    published = publish(files, TODAY)
    blocked = [
        "video.example/live/",
        "warned.example/",
        "today.example/",
        "hidden.example/",
        "192.0.2.7/",
        "ads.example/",
    ]
    hashes = sorted(full_hash(one.encode()) for one in blocked)
    assert published.packed == b"".join(hashes)
    assert len(published) == 6
    assert published.prefixes() == tuple(full[:4] for full in hashes)
    # tagged, two exceptions, a prefix, a range; what has expired is no rule
    assert published.left_out == 5
    assert ["no hash stands for a range" in str(problem) for problem in published.warnings] == [True]


def test_hashes_are_found_by_their_prefixes() -> None:
    hashes = [b"a" * 32, b"aaaab" + b"c" * 27, b"b" * 32]
    published = PublishedList(b"".join(hashes))
    assert published.prefixes() == (b"aaaa", b"bbbb")
    for prefix, expected in ((b"aaaa", hashes[:2]), (b"aaaaa", hashes[:1]), (b"bbbb", hashes[2:]), (b"zzzz", [])):
        assert list(published.hashes_with(prefix)) == expected
    assert list(PublishedList().hashes_with(b"aaaa")) == []


def test_a_list_has_a_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(published_list, "MOST_PREFIXES", 1)
    with pytest.raises(SourceError, match="2 hashes, of 1 at most"):
        publish(files_of(tmp_path, ads_hosts="0.0.0.0 a.example\n0.0.0.0 b.example\n"), TODAY)


def test_a_bad_list_is_an_error_with_its_line(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"list\.yaml:1: "):
        publish(files_of(tmp_path, list_yaml="rules: [{nothing: 1}]"), TODAY)
