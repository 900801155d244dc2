"""Rules for files: how they are read, and what fits."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from hushlist.core.match.rule import Action
from hushlist.core.url.request import request_of
from hushlist.extensions.files.file_names import UNREAD
from hushlist.extensions.files.file_rules import FileFacts, judge_file, rules_about, why_decrypt
from support.engines import engine_of, judgement_of
from support.policies import read_whole
from unit.rows import each_row

NOW = datetime(2026, 11, 28, 12, tzinfo=UTC)
PNG = FileFacts(media_types=("image/png",), names=("a.png",), octets=500)
PROGRAM = frozenset({"program"})


def verdict(folder: Path, rules: str, facts: FileFacts) -> str:
    policy, errors = read_whole(folder, f"files: {rules}\nlayers: []\n")
    assert errors == []
    told = judge_file(policy.all_groups[-1].settings.of("files"), facts, NOW)
    if told.match is None:
        return "look" if told.needs_content else "pass"
    return f"{told.match.rule.terms.action}: {told.match.text} by {told.match.rule.pattern}"


@each_row(
    ("rules", "facts", "expected"),
    [
        ("[{types: image/png}]", PNG, "block: image/png by file: types image/png"),
        ("[{types: [video/*, image/*]}]", PNG, "block: image/png by file: types image/*, types video/*"),
        ("[{types: video/*}]", PNG, "pass"),
        ("[{endings: [exe, PNG]}]", PNG, "block: a.png by file: ending exe, ending png"),
        ("[{endings: exe}]", PNG._replace(names=("a.png", "a.exe")), "block: a.exe by file: ending exe"),
        ("[{endings: [.tar.gz]}]", PNG._replace(names=("a.tar.gz",)), "block: a.tar.gz by file: ending tar.gz"),
        ("[{larger-than: 400}]", PNG, "block: 500 octets by file: larger than 400 octets"),
        ("[{larger-than: 500}]", PNG, "pass"),
        ("[{larger-than: 1k}]", PNG._replace(octets=None), "pass"),
        (
            "[{larger-than: 1k}]",
            PNG._replace(octets=None, is_upload=True),
            "block: of untold length by file: larger than 1,024 octets",
        ),
        ("[{for: upload, types: image/png}]", PNG, "pass"),
        ("[{for: download, types: image/png}]", PNG._replace(is_upload=True), "pass"),
        ("[{content: program}]", PNG, "look"),
        ("[{content: program, endings: exe}]", PNG, "pass"),
        ("[{content: program}]", PNG._replace(kinds=PROGRAM), "block: program by file: content program"),
        ("[{content: program}]", PNG._replace(kinds=frozenset()), "pass"),
        ("[{content: program}]", PNG._replace(is_upload=True), "look"),
        ("[{disguised: true}]", PNG._replace(kinds=PROGRAM), "block: program by file: disguised"),
        ("[{disguised: true}]", PNG._replace(kinds=frozenset({"image"})), "pass"),
        ("[{disguised: true}]", PNG._replace(kinds=frozenset({"part"})), "pass"),
        ("[{disguised: true}]", FileFacts(names=("a.exe",), kinds=PROGRAM), "pass"),
        (
            "[{disguised: true}]",
            FileFacts(media_types=("text/plain",), kinds=PROGRAM),
            "block: program by file: disguised",
        ),
        (
            "[{disguised: true}]",
            PNG._replace(names=(UNREAD,), kinds=frozenset({"image"})),
            "block: image by file: disguised",
        ),
        ("[{endings: exe}]", PNG._replace(names=(UNREAD,)), "block: a name that is not read by file: ending exe"),
        ("[{endings: png, action: allow}]", PNG._replace(names=("a.png", UNREAD)), "pass"),
        ("[{types: image/*}]", PNG._replace(media_types=("a/b", "image/a")), "block: image/a by file: types image/*"),
        ("[{types: image/*, action: allow}]", PNG._replace(media_types=("a/b", "image/a")), "pass"),
        ("[{types: image/png, action: allow}, {endings: png}]", PNG, "allow: image/png by file: types image/png"),
        ("[{content: program}, {endings: png}]", PNG._replace(kinds=frozenset()), "block: a.png by file: ending png"),
    ],
)
def test_the_first_rule_that_fits_decides(tmp_path: Path, rules: str, facts: FileFacts, expected: str) -> None:
    assert verdict(tmp_path, rules, facts) == expected


def test_a_rule_holds_during_its_schedule(tmp_path: Path) -> None:
    text = "schedules: {noon: {times: 11:00-13:00}}\nfiles: [{endings: png, during: noon}]\nlayers: []\n"
    policy, errors = read_whole(tmp_path, text)
    assert errors == []
    (rule,) = policy.all_groups[-1].settings.of("files")
    assert [judge_file([rule], PNG, NOW.replace(hour=hour)).match is not None for hour in (10, 12, 13)] == [0, 1, 0]


@each_row(
    ("rules", "error"),
    [
        ("[{action: block}]", "a rule needs one of types, endings, content, larger-than, disguised"),
        ("[{content: virus}]", "content: virus: expected one of program, script, archive"),
        ("[{larger-than: big}]", "larger-than: big: expected a size such as 100m"),
        ("[{types: video}]", "types: video: expected a media type such as image/png or video/*"),
        ("[{types: vidoe/*}]", "types: vidoe/*: expected a media type such as image/png or video/*"),
        ("[{endings: 'exe, bat'}]", "endings: exe, bat: expected an ending such as exe or tar.gz"),
        ("[{disguised: false}]", "expected true; without the key, it makes no difference"),
        ("[{types: []}]", "or a list of them"),
        ("[{types: [[a]]}]", "or a list of them"),
        ("[{endings: exe, action: pass}]", "expected one of block, warn, allow, tag"),
        ("[{listed: true, action: warn}]", ": action: that is known at the end, when most of a file has passed"),
        ("[{endings: exe, during: noon}]", "noon"),
        ("[exe]", "expected a mapping with types, endings"),
    ],
)
def test_a_mistake_has_its_line_and_reason(tmp_path: Path, rules: str, error: str) -> None:
    _, errors = read_whole(tmp_path, f"files: {rules}\nlayers: []\n")
    assert error in errors[0]
    assert errors[0].startswith("1: ")


@each_row(
    ("rules", "url", "fits"),
    [
        ("[{sites: drive.example/up, for: upload}]", b"https://www.drive.example/up/1", True),
        ("[{sites: drive.example/up, for: upload}]", b"https://drive.example/upper", False),
        *(
            ("[{sites: drive.example/up, for: upload}]", b"https://drive.example/" + target, True)
            for target in (b"up;a=1", b";a/up", b"\\up", b"x%5c..%5cup", b"up%00", b"%2575p", b"/up")
        ),
        ("[{sites: drive.example/up, for: upload}]", b"https://drive.example/x%5c..%5cupper", False),
        # every server has to take it for that
        *(
            (f"[{{sites: drive.example/up, action: {action}}}]", b"https://drive.example/" + target, fits)
            for action in ("allow", "tag")
            for target, fits in ((b"up/a%20b", True), (b"up;a", False), (b"up/..;/x", False), (b"x/..\\up", False))
        ),
        ("[{sites-category: 'hrn://tests/files', for: upload}]", b"https://box.example/a", True),
        ("[{sites-category: 'hrn://tests', for: upload}]", b"https://box.example/a", True),
        ("[{sites-category: 'hrn://tests/films', for: upload}]", b"https://box.example/a", False),
        ("[{sites-category: 'hrn://tests/files', sites: other.example}]", b"https://box.example/a", False),
    ],
)
def test_rules_are_about_addresses(tmp_path: Path, rules: str, url: bytes, fits: bool) -> None:
    listed = "rules: [{expression: box.example/, action: tag, category: 'hrn://tests/files'}]"
    policy, errors = read_whole(tmp_path, f"files: {rules}\nlayers: []\n")
    assert errors == []
    judgement = judgement_of(engine_of(listed).decide_url(url))._replace(request=request_of(url))
    about = rules_about(policy.all_groups[-1].settings.of("files"), judgement)
    assert bool(about) is fits
    upload = FileFacts(is_upload=True, octets=9)
    assert bool(judge_file(about, upload, NOW).match) is fits


@each_row(
    ("rules", "fits"),
    [
        ("[{sites: 192.0.2.7, for: upload}]", True),
        ("[{sites: 192.0.2.8, for: upload}]", False),
        ("[{sites: box.example, for: upload, action: allow}]", True),
        ("[{sites: other.example, for: upload, action: allow}]", False),
    ],
)
def test_a_destination_says_nothing_for_what_passes_where_its_client_names_a_host(
    tmp_path: Path, rules: str, fits: bool
) -> None:
    policy, errors = read_whole(tmp_path, f"files: {rules}\nlayers: []\n")
    assert errors == []
    request = request_of(b"https://box.example/a")._replace(
        hosts=(b"192.0.2.7", b"box.example"), destination=b"192.0.2.7"
    )
    judgement = judgement_of(engine_of("rules: []").decide_url(b"https://box.example/a"))._replace(request=request)
    assert bool(rules_about(policy.all_groups[-1].settings.of("files"), judgement)) is fits


@each_row(
    ("rule", "words"),
    [
        ("types: [video/*, image/png]", "types image/png, types video/*"),
        ("endings: exe, larger-than: 1k", "ending exe, larger than 1,024 octets"),
        ("content: program, members: true", "content program, with members"),
        ("disguised: true", "disguised"),
        ("listed: true", "listed"),
        ("infected: true", "infected"),
        ("sites: [a.example, b.example/x], for: upload", "on a.example/, on b.example/x"),
        ("sites-category: 'hrn://tests/films', for: upload", "on hrn://tests/films"),
    ],
)
def test_a_rule_is_named_by_its_conditions(tmp_path: Path, rule: str, words: str) -> None:
    text = f"scanner: {{address: 'clamd://127.0.0.1:1'}}\nfiles: [{{{rule}}}]\nlayers: []\n"
    policy, errors = read_whole(tmp_path, text)
    assert errors == []
    assert [own.words for own in policy.all_groups[-1].settings.of("files")] == [f"file: {words}"]


def test_hosts_of_rules_are_decrypted(tmp_path: Path) -> None:
    policy, _ = read_whole(tmp_path, "files: [{sites: drive.example/up, for: upload}]\nlayers: []\n")
    settings = policy.all_groups[-1].settings
    said = [why_decrypt(host, settings) for host in (b"www.drive.example", b"other.example")]
    assert said == ["there are rules for files of", None]


def test_a_rule_says_what_people_read(tmp_path: Path) -> None:
    policy, _ = read_whole(tmp_path, "files:\n- {endings: exe, reason: No games}\nlayers: []\n")
    match = judge_file(policy.all_groups[-1].settings.of("files"), FileFacts(names=("a.exe",)), NOW).match
    assert match is not None
    assert (match.rule.line, match.rule.terms.reason, match.rule.terms.action) == (2, "No games", Action.BLOCK)
