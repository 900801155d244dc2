"""``hushlist keypair``, ``sign`` and ``verify``: signatures of lists, as minisign makes them; ``sealkey``."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from hushlist.cli.common import FINDINGS, GOOD, Commands, add_command, complain, complain_of, print_line, without_end
from hushlist.core.errors import Problem, SourceError
from hushlist.core.match.seal import SealKey
from hushlist.core.system import files
from hushlist.extensions.subscriptions import minisign

_PUBLIC_ENDING = ".pub"
_PASSWORD = "its password is asked for at the terminal, or is the first line of standard input"  # noqa: S105


def add_to(commands: Commands) -> None:
    text = "make a key pair to sign lists with, in the format of minisign"
    pair = add_command(commands, "keypair", make_pair, text)
    pair.add_argument("secret", type=Path, metavar="SECRET", help="a new file for the secret key, which is private")
    pair.add_argument(
        "--public", type=Path, metavar="FILE", help=f"a file for the public key (default: SECRET{_PUBLIC_ENDING})"
    )
    pair.add_argument(
        "--no-password", action="store_true", help=f"do not encrypt the secret key; without this, {_PASSWORD}"
    )
    text = "make a key to seal lists with, which their author and the proxies that use them share"
    seal = add_command(commands, "sealkey", make_seal_key, text)
    seal.add_argument("key", type=Path, metavar="KEY", help="a new file for the key, which is private")
    sign = add_command(commands, "sign", sign_files, "sign files: the signature of FILE is FILE.minisig")
    sign.add_argument("files", nargs="+", type=Path, metavar="FILE", help="a list, or any other file")
    sign.add_argument("--key", required=True, type=Path, metavar="SECRET", help=f"the secret key; {_PASSWORD}")
    sign.add_argument(
        "--comment", metavar="TEXT", help="what is signed beside the file (default: the time and the file's name)"
    )
    text = "check that files are what was signed with a key, and print what was signed beside them"
    epilog = "Exit codes: 0 all are; 1 one is not; 2 wrong usage, or a file, key or signature that cannot be read."
    check = add_command(commands, "verify", verify_files, text, epilog)
    check.add_argument("files", nargs="+", type=Path, metavar="FILE", help="a list, or any other file")
    check.add_argument("--key", required=True, metavar="PUBLIC", help="the public key: its file, or its text")
    check.add_argument(
        "--signature", type=Path, metavar="FILE", help="the signature, of one file (default: FILE.minisig)"
    )


# -- keys --------------------------------------------------------------------------------------------------------------


def make_pair(arguments: argparse.Namespace) -> int:
    """Write both keys, and print the public one."""
    secret: Path = arguments.secret
    public = arguments.public or secret.with_name(secret.name + _PUBLIC_ENDING)
    if secret.resolve() == public.resolve():
        return complain("the two keys need two files")
    for path in (secret, public):
        if path.exists():
            return complain_of([Problem(str(path), 0, "key", "there is a file of that name already")])
    password = None if arguments.no_password else _password(is_new=True)
    key = minisign.SecretKey.generate()
    with files.source_errors(secret, "key"):
        files.write_private(secret, key.text(password).encode())
    try:
        with files.source_errors(public, "key"):
            files.replace_file(public, key.public.text.encode())
    except SourceError:
        secret.unlink()  # half a pair is of no use
        raise
    print_line(f"{secret}: the secret key: keep it, and show it to nobody")
    print_line(f"{public}: the public key: {key.public.line}")
    return GOOD


def make_seal_key(arguments: argparse.Namespace) -> int:
    key = SealKey.generate()
    with files.source_errors(arguments.key, "key"):
        files.write_private(arguments.key, key.text.encode())
    print_line(f"{arguments.key}: the key {key.fingerprint}: give it to your proxies, and to nobody else")
    return GOOD


def _password(*, is_new: bool = False) -> bytes:
    if sys.stdin.isatty():
        from getpass import getpass

        text = getpass("Password: ").encode()
        if is_new and getpass("Once more: ").encode() != text:
            raise minisign.SignatureError("the two are not the same")
    else:
        text = without_end(sys.stdin.buffer.readline())
    if is_new and not text:
        raise minisign.SignatureError("the password is empty: give one, or --no-password")
    return text


def secret_key(path: Path) -> minisign.SecretKey:
    """The secret key in a file, whose password is asked for; ``SourceError`` if it cannot be read, or that is wrong."""
    with files.source_errors(path, "key"):
        text = files.read_regular(path, minisign.LONGEST_ARMOR)
        return minisign.SecretKey.parse(text, _password() if minisign.is_encrypted(text) else None)


def public_key(text: str) -> minisign.PublicKey:
    """The public key that an argument gives, or the file that it names; ``SourceError`` if it is neither."""
    try:
        return minisign.PublicKey.parse(text)
    except minisign.SignatureError:
        path = Path(text)
        with files.source_errors(path, "key"):
            return minisign.PublicKey.parse(files.read_regular(path, minisign.LONGEST_ARMOR))


# -- signatures --------------------------------------------------------------------------------------------------------


def sign_files(arguments: argparse.Namespace) -> int:
    """Sign each file; one that cannot be read is reported, and the others follow."""
    key = secret_key(arguments.key)
    code = GOOD
    for path in arguments.files:
        try:
            print_line(f"{minisign.sign_file(path, key, arguments.comment)}: signed with {key.public.name}")
        except SourceError as error:
            code = complain_of(error.problems)
    return code


def verify_files(arguments: argparse.Namespace) -> int:
    if arguments.signature is not None and len(arguments.files) > 1:
        return complain("--signature is that of one file")
    key = public_key(arguments.key)
    codes = [_verified(path, key, arguments.signature) for path in arguments.files]
    return max(codes)


def _verified(path: Path, key: minisign.PublicKey, signature: Path | None) -> int:
    try:
        comment = minisign.verify_file(path, key, signature)
    except minisign.SignatureError as error:
        print_line(f"{path}: bad: {error}")
        return FINDINGS
    except (OSError, ValueError) as error:  # ValueError: no file can have that name
        named = getattr(error, "filename", None) or path
        return complain_of([Problem(str(named), 0, "verify", files.reason_of(error))])
    print_line(f"{path}: good, signed with {key.name}: {'  '.join(comment.split(chr(9)))}")
    return GOOD
