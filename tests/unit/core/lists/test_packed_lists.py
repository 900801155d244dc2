"""Lists that are packed."""

import bz2
import gzip
import io
import lzma
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard

from hushlist.core.compile.policy_compiler import compile_policy
from hushlist.core.lists.list_formats import list_format_of
from hushlist.core.lists.packed_lists import open_list
from hushlist.core.policy.policy_file import PolicyError
from unit.rows import each_row


def zipped(octets: bytes, *names: str) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in names or ("lists/", "lists/ads.txt"):
            archive.writestr(name, b"" if name.endswith("/") else octets)
    return made.getvalue()


PACKINGS: dict[str, Callable[[bytes], bytes]] = {
    ".gz": gzip.compress,
    ".zst": zstandard.ZstdCompressor().compress,
    ".xz": lzma.compress,
    ".bz2": bz2.compress,
    ".zip": zipped,
}


def compile_file(folder: Path, name: str, octets: bytes, more: str = "") -> tuple[int, list[str]]:
    """The number of rules, and what is wrong."""
    (folder / name).write_bytes(octets)
    (folder / "policy.yaml").write_text(f"layers: [{{name: l, lists: [{{file: {name}{more}}}]}}]")
    try:
        compiled = compile_policy(folder / "policy.yaml")
    except PolicyError as error:
        return 0, [problem.why for problem in error.problems]
    compiled.let_go()
    return len(compiled.index), [str(problem) for problem in compiled.report.warnings]


@pytest.mark.slow
@each_row("ending", PACKINGS)
def test_a_packed_list_is_read_as_what_is_in_it(tmp_path: Path, ending: str) -> None:
    text = "".join(f"0.0.0.0 n{number}.example\n" for number in range(300)) + "0.0.0.0\n"
    packed = PACKINGS[ending](text.encode())
    for name in (f"ads.hosts{ending}", f"ads{ending}", "ads.txt"):  # its name, or its content tells the format
        rules, warnings = compile_file(tmp_path, name, packed)
        assert rules == 300
        assert [own.partition(f"{name}:")[2] for own in warnings] == [
            "301: 0.0.0.0: left out: expected an address and a name"
        ]


def test_the_name_behind_the_packing_tells_the_format() -> None:
    names = ("a.hosts.gz", "b.yaml.zst", "domains.xz", "c.txt.gz", "d.zip")
    assert [list_format_of(Path(name)) for name in names] == ["hosts", "yaml", "domains", None, None]


@pytest.mark.slow
@each_row("ending", PACKINGS)
@pytest.mark.thorough
def test_what_is_much_longer_than_its_packing_is_an_error(tmp_path: Path, ending: str) -> None:
    bomb = PACKINGS[ending](b"\n" * (40 << 20))
    [why] = compile_file(tmp_path, f"ads.hosts{ending}", bomb)[1]
    assert why.startswith("it is packed, and longer than ")


@each_row(
    ("octets", "why"),
    [
        (gzip.compress(b"0.0.0.0 a.example\n")[:-4], "its compression is broken"),
        (gzip.compress(b"0.0.0.0 a.example\n" * 99)[:-30], "its compression is broken"),
        (zipped(b"0.0.0.0 a.example\n", "a", "b"), "a list is the one file of an archive, and this has 2"),
        (zipped(b"", "a/"), "a list is the one file of an archive, and this has 0"),
        (b"PK\x03\x04 no archive", "its archive cannot be unpacked: File is not a zip file"),
        (gzip.compress(gzip.compress(b"0.0.0.0 a.example\n")), "the file is compressed; unpack it first"),
    ],
)
def test_what_cannot_be_unpacked_is_an_error(tmp_path: Path, octets: bytes, why: str) -> None:
    [found] = compile_file(tmp_path, "ads.hosts", octets)[1]
    assert found.startswith(why)


def test_prefixes_of_hashes_may_begin_as_what_is_packed(tmp_path: Path) -> None:
    prefixes, more = b"\x1f\x8b\x08\0" + b"\x28\xb5\x2f\xfd", ", format: safebrowsing-raw, prefix-length: 4"
    assert compile_file(tmp_path, "raw", prefixes, more) == (2, [])


def test_a_list_that_is_not_packed_is_the_file_itself(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"a.example\n")
    with open_list(tmp_path / "a") as file:
        assert isinstance(file, io.BufferedReader)
        assert file.read() == b"a.example\n"
