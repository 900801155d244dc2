"""Lists whose hashes are sealed: which key they need, and what is said if another one is given, or none."""

from pathlib import Path

import pytest

from hushlist.core.compile import list_chunks
from hushlist.core.compile.list_chunks import chunk_list, read_lists
from hushlist.core.compile.worker_processes import Workers
from hushlist.core.errors import SourceError
from hushlist.core.lists.list_formats import FORMATS
from hushlist.core.lists.list_source import ListDefaults, ProblemReport, read_seal_key
from hushlist.core.match.rule import ExpressionHash
from hushlist.core.match.seal import SealKey
from hushlist.core.policy.policy_file import ListFile
from unit.rows import each_row

KEY, OTHER = SealKey(bytes(range(32))), SealKey(bytes(32))
OWN, ITS = KEY.fingerprint, OTHER.fingerprint
YAML, PLAIN = f"seal: {OWN}\nrules: [{{sealed: '01020304'}}]", f"# x\n\nseal: {OWN}  # y\n01020304\n"
NONE = f"seal: the list is sealed with the key {OWN}, and no key is given (in a policy: 'seal: FILE')"
CLEAR, HASHES = "rules: [h.example]", "01020304\n"


def read(form: str, text: str, seal: str | None) -> tuple[list[str], list[str]]:
    report = ProblemReport("f")
    rules = FORMATS[form].read(text.encode(), ListDefaults(seal=seal), report)
    return [str(rule.pattern) for rule in rules], list(map(str, report.errors))


@pytest.mark.parametrize(("form", "text"), [("yaml", YAML), ("sha256", PLAIN)])
def test_a_sealed_list_is_read_with_its_key_or_where_none_is_asked_for(form: str, text: str) -> None:
    assert read(form, text, OWN) == read(form, text, None) == (["sealed:01020304"], [])


@each_row(
    ("form", "text", "seal", "errors"),
    [
        ("yaml", YAML, "", [f"f:1: {NONE}"]),
        ("yaml", YAML, ITS, [f"f:1: seal: the list is sealed with the key {OWN}, and the key {ITS} is given"]),
        ("yaml", CLEAR, ITS, ["f:1: seal: a key is given for the list, and it is not sealed"]),
        ("yaml", f"seal: x\n{CLEAR}", None, ["f:1: seal: expected the fingerprint of a key, 16 hexadecimal digits"]),
        (
            "yaml",
            "rules:\n- sealed: '01020304'",
            None,
            ["f:2: 01020304: the list does not say which key it is sealed with, in its head as 'seal: FINGERPRINT'"],
        ),
        (
            "yaml",
            f"seal: {OWN}\nrules:\n- {{sealed: '01020304', action: allow}}",
            OWN,
            ["f:3: 01020304: only a full hash of 64 hexadecimal digits can allow, not a prefix of one"],
        ),
        ("sha256", PLAIN, "", [f"f:3: {NONE}"]),
        ("sha256", PLAIN, ITS, [f"f:3: seal: the list is sealed with the key {OWN}, and the key {ITS} is given"]),
        ("sha256", HASHES, ITS, ["f:1: seal: a key is given for the list, and it is not sealed"]),
        ("sha256", f"{HASHES}{PLAIN}", "", [f"f:4: {NONE}"]),
        (
            "sha256",
            f"{PLAIN}seal: {ITS}\n",
            OWN,
            [f"f:5: seal: the list is sealed with the key {ITS}, and the key {OWN} is given"],
        ),
        ("sha256", f"seal:\n{HASHES}", None, ["f:1: seal: expected the fingerprint of a key, 16 hexadecimal digits"]),
    ],
)
def test_another_key_and_a_missing_one_are_errors_with_their_line(
    form: str, text: str, seal: str | None, errors: list[str]
) -> None:
    assert read(form, text, seal)[1] == errors


@pytest.mark.parametrize(("seal", "mark"), [(None, b""), (OWN, b""), (None, b"\xef\xbb\xbf")])
def test_every_chunk_of_a_long_list_is_sealed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seal: str | None, mark: bytes
) -> None:
    monkeypatch.setattr(list_chunks, "PIECE", 64)
    (tmp_path / "l.sha256").write_bytes(mark + PLAIN.encode() + b"0a0b0c0d\n" * 40)
    chunked = chunk_list(ListFile(tmp_path / "l.sha256", FORMATS["sha256"], ListDefaults(seal=seal)))
    assert len(chunked.chunks) > 5
    with Workers(1) as workers:
        rules = [rule for _, own in read_lists([chunked], workers, lambda chunk: list(chunk.rules)) for rule in own]
    assert {rule.pattern.seal for rule in rules if isinstance(rule.pattern, ExpressionHash)} == {OWN}
    assert (len(rules), chunked.report.errors) == (41, [])


@pytest.mark.parametrize(
    ("mode", "is_good"), [(0o600, True), (0o440, True), (0o604, False), (0o620, False), (0o644, False)]
)
@pytest.mark.posix
def test_a_key_that_others_can_use_is_refused(tmp_path: Path, mode: int, is_good: bool) -> None:
    path = tmp_path / "key"
    path.write_text(KEY.text)
    path.chmod(mode)
    if mode in (0o600, 0o440):
        assert read_seal_key(path) == KEY
        return
    with pytest.raises(SourceError, match="it is secret, and others can use it: take that away"):
        read_seal_key(path)
