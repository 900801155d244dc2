"""Plain lists of hashed URIs."""

from functools import partial

import pytest

from hushlist.core.lists.hash_lists import read_hashed_uris
from support.readings import read_list

SHA1 = f"hashed:sha1={'0' * 40}"


read = partial(read_list, read_hashed_uris, source="lists/x.hashed")


def test_every_bad_line_is_reported_at_once() -> None:
    text = f"{SHA1}\nads.example\n{SHA1}0\nhashed:sha1={'0' * 39}g\n{SHA1}+fragment\nx\xff".encode("latin-1")
    rules, errors, _ = read(text)
    assert len(rules) == 1
    assert errors == [
        "lists/x.hashed:2: ads.example: a hashed URI begins with 'hashed:' (at character 1)",
        f"lists/x.hashed:3: {SHA1}0: sha1 has 40 hexadecimal digits, not 41 (at character 54)",
        f"lists/x.hashed:4: hashed:sha1={'0' * 39}g: expected '+frag', '+query' or the end (at character 52)",
        f"lists/x.hashed:5: {SHA1}+fragment: expected '+frag', '+query' or the end (at character 53)",
        "lists/x.hashed:6: b'\\xff': not UTF-8 (at octet 1)",
    ]


@pytest.mark.parametrize(
    ("line", "why", "count"),
    [
        ("hashed:sha256=00", "skipped: unknown algorithm 'sha256' (known: md5, sha1, x-sha256)", 0),
        (f"{SHA1}+frag", "a proxy never sees a fragment: '+frag' can match only where a source keeps them", 1),
    ],
)
def test_warnings_name_their_line(line: str, why: str, count: int) -> None:
    rules, errors, warnings = read(b"#\n" + line.encode())
    assert len(rules) == count
    assert errors == []
    assert warnings == [f"lists/x.hashed:2: {line}: {why}"]
