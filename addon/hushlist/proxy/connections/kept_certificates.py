"""Keeps the certificates that mitmproxy makes for hosts until the end of the day, across restarts and for all workers.

To sign one takes a tenth of the time of a new TLS connection. mitmproxy keeps the last hundred, and none across a
restart. What it is to make here is found by all that goes into it: the names, the organization, where revocations are
told, the authority, and the day, since all that are made on one day have the same dates (``service/upkeep.py``).

The names of hosts are what people have visited, so the file has none. A certificate has a place that is a hash of its
names, and is sealed with a key that is another one; both are made with a secret of the authority's private key. Its
length is rounded up, since each host and what its origin has besides make another one. Who has the file learns how many
there are, and about in which order they came. Who has that key, too, can try names one by one, and could read all
traffic anyway.
A certificate that was not sealed by this authority on this day, for these names, cannot be opened, and is made anew.

Spec: RFC 5869 (HKDF); RFC 5116, 5.2 (AES-GCM, a nonce of 96 bits)
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
from collections.abc import Iterable, Iterator, Set
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from pathlib import Path
from threading import Lock
from typing import Any

from cryptography import x509
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from mitmproxy import certs

from hushlist.core.errors import logger_of
from hushlist.core.system.files import make_private, read_regular, reason_of, replace_file

logger = logger_of(__name__)

#: certificates that are kept, the last ones; octets of one that are worth it, since an origin says what names it has;
#: octets of all
MOST, LONGEST, MOST_OCTETS = 1024, 8192, 1 << 21
_PURPOSE = b"hushlist: certificates that are kept, 2"
_NONCE, _PLACE, _MARK, _LENGTH = 12, 16, 32, 2
#: what ends a certificate, and the octets of which each takes a multiple then
_END, _STEP = b"\x80", 1024
#: a place, a length, and what is sealed
_LONGEST_FILE = _MARK + MOST_OCTETS + MOST * (_PLACE + _LENGTH)

_sign = certs.dummy_cert


@dataclass(frozen=True, slots=True)
class Seal:
    """Seals certificates that an authority makes on a day."""

    secret: bytes = field(repr=False)

    @classmethod
    def of(cls, key: Any, authority: x509.Certificate, day: date) -> Seal:
        """By the authority's private key and certificate."""
        form = serialization.Encoding.DER, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        bound = authority.fingerprint(hashes.SHA256()) + day.isoformat().encode()
        return cls(HKDF(hashes.SHA256(), 32, None, _PURPOSE + bound).derive(key.private_bytes(*form)))

    @property
    def mark(self) -> bytes:
        """By what a file of the authority and the day is known."""
        return self._hash(b"mark")

    def place(self, names: bytes) -> bytes:
        """Where the certificate for some names is."""
        return self._hash(b"place" + names)[:_PLACE]

    def close(self, names: bytes, certificate: bytes) -> bytes:
        """A certificate, sealed."""
        nonce, ended = os.urandom(_NONCE), certificate + _END
        rounded = ended + bytes(-len(ended) % _STEP)
        return nonce + AESGCM(self._hash(b"key" + names)).encrypt(nonce, rounded, None)

    def open(self, names: bytes, sealed: bytes) -> bytes:
        """The certificate that is sealed for some names; ``InvalidTag`` if it is not."""
        rounded = AESGCM(self._hash(b"key" + names)).decrypt(sealed[:_NONCE], sealed[_NONCE:], None)
        return rounded.rstrip(b"\0").removesuffix(_END)

    def _hash(self, octets: bytes) -> bytes:
        return hmac.digest(self.secret, octets, "sha256")


def octets_of_names(common: str | None, names: Iterable[x509.GeneralName], more: Iterable[str | None]) -> bytes:
    """All that a certificate says, as one text; no two of them have the same."""
    return json.dumps([common, [repr(name) for name in names], *more]).encode()


def octets_of_file(mark: bytes, sealed: Iterable[tuple[bytes, bytes]]) -> bytes:
    """What is in a file: its mark; then each place, the length of what is there, and that."""
    rows = (place + len(each).to_bytes(_LENGTH, "big") + each for place, each in sealed)
    return mark + b"".join(rows)


def parse_file(octets: bytes) -> tuple[bytes, dict[bytes, bytes]]:
    """The mark of a file and what is at each place, the oldest first; ``ValueError`` if it is cut short."""
    return octets[:_MARK], dict(_rows(octets))


def _rows(octets: bytes) -> Iterator[tuple[bytes, bytes]]:
    at, end = _MARK, len(octets)
    while at != end:
        start = at + _PLACE + _LENGTH
        at, place = start + int.from_bytes(octets[start - _LENGTH : start], "big"), octets[at : at + _PLACE]
        if at > end or start > end:
            raise ValueError("it is cut short")
        yield place, octets[start:at]


def kept_file(cache: Path, folder: Path) -> Path:
    """Where those of the authority in mitmproxy's folder are; ``cache`` is the folder for the cache."""
    return cache / f"certificates-{hashlib.sha256(os.fsencode(folder.absolute())).hexdigest()[:16]}"


class KeptCertificates:
    """The certificates of a day, sealed, the oldest first; used by the event loop, and by a thread for the file."""

    def __init__(self) -> None:
        self._lock, self._exchanging = Lock(), Lock()
        self._made_of: tuple[Any, x509.Certificate, date] | None = None
        self._seal = Seal(b"")
        self._sealed = dict[bytes, bytes]()
        self._octets = 0
        #: the places of those that were made since the last exchange
        self._fresh = set[bytes]()
        #: why the file could not be used the last time
        self._last_fault = ""

    def certificate(
        self, key: Any, authority: x509.Certificate, common: str | None, names: Iterable[x509.GeneralName], *more: Any
    ) -> certs.Cert:
        """The certificate that mitmproxy makes of these arguments, or has made today."""
        self.use(key, authority)
        names = tuple(names)
        said = octets_of_names(common, names, more)
        place = self._seal.place(said)
        if sealed := self._sealed.get(place):
            try:
                return certs.Cert(x509.load_der_x509_certificate(self._seal.open(said, sealed)))
            except (InvalidTag, ValueError):
                logger.warning("hushlist: a certificate that was kept is damaged, and is made anew")
        made = _sign(key, authority, common, names, *more)
        sealed = self._seal.close(said, made._cert.public_bytes(serialization.Encoding.DER))
        with self._lock:
            self._forget(place)
            self._keep(place, sealed)
            self._fresh |= {place} & self._sealed.keys()
        return made

    def use(self, key: Any, authority: x509.Certificate) -> None:
        """Keep what an authority makes today, and nothing else."""
        made_of = (key, authority, datetime.now(UTC).date())
        if self._made_of != made_of:
            seal = Seal.of(*made_of)  # mitmproxy may have read the same key again
            with self._lock:
                if self._seal != seal:
                    self._sealed, self._octets, self._fresh = {}, 0, set()
                self._made_of, self._seal = made_of, seal

    def exchange(self, path: Path) -> None:
        """Take what is in a file, and put there what is kept; may wait, and raises nothing.

        Proxies that write at once may lose what the other one has made; they write it again the next time.
        """
        if self._made_of is None:
            return
        with self._exchanging:  # at the end, the thread may be at it
            self._exchange(path)

    def _exchange(self, path: Path) -> None:
        fault, is_there, places = "", False, None
        try:
            there = read_regular(path, _LONGEST_FILE)
            is_there, places = bool(there), self._take(there)
            if places is None:
                text = "hushlist: the certificates in %s are of another day or authority: they are made anew"
                logger.info(text, path)
        except FileNotFoundError:
            pass
        except (OSError, ValueError) as error:
            fault, is_there = reason_of(error), True
        try:
            with self._lock:
                octets = octets_of_file(self._seal.mark, self._sealed.items())
                is_other = places is None and (is_there or bool(self._sealed))
                is_new = is_other or bool(self._fresh or self._sealed.keys() - (places or ()))
                self._fresh = set()
            if is_new:
                make_private(path.parent)
                replace_file(path, octets, is_private=True)
        except OSError as error:
            fault = f"it cannot be written: {reason_of(error)}"
        if fault and fault != self._last_fault:
            logger.warning("hushlist: certificates are kept in %s: %s; they are made anew", path, fault)
        self._last_fault = fault

    def _take(self, octets: bytes) -> Set[bytes] | None:
        """Keep what is in a file, too, as older than what was made since the last exchange, and newer than all else.

        So proxies that have made the same, or more than is kept, agree on what is in the file. Returns the places in
        it; ``None`` if it is of another authority or day.
        """
        mark, there = parse_file(octets)
        with self._lock:
            if mark != self._seal.mark:
                return None
            old, fresh = dict[bytes, bytes](), dict[bytes, bytes]()
            for place, sealed in self._sealed.items():
                (fresh if place in self._fresh else old)[place] = sealed
            self._sealed, self._octets = {}, 0
            for place, sealed in {**old, **there, **fresh}.items():
                self._keep(place, sealed)
        return there.keys()

    def _keep(self, place: bytes, sealed: bytes) -> None:
        """Keep a certificate as the newest, within the bounds."""
        if len(sealed) > LONGEST:
            return
        self._sealed[place] = sealed
        self._octets += len(sealed)
        while len(self._sealed) > MOST or self._octets > MOST_OCTETS:
            self._forget(next(iter(self._sealed)))

    def _forget(self, place: bytes) -> None:
        self._octets -= len(self._sealed.pop(place, b""))
        self._fresh.discard(place)


#: those of this process
KEPT = KeptCertificates()


def kept_certificate(
    privkey: Any, cacert: x509.Certificate, commonname: str | None, sans: Iterable[x509.GeneralName], *more: Any
) -> certs.Cert:
    """The certificate of a host: the one that was made today for these names, also before a restart, or a new one."""
    return KEPT.certificate(privkey, cacert, commonname, sans, *more)


#: as in ``bounded_http``
REPLACED = ((certs, "dummy_cert", kept_certificate),)
