"""The names that a file may get at a client."""

from __future__ import annotations

from time import process_time

from hypothesis import given
from hypothesis import strategies as st

from hushlist.extensions.files.file_names import UNREAD, endings_of, file_name, name_of_target, names_of_disposition
from unit.rows import each_row


@each_row(
    ("header", "names"),
    [
        ("attachment; filename=game.exe", ["game.exe"]),
        ('attachment; filename="game.exe"', ["game.exe"]),
        ("attachment;FileName = game.exe ; size=5", ["game.exe"]),
        ('attachment; filename="a\\"b.exe"', ['a"b.exe']),
        ('attachment; filename="not ended.exe', ["not ended.exe"]),
        ("attachment; filename*=UTF-8''a%20b%2eexe", ["a b.exe"]),
        ("attachment; filename*=iso-8859-1'en'%A3.exe", ["£.exe"]),
        ("attachment; filename*=nothing''a.exe", ["a.exe"]),
        ("attachment; filename*=a%2eexe", ["a.exe"]),
        ("attachment; filename=\"a.txt\"; filename*=UTF-8''a.exe", ["a.txt", "a.exe"]),
        ("attachment; filename*=UTF-8''a.txt; filename=a.exe", ["a.txt", "a.exe"]),
        ('attachment; filename*0="ga"; filename*1="me.exe"', ["game.exe"]),
        ("attachment; filename*0*=UTF-8''ga; filename*1*=me%2Eexe", ["game.exe"]),
        ('attachment; filename="a%2Eexe"', ["a%2Eexe", "a.exe"]),
        ('attachment; filename="=?UTF-8?B?YS5leGU=?="', ["=?UTF-8?B?YS5leGU=?=", "a.exe"]),
        ('attachment; filename="../../a.exe"', ["a.exe"]),
        ('attachment; filename="a.exe. "', ["a.exe"]),
        ('attachment; filename="a.ex\u200be"', ["a.exe"]),
        ('attachment; filename="\u3000a.exe.\u00a0"', ["a.exe"]),
        ('attachment; filename="gnp.\u202eexe"', ["gnp.exe"]),
        ("attachment; name=a.exe", ["a.exe"]),
        ("attachment; filename=a.exe x", ["a.exe x", "a.exe"]),
        ("attachment; filename=a.exe\r\n x", ["a.exe x", "a.exe"]),
        ('attachment; filename="a.exe x"', ["a.exe x"]),
        ("attachment; filename*=UTF-8''a%2Eexe x", ["a.exe x", "a.exe"]),
        ("attachment; filename='a.exe'", ["'a.exe'", "a.exe"]),
        ("attachment; filename*='a.exe'", ["a.exe"]),
        ("attachment; filename*=UTF-8'a.exe", ["a.exe"]),
        ('attachment; filename*000="a.e"; filename*001="xe"', ["a.exe"]),
        ('attachment; filename*0="a.exe"; filename*2=".txt"', ["a.exe", "a.exe.txt"]),
        ('attachment; filename*0="a.txt"; filename*00="a.exe"', [UNREAD, "a.txt"]),
        ("attachment; filename*=idna''a.exe", ["a.exe"]),
        ("attachment; filename*=\udce9''a.exe", ["a.exe"]),
        ("attachment; filename*=UTF-8''\udce9a.exe", ["\ufffda.exe"]),
        ('attachment; filename="=?é?q?a?="', ["=?é?q?a?=", UNREAD]),
        (f"attachment; x={'a' * 4096}; filename=a.exe", [UNREAD]),
        (f"attachment; filename={'a' * 4096}.exe", [UNREAD, "a" * 4075]),
        ('form-data; name="f"; filename="a.exe"', ["a.exe", "f"]),
        ("inline", []),
    ],
)
def test_every_spelling_is_read(header: str, names: list[str]) -> None:
    assert list(names_of_disposition([header])) == names


def test_more_headers_than_are_read_may_have_other_names() -> None:
    assert list(names_of_disposition(["filename=a"] * 8)) == ["a"] * 8
    assert list(names_of_disposition(["filename=a"] * 9)) == [*["a"] * 8, UNREAD]


@each_row(
    "header",
    ["form-data; name" + " " * 4050 + "x", "name" * 1000, "name*" + "0" * 4000, "name * " * 500, 'name="\\' * 600],
)
def test_names_are_read_in_linear_time(header: str) -> None:
    began = process_time()
    for _ in range(20):
        assert list(names_of_disposition([header])) is not None
    assert process_time() - began < 1


@each_row(
    ("target", "name"),
    [
        (b"/a/b.exe?x=/c.txt", "b.exe"),
        (b"/a/b%2eexe", "b.exe"),
        (b"/a%2Fb.exe", "b.exe"),
        (b"/a/", ""),
        (b"/a\\b.exe", "b.exe"),
        (b"/" + b"a" * 5000 + b".exe", "a" * 4092 + ".exe"),
    ],
)
def test_the_address_has_a_name(target: bytes, name: str) -> None:
    assert name_of_target(target) == name


@each_row(
    ("name", "endings"),
    [("a.EXE", ["exe"]), ("a.tar.gz", ["tar.gz", "gz"]), (".profile", []), ("a", []), ("a.", []), ("a.ẞ", ["ss"])],
)
def test_an_ending_is_after_a_dot(name: str, endings: list[str]) -> None:
    assert endings_of(file_name(name)) == endings


@given(st.lists(st.text(max_size=80), max_size=3))
def test_whatever_a_server_sends_has_names_without_folders(headers: list[str]) -> None:
    for name in names_of_disposition(
        [f"attachment; filename{text}" for text in (*headers, *(f"={text}" for text in headers))]
    ):
        assert name == UNREAD or not {"/", "\\"} & set(name)
