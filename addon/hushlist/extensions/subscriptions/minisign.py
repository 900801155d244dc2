r"""Minisign: key pairs, and signatures of files, by Ed25519. ``minisign`` reads ours, and we read its.

>>> secret = SecretKey.generate()
>>> text = secret.sign(BytesIO(b"ads.example\n"), "file:ads.txt")
>>> verify(BytesIO(b"ads.example\n"), text, secret.public)
'file:ads.txt'

All numbers are little-endian. Each file has comments, and a line of base64 that decodes to:

    public key  "Ed", key number (8 octets), public key (32)
    secret key  "Ed", "Sc" or two zero octets, "B2", salt (32), operations (8), memory in octets (8), then, encrypted by
                XOR with the output of scrypt where it is "Sc": key number (8), seed (32), public key (32), checksum
                (32): BLAKE2b-256 of "Ed", key number, seed and public key
    signature   "ED", key number (8), signature (64) of the file's BLAKE2b-512; the legacy "Ed" signs the file itself.
                A second line has the signature (64) of the first signature and the trusted comment.

Spec: https://jedisct1.github.io/minisign/, Signature format, Public key format, Secret key format
"""

from __future__ import annotations

import hashlib
import os
import time
from base64 import b64encode
from binascii import Error, a2b_base64
from collections.abc import Sequence
from dataclasses import dataclass
from hmac import compare_digest
from io import BufferedReader, BytesIO
from pathlib import Path
from struct import Struct

from hushlist.core.errors import HushlistError, printable
from hushlist.core.system.files import (
    LONGEST_LIST,
    LONGEST_WHOLE,
    open_regular,
    read_regular,
    read_whole,
    replace_file,
    source_errors,
)

#: a file, or octets like one
Octets = BufferedReader | BytesIO
#: octets of a key or a signature in a file; minisign reads comments of 8,192
LONGEST_ARMOR = 1 << 14
#: what a signature's name adds to that of its file
SIGNATURE_ENDING = ".minisig"
_UNTRUSTED, _TRUSTED = b"untrusted comment: ", b"trusted comment: "
_LONGEST_COMMENT = 8192 - len(_TRUSTED) - 2
_ED25519, _PREHASHED = b"Ed", b"ED"
_NO_PASSWORD, _SCRYPT, _CHECKSUM = b"\0\0", b"Sc", b"B2"
_PUBLIC = Struct("<2s8s32s")
_SIGNATURE = Struct("<2s8s64s")
_SECRET = Struct("<2s2s2s32sQQ104s")
_SEALED = Struct("<8s32s32s32s")
#: what minisign takes for its own keys (libsodium's "sensitive"): a gigabyte, and some seconds
OPERATIONS, MEMORY = 1 << 25, 1 << 30
#: octets; a file that asks for more is refused before anything is computed
_MOST_MEMORY, _MOST_OPERATIONS = 1 << 30, 1 << 28


class SignatureError(HushlistError):
    """A key or a signature that cannot be used, or a file that is not what was signed; the message says why."""


@dataclass(frozen=True, slots=True)
class PublicKey:
    #: 8 octets that tell keys apart
    number: bytes
    #: 32 octets
    octets: bytes

    @classmethod
    def parse(cls, text: bytes | str) -> PublicKey:
        """Read a public key: the text of its file, or its line of base64 alone; else ``SignatureError``."""
        lines = _lines_of(text)
        if len(lines) == 2 and lines[0].startswith(_UNTRUSTED):
            del lines[0]
        if len(lines) != 1:
            raise SignatureError("it is no public key of minisign: expected a comment and a line of base64")
        algorithm, number, octets = _PUBLIC.unpack(_decoded(lines[0], _PUBLIC.size, "a public key"))
        if algorithm != _ED25519:
            raise SignatureError("it is a public key of an unknown kind")
        return cls(number, octets)

    @property
    def name(self) -> str:
        """The number as minisign writes it."""
        return f"{int.from_bytes(self.number, 'little'):X}"

    @property
    def line(self) -> str:
        return b64encode(_PUBLIC.pack(_ED25519, self.number, self.octets)).decode()

    @property
    def text(self) -> str:
        return _armored(f"minisign public key {self.name}", self.line)


@dataclass(frozen=True, slots=True, repr=False)
class SecretKey:
    """A secret key, decrypted."""

    number: bytes
    #: 32 octets
    seed: bytes

    @classmethod
    def generate(cls) -> SecretKey:
        """Make a key pair by the system's randomness."""
        return cls(os.urandom(8), os.urandom(32))

    @classmethod
    def parse(cls, text: bytes | str, password: bytes | None = None) -> SecretKey:
        """Read a secret key.

        Raises:
            SignatureError: it is none, its password is missing or wrong, or there is not the memory to decrypt it.
        """
        sealed, derive = _secret_of(text)
        if derive is not None:
            if password is None:
                raise SignatureError("the secret key is encrypted: its password is needed")
            sealed = _xor(sealed, _derived(password, *derive))
        number, seed, public, checksum = _SEALED.unpack(sealed)
        # without a password, minisign writes zeros in place of the checksum
        if derive is not None and not compare_digest(checksum, _checksum(number, seed, public)):
            raise SignatureError("the password is wrong")
        key = cls(number, seed)
        if key.public.octets != public:
            raise SignatureError("the secret key is broken: its halves do not belong together")
        return key

    @property
    def public(self) -> PublicKey:
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

        return PublicKey(self.number, Ed25519PrivateKey.from_private_bytes(self.seed).public_key().public_bytes_raw())

    def text(self, password: bytes | None, operations: int = OPERATIONS, memory: int = MEMORY) -> str:
        """The text of its file, encrypted if there is a password.

        Raises:
            SignatureError: there is not the memory to encrypt it.
        """
        public = self.public.octets
        if password is None:
            head = _NO_PASSWORD, _CHECKSUM, bytes(32), 0, 0
            sealed = _SEALED.pack(self.number, self.seed, public, bytes(32))
        else:
            salt = os.urandom(32)
            head = _SCRYPT, _CHECKSUM, salt, operations, memory
            checksum = _checksum(self.number, self.seed, public)
            key = _derived(password, salt, operations, memory)
            sealed = _xor(_SEALED.pack(self.number, self.seed, public, checksum), key)
        kind = "secret key" if password is None else "encrypted secret key"
        return _armored(f"minisign {kind}", b64encode(_SECRET.pack(_ED25519, *head, sealed)).decode())

    def sign(self, file: Octets, comment: str) -> str:
        """The text of a file's signature, prehashed; its trusted comment is signed, too.

        Raises:
            SignatureError: the comment is too long, or cannot be in one line.
        """
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

        trusted = comment.encode("utf-8", "replace")
        if len(trusted) > _LONGEST_COMMENT or any(octet < 0x20 and octet != 0x09 for octet in trusted):
            why = f"a trusted comment is one line of at most {_LONGEST_COMMENT:,} octets, without control characters"
            raise SignatureError(why)
        key = Ed25519PrivateKey.from_private_bytes(self.seed)
        signature = key.sign(hashlib.file_digest(file, hashlib.blake2b).digest())
        line = b64encode(_SIGNATURE.pack(_PREHASHED, self.number, signature)).decode()
        whole = b64encode(key.sign(signature + trusted)).decode()
        signed = _armored(f"signature from minisign key {self.public.name}", line)
        return f"{signed}{_TRUSTED.decode()}{trusted.decode()}\n{whole}\n"


def is_encrypted(text: bytes | str) -> bool:
    """Whether a secret key needs a password; ``SignatureError`` if it is none."""
    return _secret_of(text)[1] is not None


def verify(file: Octets, signature: bytes | str, key: PublicKey) -> str:
    """The trusted comment of a file's signature, if the signature is the key's, and the file is what was signed.

    ``file`` is read from where it stands to its end; ``signature`` is the text of its file.

    Raises:
        SignatureError: it is not, or the signature cannot be read; says which.
        OSError: the file cannot be read, or has a legacy signature and is too long for one.
    """
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    lines = _lines_of(signature)
    if len(lines) != 4 or not lines[0].startswith(_UNTRUSTED) or not lines[2].startswith(_TRUSTED):
        raise SignatureError("it is no signature of minisign: expected two comments, each above a line of base64")
    algorithm, number, of_file = _SIGNATURE.unpack(_decoded(lines[1], _SIGNATURE.size, "a signature"))
    whole = _decoded(lines[3], 64, "the signature of a comment")
    trusted = lines[2].removeprefix(_TRUSTED)
    if algorithm not in (_ED25519, _PREHASHED):
        raise SignatureError("it is a signature of an unknown kind")
    if number != key.number:
        raise SignatureError(f"it was signed with another key, {PublicKey(number, b'').name}, not with {key.name}")
    if algorithm == _PREHASHED:
        message = hashlib.file_digest(file, hashlib.blake2b).digest()
    else:
        message = read_whole(file, LONGEST_WHOLE, Path(getattr(file, "name", "file")))
        if len(message) == hashlib.blake2b().digest_size:
            # The octets of a prehashed signature are a legacy one of this hash: nobody can tell which was signed.
            raise SignatureError("a legacy signature of a file as long as a hash may be that of another file")
    try:
        public = Ed25519PublicKey.from_public_bytes(key.octets)
        public.verify(of_file, message)
    except InvalidSignature as error:
        raise SignatureError("the file is not what was signed, or the signature was changed") from error
    try:
        public.verify(whole, of_file + trusted)
    except InvalidSignature as error:
        raise SignatureError("the trusted comment is not what was signed") from error
    return trusted.decode("utf-8", "backslashreplace")


def verify_file(path: Path, key: PublicKey, signature: Path | None = None) -> str:
    """The same for a file, whose signature is beside it (``SIGNATURE_ENDING``) if none is named.

    Whoever can write the file could change it after this: verify a file that only you can write.

    Raises:
        SignatureError: as ``verify``.
        OSError: one of both cannot be read, or is too long.
    """
    with open_regular(path, LONGEST_LIST) as file:
        return verify(file, read_regular(signature or signature_path(path), LONGEST_ARMOR), key)


def sign_file(path: Path, key: SecretKey, comment: str | None = None) -> Path:
    """Write a file's signature beside it, and say where; ``SourceError`` if that cannot be done."""
    if comment is None:
        # as minisign writes it
        comment = f"timestamp:{int(time.time())}\tfile:{printable(path.name)}\thashed"
    with source_errors(path, "sign"):
        with open_regular(path, LONGEST_LIST) as file:
            text = key.sign(file, comment)
        replace_file(signature_path(path), text.encode())
    return signature_path(path)


def signature_path(path: Path) -> Path:
    """Where a file's signature is by default.

    >>> signature_path(Path("lists/ads.yaml")).name
    'ads.yaml.minisig'
    """
    return path.with_name(path.name + SIGNATURE_ENDING)


# -- lines and base64 --------------------------------------------------------------------------------------------------


def _lines_of(text: bytes | str) -> list[bytes]:
    octets = text.encode("utf-8", "surrogateescape") if isinstance(text, str) else text
    lines = [line.removesuffix(b"\r") for line in octets.split(b"\n")]
    while lines and not lines[-1].strip():
        lines.pop()
    return lines


def _armored(comment: str, line: str) -> str:
    return f"{_UNTRUSTED.decode()}{comment}\n{line}\n"


def _decoded(line: bytes, size: int, what: str) -> bytes:
    try:
        octets = a2b_base64(line, strict_mode=True)
    except Error as error:
        raise SignatureError(f"{what} is not in base64: {error}") from error
    if len(octets) != size:
        raise SignatureError(f"{what} has {size} octets in base64, not {len(octets)}")
    return octets


# -- secret keys -------------------------------------------------------------------------------------------------------

#: salt, operations, memory
_Derivation = tuple[bytes, int, int]


def _secret_of(text: bytes | str) -> tuple[bytes, _Derivation | None]:
    """The octets of a secret key, and how to decrypt them; ``None`` if they are not encrypted."""
    lines = _lines_of(text)
    if len(lines) != 2 or not lines[0].startswith(_UNTRUSTED):
        raise SignatureError("it is no secret key of minisign: expected a comment and a line of base64")
    octets = _decoded(lines[1], _SECRET.size, "a secret key")
    algorithm, derivation, checksum, salt, operations, memory, sealed = _SECRET.unpack(octets)
    if (algorithm, checksum) != (_ED25519, _CHECKSUM) or derivation not in (_NO_PASSWORD, _SCRYPT):
        raise SignatureError("it is a secret key of an unknown kind")
    return sealed, None if derivation == _NO_PASSWORD else (salt, operations, memory)


def _checksum(*parts: bytes) -> bytes:
    return hashlib.blake2b(_ED25519 + b"".join(parts), digest_size=32).digest()


def _xor(left: bytes, right: bytes) -> bytes:
    return bytes(a ^ b for a, b in zip(left, right, strict=True))


def _derived(password: bytes, salt: bytes, operations: int, memory: int) -> bytes:
    """The octets that encrypt a secret key."""
    if operations > _MOST_OPERATIONS or memory > _MOST_MEMORY:
        raise SignatureError("to decrypt the secret key would take more time or memory than any that minisign makes")
    n, r, p = scrypt_parameters(operations, memory)
    try:
        # what scrypt needs: 128 * r * (n + p) octets, and some
        most = 128 * r * (n + p + 4)
        return hashlib.scrypt(password, salt=salt, n=n, r=r, p=p, maxmem=most, dklen=_SEALED.size)
    except (MemoryError, ValueError) as error:
        raise SignatureError(f"there is not the memory for scrypt, {memory:,} octets") from error


def scrypt_parameters(operations: int, memory: int) -> Sequence[int]:
    """N, r and p of scrypt for limits of operations and memory (octets).

    Spec: libsodium, crypto_pwhash_scryptsalsa208sha256, pickparams

    >>> scrypt_parameters(OPERATIONS, MEMORY)
    (1048576, 8, 1)
    """
    operations = max(operations, 32_768)
    r = 8
    is_slow = operations < memory // 32
    most = operations // (r * 4) if is_slow else memory // (r * 128)
    log = next(log for log in range(1, 64) if 1 << log > most // 2)
    return 1 << log, r, 1 if is_slow else max(1, min(operations // 4 >> log, 0x3FFFFFFF) // r)
