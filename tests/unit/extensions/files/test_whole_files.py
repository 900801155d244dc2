"""The end of a download that waits, parts of files, and hashes."""

from __future__ import annotations

import gzip
from hashlib import md5, sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mitmproxy import http

from hushlist.core.compile.policy_compiler import compile_policy
from hushlist.core.decide.engine import Engine
from hushlist.core.policy.groups import NOBODY
from hushlist.extensions.files.file_hashes import FileHasher, algorithms_for, listed_match
from hushlist.extensions.files.whole_files import TAIL, HeldEnd, ask_for_whole, asks_part, part_of
from support.policies import write_policy
from unit.rows import each_row

_ADDRESS = b"md5.files.invalid/" + md5(b"a").hexdigest().encode()


@given(st.lists(st.integers(1, TAIL * 2), max_size=5), st.booleans())
def test_all_goes_on_but_the_end_of_what_does_not_pass(sizes: list[int], passes: bool) -> None:
    pieces = [bytes([number]) * size for number, size in enumerate(sizes)]
    taken = list[bytes]()
    held = HeldEnd(taken.append, lambda: passes)
    sent = b"".join(map(held, pieces))
    whole = b"".join(pieces)
    assert sent == whole[: max(0, len(whole) - TAIL)]
    assert sent + held(b"") == (whole if passes else sent)
    assert b"".join(taken) == whole


@each_row(
    ("status", "said", "expected"),
    [
        (200, [], None),
        (416, ["bytes */9"], None),
        (206, ["bytes 0-8/9"], (0, 9, 9)),
        (206, ["Bytes 2-3/*"], (2, 4, None)),
        (200, ["bytes 2-3/9"], (2, 4, 9)),
        (206, [], (1, 1, None)),
        (206, ["bytes 0-8/9", "bytes 2-3/9"], (1, 1, None)),
        (206, ["octets 0-8/9"], (1, 1, None)),
        (206, [f"bytes 0-{'9' * 30}/9"], (1, 1, None)),
    ],
)
def test_a_part_is_what_its_head_says(status: int, said: list[str], expected: object) -> None:
    answer = http.Response.make(status, b"", [(b"Content-Range", each.encode()) for each in said])
    assert part_of(answer) == expected


@each_row(
    ("fields", "is_beginning_enough", "asks"),
    [
        ([], True, False),
        ([("If-Range", '"1"')], True, False),
        ([("Range", "bytes=0-")], False, False),
        ([("Range", "bytes=0-4096")], True, False),
        ([("Range", "bytes=0-4095")], True, True),
        ([("Range", "bytes=0-4096")], False, True),
        ([("Range", "bytes=1-")], True, True),
        ([("Range", "bytes=0-,5-")], True, True),
        ([("Range", "bytes=-5")], True, True),
        ([("Range", "bytes=0-"), ("RANGE", "bytes=5-")], True, True),
        ([("Request-Range", "bytes=5-")], True, True),
    ],
)
def test_a_request_for_a_part_is_seen_and_undone(
    fields: list[tuple[str, str]], is_beginning_enough: bool, asks: bool
) -> None:
    request = http.Request.make("GET", "http://good.example/", b"", [(a.encode(), b.encode()) for a, b in fields])
    assert asks_part(request, is_beginning_enough=is_beginning_enough) is asks
    ask_for_whole(request)
    assert not any("range" in name.lower() for name in request.headers)


@each_row(
    ("octets", "codings", "expected", "why"),
    [
        (b"abc", "", [b"abc"], ""),
        (gzip.compress(b"abc"), "gzip", [gzip.compress(b"abc"), b"abc"], ""),
        (b"abcabcabc", "gzip", [b"abcabcabc", b""], ""),
        (gzip.compress(b"abc") + b"garbage", "gzip", [gzip.compress(b"abc") + b"garbage", b"abc"], ""),
        (b"abc", "gzip,br", [b"abc"], "its coding is gzip, br"),
    ],
)
def test_what_is_sent_has_a_hash_and_what_it_is_without_coding(
    octets: bytes, codings: str, expected: list[bytes], why: str
) -> None:
    hasher = FileHasher(codings, ["sha256"])
    for at in range(0, len(octets), 1000):
        hasher.take(octets[at : at + 1000])
    assert [digest for _, digest in hasher.digests()] == [sha256(each).hexdigest() for each in expected]
    assert hasher.why_unseen == why


@each_row(
    ("file", "text", "finds"),
    [
        ("list.yaml", f"rules: [{{expression: {_ADDRESS.decode()}}}]\n", True),
        ("list.yaml", f"rules: [{{sha256: {sha256(_ADDRESS).hexdigest()}}}]\n", True),
        ("list.sha256", f"{sha256(_ADDRESS).hexdigest()}\n", True),
        ("list.yaml", "rules: [{expression: a.example/}]\n", False),
    ],
)
def test_a_file_is_found_by_its_md5_though_the_list_is_hidden(
    tmp_path_factory: pytest.TempPathFactory, file: str, text: str, finds: bool
) -> None:
    policy = f"layers:\n- {{name: lists, lists: [{file}]}}\n"
    compiled = compile_policy(write_policy(tmp_path_factory.mktemp("hashes"), policy, {file: text}))
    engine = Engine(compiled.policy, compiled.index)
    hasher = FileHasher("", algorithms_for(engine, NOBODY))
    hasher.take(b"a")
    assert bool(listed_match(engine, NOBODY, hasher.digests())) is finds
    assert (len(list(hasher.digests())) > 1) is finds
