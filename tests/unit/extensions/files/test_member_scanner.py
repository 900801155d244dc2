"""The names of an archive's members, as its octets flow."""

from __future__ import annotations

import bz2
import gzip
import io
import struct
import tarfile
import time
import zipfile
import zlib
from pathlib import Path
from random import Random

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from hushlist.cli import main
from hushlist.extensions.files.file_hashes import FileHasher
from hushlist.extensions.files.member_scanner import NO_MEMBERS, Members, MemberScanner
from support import seven_zip
from support.seven_zip import AES, COPY, GREEDY_LZMA, LZMA, LZMA2, archive, index, number
from unit.rows import each_row


class _Flow(io.RawIOBase):
    """Where nobody can seek, sizes stand behind each member."""

    def __init__(self) -> None:
        self.octets = bytearray()

    def writable(self) -> bool:
        return True

    def write(self, octets: object) -> int:
        self.octets += bytes(octets)  # type: ignore[call-overload]
        return len(bytes(octets))  # type: ignore[call-overload]


def zip_of(*names: str, flows: bool = False, is_long: bool = False, content: bytes = b"MZ" * 500) -> bytes:
    file = _Flow() if flows else io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as made:
        for name in names:
            with made.open(name, "w", force_zip64=is_long) as member:
                member.write(content)
    return bytes(file.octets) if isinstance(file, _Flow) else file.getvalue()


def stored(name: str, content: bytes) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as made:
        made.writestr(name, content)
    return file.getvalue()


def tar_of(*names: str, form: int = tarfile.PAX_FORMAT, content: bytes = b"MZ" * 500) -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w", format=form) as made:
        for name in names:
            member = tarfile.TarInfo(name)
            member.size = len(content)
            made.addfile(member, io.BytesIO(content))
    return file.getvalue()


def v7_tar_of(name: str) -> bytes:
    """As the first tar made it: without its magic."""
    head = bytearray(tar_of(name, form=tarfile.USTAR_FORMAT))
    head[257:512] = bytes(255)
    head[148:156] = b" " * 8
    head[148:156] = b"%06o\0 " % sum(head[:512])
    return bytes(head)


def seen(octets: bytes, step: int = 1000, endings: frozenset[str] | None = None) -> Members:
    scanner = MemberScanner(endings)
    for at in range(0, len(octets), step):
        scanner.take(octets[at : at + step])
    return scanner.end()


def _with_folders(folders: int) -> bytes:
    """The beginning of a 7z's index."""
    made = b"\1" + COPY
    return b"\1\4\7\x0b" + number(folders) + b"\0" + made * folders + b"\x0c" + b"\1" * folders + b"\0"


def rar_number(number: int) -> bytes:
    return bytes([number]) if number < 128 else bytes([number & 127 | 128]) + rar_number(number >> 7)


def rar_head(head: bytes) -> bytes:
    summed = rar_number(len(head)) + head
    return struct.pack("<I", zlib.crc32(summed)) + summed


def rar_file(name: str, size: int = 1000, extra: bytes = b"") -> bytes:
    flags = b"\3" + rar_number(len(extra)) if extra else b"\2"
    numbers = rar_number(size) + b"\6" + rar_number(size) + b"\x20" + bytes(8) + b"\0\1"
    return rar_head(b"\2" + flags + numbers + rar_number(len(name)) + name.encode() + extra) + b"d" * size


def rar_of(*blocks: bytes) -> bytes:
    return b"Rar!\x1a\x07\1\0" + rar_head(b"\1\0\0") + b"".join(blocks)


_RAR_END = rar_head(b"\5\0\0")
_NOISE = Random(49).randbytes(20_000)
_TAR_GZ = gzip.compress(tar_of("a.exe", content=_NOISE))
_LONG = f"{'long/' * 60}{'n' * 120}.exe"


def renamed(octets: bytes, old: bytes, new: bytes, *, at_end: bool) -> bytes:
    """A name is another in the index, or where its member begins."""
    return new.join(octets.rsplit(old, 1)) if at_end else octets.replace(old, new, 1)


def with_lying_size(octets: bytes) -> bytes:
    """The first member says that it takes all of the archive."""
    return octets[:18] + struct.pack("<I", len(octets)) + octets[22:]


def with_unicode_path(octets: bytes, name: bytes) -> bytes:
    path = b"\1\0\0\0\0" + name
    extra = struct.pack("<HH", 0x7075, len(path)) + path
    length = int.from_bytes(octets[26:28], "little")
    return octets[:28] + struct.pack("<H", len(extra)) + octets[30 : 30 + length] + extra + octets[30 + length :]


@each_row(
    ("octets", "names", "kinds"),
    lambda: [
        (zip_of("a.txt", "folder/b.EXE"), "a.txt b.EXE", ""),
        (zip_of("a.exe", flows=True), "a.exe", ""),
        (zip_of("a.txt", "b.exe", flows=True, content=bytes(1 << 20)), "a.txt b.exe", ""),
        (zip_of("a.txt", "b.exe", is_long=True), "a.txt b.exe", ""),
        (zip_of(), "", ""),
        (renamed(zip_of("a.txt"), b"a.txt", b"a.exe", at_end=True), "a.txt a.exe", ""),
        (renamed(zip_of("a.txt"), b"a.txt", b"a.exe", at_end=False), "a.exe a.txt", ""),
        (with_lying_size(zip_of("a.txt", "b.exe")), "a.txt b.exe", ""),
        (with_unicode_path(zip_of("a.txt"), b"b.exe"), "a.txt b.exe", ""),
        (renamed(zip_of("a.exe_txt"), b"a.exe_txt", b"a.exe\0txt", at_end=False), "a.exetxt a.exe a.exe_txt", ""),
        (stored("in.zip", zip_of("a.exe")), "in.zip a.exe", ""),
        (zip_of("word/a.xml", "word/vbaProject.bin", content=bytes(9000)), "a.xml vbaProject.bin", "macros"),
        (zip_of("xl/macrosheets/sheet1.xml"), "sheet1.xml", "macros"),
        (zip_of("a.txt")[:6] + b"\1" + zip_of("a.txt")[7:], "a.txt", "encrypted"),
        (zip_of("a.exe")[:40], "a.exe", ""),
        (zip_of("a.exe")[:33], "a.e", ""),
        (tar_of("a.txt", "folder/b.exe"), "a.txt b.exe", ""),
        (tar_of("a.exe", form=tarfile.USTAR_FORMAT), "a.exe", ""),
        (tar_of(_LONG, form=tarfile.PAX_FORMAT), f"{'n' * 120}.exe", ""),
        (tar_of(_LONG, form=tarfile.GNU_FORMAT), f"{'n' * 120}.exe", ""),
        (v7_tar_of("a.exe"), "a.exe", ""),
        (tar_of("a.tar", content=tar_of("b.exe")), "a.tar b.exe", ""),
        (gzip.compress(tar_of("a.exe")), "a.exe", ""),
        (zstandard.ZstdCompressor().compress(tar_of("a.exe")), "a.exe", ""),
        (gzip.compress(b"text"), "", ""),
        (gzip.compress(b"text" * 1000), "", ""),
        (gzip.compress(tar_of("a.txt", content=bytes(1 << 26))), "a.txt", "unknown"),
        (gzip.compress(tar_of("a.txt")) * 2, "a.txt", "unknown"),
        (bz2.compress(tar_of("a.exe")), "", "unknown"),
        (b"7z\xbc\xaf\x27\x1c" + bytes(600), "", "unknown"),
        *((octets, f"{' '.join(f'{number}.txt' for number in range(9))} a.exe", "") for octets in seven_zip.REAL),
        (archive(index("a.txt", "folder/b.exe")), "a.txt b.exe", ""),
        (archive(index("a.txt", "b.exe", solid=True), LZMA), "a.txt b.exe", ""),
        (archive(index("a.txt", "é.exe"), LZMA2, behind=bytes(1 << 20)), "a.txt é.exe", ""),
        (archive(index("b.exe"), LZMA, (COPY, None), LZMA2), "b.exe", ""),
        (archive(index("b.exe"), GREEDY_LZMA), "b.exe", ""),
        (archive(index("b.exe"), *[(COPY, None)] * 4), "", "unknown"),
        (archive(index("b.exe", coder=AES)), "b.exe", "encrypted"),
        (archive(index("b.exe"), (AES, None)), "", "encrypted unknown"),
        (archive(index("b.exe"), (b"\x03\3\4\1", None)), "", "unknown"),
        (archive(index("b.exe"), LZMA)[:-1], "", "unknown"),
        (archive(index("b.exe"), LZMA)[:-1] + b"x", "", "unknown"),
        (archive(index("b.exe"), LZMA)[:9] + b"x" + archive(index("b.exe"), LZMA)[10:], "", "unknown"),
        (archive(index("b.exe")[:-9]), "", "unknown"),
        (archive(index("b.exe", are_elsewhere=True)), "", "unknown"),
        (archive(index(*map(str, range(20_001))), LZMA), "", "unknown"),
        (archive(index("b" * (1 << 22)), LZMA), "", "unknown"),
        (archive(bytes(1 << 21)), "", "unknown"),
        (archive(b""), "", "unknown"),
        (b"Rar!\x1a\x07\0" + bytes(600), "", "unknown"),
        (rar_of(rar_file("a.txt"), rar_file("folder/b.exe"), _RAR_END), "a.txt b.exe", ""),
        (rar_of(rar_file("a.txt", 1 << 17), rar_file("b.exe"), _RAR_END + b"behind"), "a.txt b.exe", ""),
        (rar_of(rar_file("a.exe", extra=b"\2\1\0"), _RAR_END), "a.exe", "encrypted"),
        (rar_of(rar_file("a.exe", extra=b"\2\3\0"), _RAR_END), "a.exe", ""),
        (rar_of(rar_head(b"\4\0\0\0\x0f" + bytes(16)), bytes(500)), "", "encrypted unknown"),
        (rar_of(rar_head(b"\2\0\1\0\0\0\0\6is.exe"), _RAR_END), "", ""),
        (rar_of(rar_file("a.exe"))[:-1010], "", "unknown"),
        (rar_of(rar_file("a.txt"), b"\0" + rar_file("b.exe")), "a.txt", "unknown"),
        (rar_of(rar_head(b"\2\0\0\0\0\0\0\x7fa.exe")), "", "unknown"),
        (rar_of(b"\0\0\0\0" + b"\xff" * 20), "", "unknown"),
        (b"", "", ""),
        (b"text " * 1000, "", ""),
        (b"\x89PNG\r\n\x1a\n" + bytes(1000), "", ""),
        (b"PK\3\4" * 300_000 + bytes(50), "*", "unknown"),
    ],
)  # fmt: skip
def test_the_members_of_an_archive_are_seen(octets: bytes, names: str, kinds: str) -> None:
    for step in (len(octets) or 1, 700):
        members = seen(octets, step)
        assert names == "*" or [*members.names] == names.split()
        assert members.kinds == {*kinds.split()}
        assert bool(members.why_unseen) is ("unknown" in kinds)
        assert Members.of_text(members.text)[:2] == members[:2]


def test_one_name_is_kept_for_each_ending_that_somebody_wants() -> None:
    names = [f"{number}.exe" for number in range(5000)]
    assert seen(zip_of(*names, "b.tar.gz"), endings=frozenset({"exe", "tar.gz", "bat"})).names == ("0.exe", "b.tar.gz")
    assert seen(zip_of(*names)).why_unseen == "it has too many members"


_ARCHIVES = [
    zip_of("a.exe", "b.txt"),
    tar_of("a.exe", _LONG),
    _TAR_GZ,
    rar_of(rar_file("a.exe")),
    archive(index("a.exe"), LZMA),
    archive(index("a.exe", solid=True)),
]


@given(
    st.sampled_from([b"", b"PK\3\4", *_ARCHIVES]), st.binary(max_size=2000), st.integers(0, 2000), st.integers(1, 999)
)
def test_whatever_comes_is_read_and_alike_however_it_is_cut(archive: bytes, more: bytes, at: int, step: int) -> None:
    octets = archive[:at] + more + archive[at:]
    in_pieces, at_once = seen(octets, step), seen(octets, len(octets) or 1)
    # of what is packed and damaged, less may come out at once
    assert in_pieces == at_once or octets.startswith((b"\x1f\x8b", b"\x28\xb5"))


@given(st.integers(0, 120), st.integers(0, 9), st.binary(max_size=9))
def test_whatever_an_index_says_is_read_alike_however_it_is_cut(at: int, removed: int, more: bytes) -> None:
    made = index("a.txt", "b.exe", solid=True)
    octets = archive(made[:at] + more + made[at + removed :])
    assert seen(octets, 7) == seen(octets, len(octets))


@each_row(
    "octets",
    lambda: [
        (b"PK\3\4" + bytes(22) + b"\xff\xff\xff\xff") * 40_000,
        (b"PK\1\2" + bytes(24) + b"\xff\xff\0\0\0\0" + bytes(12)) * 20_000,
        b"PK" * 1_000_000,
        tar_of(*["a"] * 200, content=b"") * 10,
        archive(index(*["a"] * 20_000)),
        archive(b"\1\4\6\0" + number(20_000) + b"\x09" + b"\0" * 20_000 + b"\0" + bytes(1 << 18)),
        archive(b"\1\4\7\x0b" + number(20_000) + b"\0" + b"\x20" * (1 << 18)),
        archive(b"\1\4" + b"\x08\0" * (1 << 17)),
        archive(b"\1\5\0" + b"\x19\0" * (1 << 17)),
        archive(_with_folders(2000) + b"\x08" + b"\x09" * (1 << 18)),
        archive(_with_folders(2000) + b"\x08\x0d" + number(20_000) * 2000 + b"\x0a" + bytes(1 << 21), LZMA),
    ],
)
def test_the_time_is_bounded(octets: bytes) -> None:
    before = time.process_time()
    seen(octets, 1 << 14)
    assert time.process_time() - before < 20


def test_what_has_a_coding_is_seen_in_both_ways() -> None:
    for body in (gzip.compress(zip_of("a.exe", content=_NOISE)), zip_of("a.exe", content=_NOISE), _TAR_GZ):
        hasher = FileHasher("gzip", (), sees_members=True)
        hasher.take(body)
        assert hasher.has_news()
        assert not hasher.has_news()
        assert "a.exe" in hasher.members().names
    hasher = FileHasher("", (), sees_members=True)
    hasher.take(b"text" * 500)
    assert hasher.members() == NO_MEMBERS


@each_row(
    ("policy", "name", "code", "said"),
    [
        ("{endings: exe, members: true}", "far.zip", 1, "member b.exe by policy (p.yaml:2)"),
        ("{endings: exe}", "far.zip", 0, "pass"),
        ("{content: macros, members: true}", "macros.zip", 1, "macros by policy (p.yaml:2)"),
        ("{content: macros}", "macros.zip", 0, "pass"),
        ("{endings: exe, members: true}", "old.rar", 0, "or cannot be read (ranges)"),
        ("{content: unknown, members: true}", "old.rar", 1, "unknown by policy (p.yaml:2)"),
        ("{endings: exe, members: true}", "a.7z", 1, "member b.exe by policy (p.yaml:2)"),
        ("{endings: exe, members: true}", "text", 0, "pass   x.example/\n"),
        ("{members: true}", "text", 2, "expected endings or content beside it"),
        ("{endings: exe, members: true, listed: true}", "text", 2, "and neither listed nor infected"),
        ("{endings: exe, members: true, action: allow}", "text", 2, "expected block or tag"),
    ],
)
def test_check_looks_into_a_file(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    policy: str,
    name: str,
    code: int,
    said: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    for kind in ("STATE", "CACHE"):
        monkeypatch.setenv(f"XDG_{kind}_HOME", str(tmp_path / kind))
    files = {
        "far.zip": zip_of("a.txt", "b.exe", content=_NOISE),
        "macros.zip": zip_of("word/a.xml", "word/vbaProject.bin", content=_NOISE),
        "a.7z": archive(index("a.txt", "b.exe"), LZMA),
        "old.rar": b"Rar!\x1a\x07\0" + bytes(600),
        "text": b"text",
    }
    Path(name).write_bytes(files[name])
    Path("p.yaml").write_text(f"files:\n- {policy}\nlayers: []\n")
    assert main(["check", "--policy", "p.yaml", "--file", name, "x.example/"]) == code
    assert said in "".join(capsys.readouterr())
