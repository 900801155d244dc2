"""What files are by their first octets: ours against ``file --mime-type``, over a thousand files of this machine.

Of each media type that ``file`` tells, at most so many files count, so that pictures of icons do not outnumber all
others. Some archives and documents are made for it. Where both are right, in other words, ``BOTH`` says why.

    python tests/bench/kinds.py [FOLDER ...]
"""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
import subprocess
import sys
import tarfile
import zipfile
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import zstandard

from hushlist.extensions.files.content_kinds import LONGEST_LOOK, kinds_of

FOLDERS = ("/usr/share", "/usr/lib", "/usr/bin", "/usr/include", "/var/cache", "/var/lib", "/boot", "/etc")
MOST, OF_EACH, LOOKED_AT = 2000, 60, 60_000
_ARCHIVES = (
    *("gzip", "x-bzip2", "x-xz", "zstd", "x-tar", "zip", "x-7z-compressed", "x-rar", "vnd.ms-cab-compressed", "x-lzip"),
    *("x-iso9660-image", "x-archive", "x-cpio", "x-lz4", "x-lzma", "x-compress", "x-rpm"),
)
_PROGRAMS = (
    *("x-executable", "x-pie-executable", "x-sharedlib", "x-object", "x-dosexec", "vnd.microsoft.portable-executable"),
    *("java-archive", "x-java-applet", "x-mach-binary", "vnd.debian.binary-package", "wasm", "vnd.android.dex"),
)
#: media type without a kind of its own in its first word -> what it has to be
EXPECTED = {
    **{f"application/{name}": "archive" for name in _ARCHIVES},
    **{f"application/{name}": "program" for name in _PROGRAMS},
    **dict.fromkeys(("application/pdf", "text/rtf", "application/rtf", "application/CDFV2"), "document"),
    "application/vnd.ms-fontobject": "",
    "application/ogg": "audio",
    "image/svg+xml": "",
}
#: media type by ``file``, and what it is here -> why that is no fault
BOTH = {
    ("application/zip", "program"): "a JAR is a ZIP archive",
    ("application/javascript", "script"): "it begins with #!",
    ("text/plain", "script"): "it begins with #!",
    ("image/x-xpixmap", ""): "a picture as text",
    ("application/x-ole-storage", "document macros"): "what it stores may be a document",
}
#: media types that ``file`` tells of text by its words: nothing tells a script but its first line
SCRIPTS = ("text/x-shellscript", "text/x-script.python", "text/x-perl", "text/x-python", "text/x-ruby", "text/x-awk")


def files_of(folders: Iterable[str]) -> Iterator[Path]:
    """Files in turn of each folder, which are of many kinds early."""
    by_ending = defaultdict[str, list[Path]](list)
    for folder in folders:
        for at, _, names in os.walk(folder):
            for name in names:
                path = Path(at, name)
                if len(by_ending[path.suffix]) < OF_EACH and not path.is_symlink() and path.is_file():
                    by_ending[path.suffix].append(path)
    found = [path for paths in by_ending.values() for path in paths]
    yield from found[:LOOKED_AT]


def made_in(folder: Path) -> list[Path]:
    """Archives and documents, of which a system may have none."""
    text = b"some text " * 400
    files = {"a.gz": gzip.compress(text), "a.bz2": bz2.compress(text), "a.xz": lzma.compress(text)}
    files |= {"a.pdf": b"%PDF-1.7\n" + text, "a.rtf": b"{\\rtf1 " + text + b"}", "a.zst": zstandard.compress(text)}
    for name, octets in files.items():
        (folder / name).write_bytes(octets)
    for name, form in (("a.tar", "w"), ("a.tgz", "w:gz"), ("a.tbz", "w:bz2")):
        with tarfile.open(folder / name, form) as archive:  # type: ignore[call-overload]
            archive.add(folder / "a.pdf", "a.pdf")
    members = {
        "a.zip": ("a.txt",),
        "a.docx": ("[Content_Types].xml", "_rels/.rels", "word/document.xml"),
        "a.xlsx": ("[Content_Types].xml", "_rels/.rels", "xl/workbook.xml"),
        "a.pptx": ("[Content_Types].xml", "_rels/.rels", "ppt/presentation.xml"),
        "a.odt": ("mimetype", "content.xml"),
    }
    for name, inside in members.items():
        with zipfile.ZipFile(folder / name, "w") as packed:
            for member in inside:
                packed.writestr(member, "application/vnd.oasis.opendocument.text" if member == "mimetype" else "<a/>")
    return sorted(folder.iterdir())


def media_types_of(paths: list[Path]) -> list[str]:
    """What ``file`` tells of each."""
    listed = "\n".join(map(str, paths))
    told = subprocess.run(["file", "--mime-type", "-b", "-f", "-"], input=listed, capture_output=True, text=True)
    return told.stdout.splitlines()


def expected(media_type: str, beginning: bytes) -> str:
    """The kind that a media type means; empty for text."""
    if media_type in SCRIPTS:
        return "script" if beginning.startswith(b"#!") else ""
    if media_type in EXPECTED:
        return EXPECTED[media_type]
    top, _, rest = media_type.partition("/")
    if top in ("image", "audio", "video"):
        return top
    if "officedocument" in rest or "opendocument" in rest or rest in ("msword", "vnd.ms-excel", "vnd.ms-powerpoint"):
        return "document"
    return ""


def main() -> int:
    with TemporaryDirectory() as folder:
        return compare([*made_in(Path(folder)), *files_of(sys.argv[1:] or FOLDERS)])


def compare(paths: list[Path]) -> int:
    """Print how many are told alike, and each difference with an example; the exit code is 1 if there are many."""
    paths = [path for path in paths if os.access(path, os.R_OK) and path.stat().st_size]
    by_type, right, both, wrong = Counter[str](), Counter[str](), Counter[str](), Counter[tuple[str, str]]()
    example: dict[tuple[str, str], Path] = {}
    for path, media_type in zip(paths, media_types_of(paths), strict=True):
        by_type[media_type] += 1
        if by_type[media_type] > OF_EACH or right.total() + wrong.total() >= MOST:
            continue
        with path.open("rb") as file:
            beginning = file.read(LONGEST_LOOK)
        kinds, wanted = kinds_of(beginning), expected(media_type, beginning)
        key = media_type, " ".join(sorted(kinds))
        if (wanted in kinds) if wanted else not kinds:
            right[wanted or "text and others"] += 1
        elif key in BOTH:
            both[BOTH[key]] += 1
        else:
            wrong[key] += 1
            example.setdefault(key, path)
    every = right.total() + both.total() + wrong.total()
    share = (right.total() + both.total()) / every
    print(f"{every:,} files of {len(by_type):,} media types: {right.total():,} alike, {both.total():,} both right, "
          f"{wrong.total():,} otherwise ({share:.1%} right)")  # fmt: skip
    for word, number in (*right.most_common(), *both.most_common()):
        print(f"  {number:5,}  {word}")
    for (media_type, kind), number in wrong.most_common():
        print(f"  {number:5,}  {media_type} by file, here {kind or 'of no kind'}: {example[media_type, kind]}")
    return int(share < 0.99)


if __name__ == "__main__":
    sys.exit(main())
