"""``hushlist keypair``, ``sign`` and ``verify``."""

from pathlib import Path

import pytest

from hushlist.extensions.subscriptions.minisign import PublicKey, SecretKey, verify_file
from unit.cli.running import Run


@pytest.fixture(autouse=True)
def key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SecretKey:
    """A key pair and a list in the current folder."""
    monkeypatch.chdir(tmp_path)
    made = SecretKey.generate()
    Path("own.key").write_text(made.text(None))
    Path("own.key.pub").write_text(made.public.text)
    Path("ads.txt").write_text("ads.example\n")
    return made


def test_a_new_pair_signs_and_verifies(run: Run) -> None:
    code, out, err = run("keypair", "--no-password", "new.key")
    assert (code, err) == (0, "")
    public = PublicKey.parse(Path("new.key.pub").read_text())
    assert out == (
        f"new.key: the secret key: keep it, and show it to nobody\nnew.key.pub: the public key: {public.line}\n"
    )
    assert Path("new.key").stat().st_mode & 0o777 == 0o600
    assert run("sign", "--key", "new.key", "ads.txt") == (0, f"ads.txt.minisig: signed with {public.name}\n", "")
    for given in ("new.key.pub", public.line):
        code, out, err = run("verify", "ads.txt", "--key", given)
        assert (code, err) == (0, "")
        assert out.startswith(f"ads.txt: good, signed with {public.name}: timestamp:")
        assert out.endswith("  file:ads.txt  hashed\n")


def test_a_pair_with_a_password_needs_it(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SecretKey.text, "__defaults__", (1 << 15, 1 << 20))
    secret = b"secret" * 200
    assert run("keypair", "new.key", stdin=secret + b"\n")[0] == 0
    assert run("sign", "--key", "new.key", "ads.txt", stdin=secret + b"\r\n")[0] == 0
    assert run("sign", "--key", "new.key", "ads.txt", stdin=secret[:1024] + b"\n") == (
        2,
        "",
        "new.key: key: the password is wrong\n",
    )
    code, _, err = run("keypair", "another.key", stdin=b"\n")
    assert (code, err) == (2, "hushlist: the password is empty: give one, or --no-password\n")
    assert not Path("another.key").exists()


def test_no_key_is_overwritten(run: Run) -> None:
    before = Path("own.key").read_bytes(), Path("own.key.pub").read_bytes()
    why = "there is a file of that name already\n"
    assert run("keypair", "--no-password", "own.key") == (2, "", f"own.key: key: {why}")
    assert run("keypair", "--no-password", "x.key", "--public", "own.key.pub") == (2, "", f"own.key.pub: key: {why}")
    assert (Path("own.key").read_bytes(), Path("own.key.pub").read_bytes()) == before
    assert not Path("x.key").exists()


def test_the_public_key_does_not_take_the_place_of_the_secret_one(run: Run) -> None:
    done = run("keypair", "--no-password", "x.key", "--public", "./x.key")
    assert done == (2, "", "hushlist: the two keys need two files\n")
    assert not Path("x.key").exists()


def test_no_half_of_a_pair_is_left(run: Run) -> None:
    for public in ("missing/x.pub", "x" * 255):
        code, out, err = run("keypair", "--no-password", "x.key", "--public", public)
        assert (code, out) == (2, "")
        assert err.startswith(f"{public}: key: ")
        assert not Path("x.key").exists()


def test_a_comment_of_one_s_own_is_signed(run: Run, key: SecretKey) -> None:
    assert run("sign", "--key", "own.key", "--comment", "version 7", "ads.txt")[0] == 0
    assert verify_file(Path("ads.txt"), key.public) == "version 7"
    code, _, err = run("sign", "--key", "own.key", "--comment", "a\nb", "ads.txt")
    assert code == 2
    assert err.startswith("ads.txt: sign: a trusted comment is one line")


def test_what_cannot_be_signed_is_told_and_the_rest_is_signed(run: Run) -> None:
    code, out, err = run("sign", "--key", "own.key", "missing", "ads.txt")
    assert (code, err) == (2, "missing: sign: No such file or directory\n")
    assert out.startswith("ads.txt.minisig: signed with ")
    assert not Path("missing.minisig").exists()


def test_a_file_that_was_changed_is_bad(run: Run, key: SecretKey) -> None:
    run("sign", "--key", "own.key", "ads.txt")
    Path("good.txt").write_bytes(Path("ads.txt").read_bytes())
    Path("good.txt.minisig").write_bytes(Path("ads.txt.minisig").read_bytes())
    with Path("ads.txt").open("a") as file:
        file.write("more.example\n")
    code, out, err = run("verify", "ads.txt", "good.txt", "--key", "own.key.pub")
    assert (code, err) == (1, "")
    bad, good = out.splitlines()
    assert bad == "ads.txt: bad: the file is not what was signed, or the signature was changed"
    assert good.startswith("good.txt: good, ")
    other = SecretKey.generate().public
    code, out, _ = run("verify", "good.txt", "--key", other.line)
    assert (code, out) == (
        1,
        f"good.txt: bad: it was signed with another key, {key.public.name}, not with {other.name}\n",
    )


def test_a_signature_may_be_elsewhere(run: Run) -> None:
    run("sign", "--key", "own.key", "ads.txt")
    Path("ads.txt.minisig").rename("elsewhere")
    assert run("verify", "ads.txt", "--key", "own.key.pub", "--signature", "elsewhere")[0] == 0
    code, _, err = run("verify", "ads.txt", "--key", "own.key.pub")
    assert (code, err) == (2, "ads.txt.minisig: verify: No such file or directory\n")
    code, _, err = run("verify", "ads.txt", "ads.txt", "--key", "own.key.pub", "--signature", "elsewhere")
    assert (code, err) == (2, "hushlist: --signature is that of one file\n")


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ("missing", "missing: key: No such file or directory\n"),
        ("ads.txt", "ads.txt: key: a public key is not in base64"),
        ("own.key", "own.key: key: a public key has 42 octets in base64, not 158\n"),
        ("/dev/zero", "/dev/zero: key: it is no regular file\n"),
    ],
)
def test_what_is_no_public_key_is_told(run: Run, given: str, why: str) -> None:
    code, out, err = run("verify", "ads.txt", "--key", given)
    assert (code, out) == (2, "")
    assert err.startswith(why)
