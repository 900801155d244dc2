"""``hushlist check`` and ``explain`` with facts of a file: which rule decides, and why no other."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path

import pytest

from hushlist.cli import main
from unit.rows import each_row

PROGRAM = b"MZ\x90\0" + bytes(80)
POLICY = """\
files:
- {content: program, for: upload}
- {content: program, reason: No programs}
- {types: video/*}
- {endings: exe, action: tag}
- {endings: txt, action: allow}
- {larger-than: 100, for: download}
- {listed: true}
layers:
- {name: malware, lists: [{file: bad.txt, format: file-hashes}]}
- {name: sites, lists: [sites.txt]}
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for kind in ("STATE", "CACHE"):
        monkeypatch.setenv(f"XDG_{kind}_HOME", str(tmp_path / kind))
    for name, octets in {"p.yaml": POLICY.encode(), "program": PROGRAM, "long": bytes(101), "listed": b"bad"}.items():
        Path(name).write_bytes(octets)
    Path("sites.txt").write_text("bad.example\n")
    Path("bad.txt").write_text(sha256(b"bad").hexdigest())
    return tmp_path


@each_row(
    ("options", "url", "code", "said"),
    [
        ("", "x.example/a.exe", 0, "pass   x.example/a.exe\n"),
        ("--file program", "x.example/", 1, "block  x.example/  program by policy (p.yaml:3): No programs\n"),
        ("--file program --for upload", "x.example/", 1, "block  x.example/  program by policy (p.yaml:2)\n"),
        ("--file long", "x.example/", 1, "block  x.example/  101 octets by policy (p.yaml:7)\n"),
        ("--file long --for upload", "x.example/", 0, "pass   x.example/\n"),
        ("--file long --name a.txt", "x.example/", 0, "pass   x.example/\n"),
        ("--file long", "x.example/a.exe", 0, "tag    x.example/a.exe  a.exe by policy (p.yaml:5)\n"),
        ("--file listed", "x.example/", 1, " by bad (bad.txt:1)"),
        ("--name a.exe", "x.example/", 0, "(p.yaml:3 depends on the file itself (--file))"),
        ("--file long --for upload --media-type Video/MP4;a=b", "x.example/", 1, "video/mp4 by policy (p.yaml:4)"),
        ("--file program", "bad.example/", 1, "bad.example/ by sites"),
        ("--file none", "x.example/", 2, "none: file: No such file or directory"),
        ("--file .", "x.example/", 2, ".: file: Is a directory"),
    ],
)
def test_check_judges_a_file(
    folder: Path, capsys: pytest.CaptureFixture[str], options: str, url: str, code: int, said: str
) -> None:
    assert main(["check", "--policy", "p.yaml", *options.split(), url]) == code
    assert said in "".join(capsys.readouterr())


def test_a_fact_has_a_form(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["check", "--policy", "p.yaml", "--for", "nowhere", "x.example"])
    assert "--for: 'nowhere' does not fit: download (the default) or upload" in capsys.readouterr().err


def test_explain_says_of_each_rule_why_it_does_not_decide(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--file", "program", "--name", "b.exe", "--media-type", "image/png"]
    main(["explain", "--policy", "p.yaml", *options, "x.example/a.png"])
    lines = capsys.readouterr().out.splitlines()
    begin = lines.index("File         download, image/png, b.exe, a.png, 84 octets, program")
    assert lines[begin + 1 : begin + 10] == [
        f"  sha256  {sha256(PROGRAM).hexdigest()}",
        "  p.yaml:2: block file: content program  is for upload alone",
        "  p.yaml:3: block file: content program  <- decides: program",
        "  p.yaml:4: block file: types video/*  does not fit: types (image/png)",
        "  p.yaml:5: tag file: ending exe  fits, but another may decide",
        "  p.yaml:6: allow file: ending txt  does not fit: endings (b.exe, a.png)",
        "  p.yaml:7: block file: larger than 100 octets  does not fit: larger-than (84 octets)",
        "  p.yaml:8: block file: listed  does not fit: listed (in no list that stops it)",
        "Decision     block",
    ]


def test_explain_looks_at_no_file_of_a_request_that_is_stopped(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["explain", "--policy", "p.yaml", "--file", "program", "bad.example"])
    assert "Not asked    the request itself is stopped" in capsys.readouterr().out
