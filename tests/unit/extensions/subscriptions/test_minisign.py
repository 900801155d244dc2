"""Minisign's format: what we sign, what we read, and Debian's own program on the other side."""

import base64
import shutil
import subprocess
from collections.abc import Callable
from io import BytesIO
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hushlist.extensions.subscriptions import minisign
from hushlist.extensions.subscriptions.minisign import (
    PublicKey,
    SecretKey,
    SignatureError,
    is_encrypted,
    signature_path,
    verify,
    verify_file,
)
from unit.rows import each_row

LIST = b"ads.example\n"
KEY = SecretKey.generate()
SIGNATURE = KEY.sign(BytesIO(LIST), "file:list.txt")
#: of the real program, 0.11, with -W
PUBLIC = """untrusted comment: minisign public key 242D129B72A5E6E
RWRuXiq3KdFCAndsiFr+7gNUu59ZO1hrSW24wog1WV/WG22/cM0h8LfD
"""
#: of the same program, with the password "secret", under ``ulimit -v 60000``: scrypt with a gigabyte takes seconds
ENCRYPTED = """untrusted comment: minisign encrypted secret key
RWRTY0IyGgIjujqdprLnJyYxilF3lmv0gattlMrH9QTFwZwPgMQAABAAAAAAAAAAAAIAAAAADBcFMKeku2xYUU3yjGEw/8OnjAJB\
9cM7oZ3o9V/Sa0CMh+L62GtPS2glsy+U6RoKyMOJTVXH3uvUbzjGgwIl0CkikVSSFNfKKpPU0jTj2hT5975glx4nV8RexKnMAg+zoPaDVV2NDTU=
"""
PUBLIC_OF_ENCRYPTED = "RWQvImzKI8sQhLockwB3h15O6HL4uOiPVAT3BaY5T8rRAgg2IHNP+ZcK"
#: of "hi\n"; made with -S
MADE = """untrusted comment: signature from minisign secret key
RURuXiq3KdFCAjKpZA+js6+J5fGT71G1BqCXAXAIocDg6QFVtYXSBNEBEqWo5ZUoFck3ooA9qr2hnDWayjRFuQ75xN/Ry5iAigs=
trusted comment: timestamp:1795389768\tfile:f\thashed
ivoNEGVlDguLcr/q7v4bPNGCmF/wCCucCE4eoec7SZbFuW7yqqq8rLStcMLQhzzSpJtL7z4XGbgJ+Z0fT2UoDg==
"""


def verified(text: str | bytes, octets: bytes = LIST, key: PublicKey = KEY.public) -> str:
    return verify(BytesIO(octets), text, key)


# -- keys --------------------------------------------------------------------------------------------------------------


def test_a_public_key_is_read_from_its_file_and_from_its_line_alone() -> None:
    whole = PublicKey.parse(PUBLIC)
    assert whole == PublicKey.parse(PUBLIC.splitlines()[1]) == PublicKey.parse(PUBLIC.replace("\n", "\r\n"))
    assert (whole.text, whole.name) == (PUBLIC, "242D129B72A5E6E")


@pytest.mark.parametrize("password", [None, b"", b"secret"])
def test_a_secret_key_is_read_as_it_was_written(password: bytes | None) -> None:
    text = KEY.text(password, operations=1 << 15, memory=1 << 20)
    assert is_encrypted(text) is (password is not None)
    assert SecretKey.parse(text, password) == KEY


def test_an_encrypted_key_needs_its_password() -> None:
    text = KEY.text(b"secret", operations=1 << 15, memory=1 << 20)
    with pytest.raises(SignatureError, match="the password is wrong"):
        SecretKey.parse(text, b"Secret")
    with pytest.raises(SignatureError, match="its password is needed"):
        SecretKey.parse(text)


def test_only_work_that_minisign_might_ask_for_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(minisign.hashlib, "scrypt", lambda *_, dklen, **__: bytes(dklen))
    text = KEY.text(b"secret", operations=1 << 28, memory=1 << 30)
    assert SecretKey.parse(text, b"secret") == KEY
    for operations, memory in (((1 << 28) + 1, 1 << 30), (1 << 28, (1 << 30) + 1)):
        with pytest.raises(SignatureError, match="more time or memory"):
            KEY.text(b"secret", operations=operations, memory=memory)


def resealed(change: Callable[[bytearray], object]) -> str:
    comment, line = KEY.text(None).splitlines()
    octets = bytearray(base64.b64decode(line))
    change(octets)
    return f"{comment}\n{base64.b64encode(octets).decode()}\n"


def put(at: int, octets: bytes) -> Callable[[bytearray], object]:
    return lambda own: own.__setitem__(slice(at, at + len(octets)), octets)


@each_row(
    ("change", "why"),
    [
        (put(0, b"XX"), "unknown kind"),
        (put(2, b"XX"), "unknown kind"),
        (put(4, b"XX"), "unknown kind"),
        (put(70, b"\xff\xff"), "its halves do not belong together"),
        (lambda own: own.append(0), "has 158 octets in base64, not 159"),
        (lambda own: own.__setitem__(slice(2, 54), b"ScB2" + bytes(32) + b"\xff" * 16), "more time or memory"),
    ],
)
def test_a_secret_key_that_is_broken_is_told(change: Callable[[bytearray], object], why: str) -> None:
    with pytest.raises(SignatureError, match=why):
        SecretKey.parse(resealed(change), b"secret")


@each_row("text", ["", "x", PUBLIC, MADE, "untrusted comment: x\n%%%\n", "comment\nRWQ=\n"])
def test_what_is_no_secret_key_is_told(text: str) -> None:
    with pytest.raises(SignatureError):
        SecretKey.parse(text)


# -- signatures --------------------------------------------------------------------------------------------------------


def test_a_signature_gives_its_trusted_comment() -> None:
    assert verified(SIGNATURE) == verified(SIGNATURE.replace("\n", "\r\n")) == "file:list.txt"
    assert verified(MADE, b"hi\n", PublicKey.parse(PUBLIC)) == "timestamp:1795389768\tfile:f\thashed"


def test_another_file_key_or_comment_is_refused() -> None:
    with pytest.raises(SignatureError, match="the file is not what was signed"):
        verified(SIGNATURE, LIST + b"x")
    other = SecretKey.generate()
    with pytest.raises(SignatureError, match=f"key, {KEY.public.name}, not with {other.public.name}"):
        verified(SIGNATURE, key=other.public)
    with pytest.raises(SignatureError, match="the file is not what was signed"):  # the number is no proof
        verified(SIGNATURE, key=PublicKey(KEY.number, other.public.octets))
    with pytest.raises(SignatureError, match="the trusted comment is not what was signed"):
        verified(SIGNATURE.replace("file:list", "file:other"))
    assert verified(SIGNATURE.replace("signature from", "whatever")) == "file:list.txt"  # nobody trusts that one


@given(st.integers(0, len(SIGNATURE) - 1), st.characters(max_codepoint=0x17F))
def test_no_character_of_a_signature_can_be_changed_but_in_the_first_line(at: int, letter: str) -> None:
    changed = SIGNATURE[:at] + letter + SIGNATURE[at + 1 :]
    if changed == SIGNATURE or at < SIGNATURE.index("\n") or letter == "\r" or at == len(SIGNATURE) - 1:
        return
    with pytest.raises(SignatureError):
        verified(changed)


def test_a_long_file_with_a_legacy_signature_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = SIGNATURE.splitlines()
    octets = bytearray(base64.b64decode(lines[1]))
    octets[:2] = b"Ed"
    lines[1] = base64.b64encode(octets).decode()
    with pytest.raises(SignatureError, match="the file is not what was signed"):  # what was signed is the hash
        verified("\n".join(lines))
    monkeypatch.setattr(minisign, "LONGEST_WHOLE", 4)
    with pytest.raises(OSError, match="longer than 4 octets"):
        verified("\n".join(lines))


def test_a_file_s_signature_is_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "list.txt"
    path.write_bytes(LIST)
    with pytest.raises(FileNotFoundError):
        verify_file(path, KEY.public)
    signature_path(path).write_text(SIGNATURE)
    assert verify_file(path, KEY.public) == "file:list.txt"
    signature_path(path).rename(tmp_path / "elsewhere")
    assert verify_file(path, KEY.public, tmp_path / "elsewhere") == "file:list.txt"


# -- Debian's minisign -------------------------------------------------------------------------------------------------


@pytest.fixture
def program(tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    path = shutil.which("minisign")
    if path is None:
        pytest.skip("minisign is not installed (apt-get install minisign)")

    def run(*arguments: str, answer: str = "") -> subprocess.CompletedProcess[str]:
        return subprocess.run([path, *arguments], cwd=tmp_path, input=answer, capture_output=True, text=True)

    (tmp_path / "list.txt").write_bytes(LIST)
    return run


Program = Callable[..., subprocess.CompletedProcess[str]]


def test_minisign_accepts_what_we_sign(program: Program, tmp_path: Path) -> None:
    (tmp_path / "key.pub").write_text(KEY.public.text)
    (tmp_path / "list.txt.minisig").write_text(SIGNATURE)
    done = program("-Vm", "list.txt", "-p", "key.pub")
    assert done.returncode == 0, done.stderr
    assert "Trusted comment: file:list.txt" in done.stdout
    assert program("-Vm", "list.txt", "-P", KEY.public.line).returncode == 0
    (tmp_path / "list.txt").write_bytes(LIST + b"x")
    assert program("-Vm", "list.txt", "-p", "key.pub").returncode != 0


@pytest.mark.parametrize("legacy", [[], ["-l"]])
def test_we_accept_what_minisign_signs(program: Program, tmp_path: Path, legacy: list[str]) -> None:
    assert program("-G", "-W", "-p", "key.pub", "-s", "key").returncode == 0
    done = program("-S", *legacy, "-s", "key", "-t", "a comment", "-m", "list.txt")
    assert done.returncode == 0, done.stderr
    key = PublicKey.parse((tmp_path / "key.pub").read_text())
    assert verify_file(tmp_path / "list.txt", key) == "a comment"
    (tmp_path / "list.txt").write_bytes(LIST + b"x")
    with pytest.raises(SignatureError):
        verify_file(tmp_path / "list.txt", key)
    # and its secret key signs with ours
    secret = SecretKey.parse((tmp_path / "key").read_text())
    assert secret.public == key
    (tmp_path / "list.txt.minisig").write_text(secret.sign(BytesIO(LIST + b"x"), "ours"))
    assert program("-Vm", "list.txt", "-p", "key.pub").returncode == 0


@pytest.mark.slow
def test_minisign_reads_our_secret_keys(program: Program, tmp_path: Path) -> None:
    (tmp_path / "key.pub").write_text(KEY.public.text)
    for password, answer in ((None, ""), (b"secret", "secret\n")):
        (tmp_path / "key").write_text(KEY.text(password, operations=524_288, memory=16_777_216))
        done = program("-S", "-s", "key", "-m", "list.txt", answer=answer)
        assert done.returncode == 0, done.stderr
        assert program("-Vm", "list.txt", "-p", "key.pub").returncode == 0
        (tmp_path / "list.txt.minisig").unlink()


def test_we_read_secret_keys_that_minisign_encrypts() -> None:
    assert is_encrypted(ENCRYPTED)
    assert SecretKey.parse(ENCRYPTED, b"secret").public == PublicKey.parse(PUBLIC_OF_ENCRYPTED)
