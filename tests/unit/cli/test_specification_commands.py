"""``hushlist parse``, ``hrn`` and ``conformance``."""

import json
import shlex
import sys
from pathlib import Path

import pytest

from hushlist.tools.reference import specification_commands
from hushlist.tools.reference.specification_commands import vectors
from hushlist.tools.reference.url_comparison import PROFILES
from unit.cli.running import Run
from unit.rows import each_row


def test_parse_prints_each_rule_with_its_place_and_text(run: Run) -> None:
    assert run("parse", "http://u@h:8/é?q") == (
        0,
        """\
IRI-reference        0-16   http://u@h:8/é?q
  IRI                0-16   http://u@h:8/é?q
    scheme           0-4    http
    ihier-part       5-14   //u@h:8/é
      iauthority     7-12   u@h:8
        iuserinfo    7-8    u
        ihost        9-10   h
          ireg-name  9-10   h
        port         11-12  8
      ipath-abempty  12-14  /é
        isegment     13-14  é
    iquery           15-16  q
""",
        "",
    )


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("/x", "URI-reference"),
        ("/é", "IRI-reference"),
        ("HRN://a", "hrn-URI"),
        ("Hashed:md5=0", "hashed-uri"),
        ("hrnx:a", "URI-reference"),
    ],
)
def test_the_rule_goes_by_the_scheme(run: Run, text: str, rule: str) -> None:
    code, out, _ = run("parse", text)
    assert (code, out.split()[0]) == (0, rule)


def test_a_fault_is_named_with_what_was_expected(run: Run) -> None:
    reason = "'o' has no place here; expected DIGIT (port), or the end"
    assert run("parse", "--rule", "port", "8o") == (1, f"position 1: {reason}\n", "")
    code, out, _ = run("parse", "--rule", "PORT", "8o", "--json")
    assert code == 1
    assert json.loads(out) == {
        "text": "8o",
        "rule": "port",
        "valid": False,
        "position": 1,
        "reason": reason,
        "expected": [{"what": "DIGIT", "rule": "port"}],
        "may-end": True,
    }


def test_json_has_the_same_as_text(run: Run) -> None:
    code, out, _ = run("parse", "--rule", "hrn:host", "--json", "a.b")
    assert code == 0
    leaves = [
        {"rule": rule, "start": start, "end": start + 1, "text": text, "parts": []}
        for rule, start, text in (("domainlabel", 0, "a"), ("toplabel", 2, "b"))
    ]
    hostname = {"rule": "hostname", "start": 0, "end": 3, "text": "a.b", "parts": leaves}
    host = {"rule": "host", "start": 0, "end": 3, "text": "a.b", "parts": [hostname]}
    assert json.loads(out) == {"text": "a.b", "rule": "host", "valid": True, "parse": host, "faults": []}


@each_row(
    ("iri", "code", "place", "word"),
    [
        ("http://\u05d0a/", 0, 7, "in a right-to-left label"),
        ("http://1.\u05d0/", 0, 7, "First codepoint in label '1'"),
        ("http://\u05d01\u05b0.a.xn--4db/", 0, None, ""),  # RFC 5893 lets a label end in digits and marks
        ("http://h/\u05d0a", 0, 9, "both directions"),
        ("http://h/?\ue000", 0, None, ""),  # for private use, in a query alone
        ("http://x/\u05d0\u05d1", 0, None, ""),
        ("http://x.\u05d0/a/\u06281?b=\u0628", 0, 13, "begin and end"),
        ("http://x/a\u202eb", 1, 10, "change the direction"),
    ],
)
def test_the_rules_for_scripts_from_right_to_left(run: Run, iri: str, code: int, place: int | None, word: str) -> None:
    found, out, _ = run("parse", "--json", iri)
    faults = json.loads(out)["faults"]
    assert found == code
    assert [fault["position"] for fault in faults] == ([] if place is None else [place])
    assert all(word in fault["reason"] for fault in faults)
    assert run("parse", iri)[1].splitlines()[-1].startswith(f"position {place}: ") is (place is not None)


def test_an_unknown_rule_is_an_error_and_all_rules_can_be_listed(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = run("parse", "--rule", "nope", "x")
    assert (code, err) == (2, "hushlist: 'nope': no grammar has this rule; --list-rules prints those that there are\n")
    with pytest.raises(SystemExit, match="0"):
        run("parse", "--list-rules")
    out = capsys.readouterr().out
    assert [line.split(":")[0] for line in out.splitlines()] == ["uri", "iri", "hashed", "hrn"]
    assert "absolute-URI, ALPHA, authority" in out


def test_an_hrn_name_is_shown_with_what_it_implies(run: Run) -> None:
    assert run("hrn", "HRN://J@ABC.com/%41ds/video", "hrn:x") == (
        2,
        """\
given    HRN://J@ABC.com/%41ds/video
normal   hrn://J@abc.com/Ads/video
user     J
host     abc.com
names    Ads
names    video
implies  hrn://J@abc.com/Ads
implies  hrn://J@abc.com
""",
        "hushlist: 'hrn:x': an hrn: name must begin with 'hrn://' (at position 4)\n",
    )
    uuid = "f81d4fae-7dec-11d0-a765-00a0c91e6bf6"
    code, out, _ = run("hrn", "--json", f"hrn://-/{uuid.upper()}/x")
    assert code == 0
    assert json.loads(out) == {
        "given": f"hrn://-/{uuid.upper()}/x",
        "normal": f"hrn://-/{uuid}/x",
        "user": None,
        "host": None,
        "uuid": uuid,
        "names": ["x"],
        "implies": [f"hrn://-/{uuid}"],
    }


# -- conformance -------------------------------------------------------------------------------------------------------


#: a program that canonicalizes as we do
GOOD = """
import os, sys
from hushlist.tools.reference.url_comparison import PROFILES
from hushlist.core.errors import UrlError
profile = PROFILES[sys.argv[1]]
lines = sys.stdin.buffer.read().split(b"\\n")[:-1]
for url in [os.fsencode(sys.argv[2])] if sys.argv[2:] else lines:
    print(profile.canonicalize(url).decode())
"""


def program(tmp_path: Path, text: str, *arguments: str) -> str:
    file = tmp_path / "program.py"
    file.write_text(text)
    return shlex.join([sys.executable, str(file), *arguments])


@pytest.mark.slow
@pytest.mark.parametrize("profile", [name for name in PROFILES if name != "simple"])
def test_a_program_that_does_as_demanded(run: Run, tmp_path: Path, profile: str) -> None:
    asked = [one for one in vectors(profile) if not {10, 13} & set(one.url)]
    assert len(asked) >= 20
    code, out, _ = run("conformance", "--profile", profile, "--command", program(tmp_path, GOOD, profile))
    assert (code, out) == (0, f"{len(asked)} of {len(asked)} as demanded\n")


@pytest.mark.slow
def test_a_program_for_each_url_gets_line_ends_too(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = [one for one in vectors("safebrowsing") if {10, 13} & set(one.url)]
    assert asked
    monkeypatch.setattr(specification_commands, "vectors", lambda _: asked)
    command = program(tmp_path, GOOD, "safebrowsing", "{}")
    assert run("conformance", "--command", command) == (0, f"{len(asked)} of {len(asked)} as demanded\n", "")


@pytest.mark.slow
def test_each_difference_is_printed_with_its_source(run: Run, tmp_path: Path) -> None:
    text = GOOD.replace("print(", "print('/' if b'3279880203' in url else ")
    command = program(tmp_path, f"{text}sys.exit(3)\n", "safebrowsing")  # by its code it says that it refuses one
    code, out, _ = run("conformance", "--command", command)
    url, expected = "http://3279880203/blah", "http://195.127.0.11/blah"
    assert code == 1
    assert out.splitlines() == [
        "Safe Browsing v4, Canonicalization",
        f"  url      {url}",
        f"  expected {expected}",
        "  printed  /",
        "60 of 61 as demanded",
    ]
    code, out, _ = run("conformance", "--json", "--command", command)
    assert code == 1
    source = "Safe Browsing v4, Canonicalization"
    assert json.loads(out) == {"source": source, "url": url, "expected": expected, "printed": "/"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "it printed 0 lines for 61 URLs, one a line"),
        ("print('x\\n' * 62, end='')", "it printed 62 lines for 61 URLs, one a line"),
    ],
)
def test_a_program_that_prints_other_than_a_line_each_is_refused(
    run: Run, tmp_path: Path, text: str, reason: str
) -> None:
    command = program(tmp_path, text)
    assert run("conformance", "--command", command) == (2, "", f"hushlist: {command}: {reason}\n")


@pytest.mark.slow
def test_a_program_that_is_not_there_or_never_ends_is_named(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code, _, err = run("conformance", "--command", "./no-such-program")
    assert (code, "./no-such-program" in err) == (2, True)
    monkeypatch.setattr(specification_commands, "PATIENCE", 0.1)
    code, _, err = run("conformance", "--command", program(tmp_path, "import time; time.sleep(60)"))
    assert (code, "timed out" in err) == (2, True)
