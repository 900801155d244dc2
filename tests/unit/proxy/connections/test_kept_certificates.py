"""Certificates outlast a restart for the rest of the day, and their file tells nobody who was visited."""

from __future__ import annotations

import os
import stat
from concurrent.futures import ThreadPoolExecutor, wait
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from threading import Event
from types import SimpleNamespace

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from mitmproxy import certs
from mitmproxy.certs import Cert, CertStore

from hushlist.proxy.connections import kept_certificates
from hushlist.proxy.connections.kept_certificates import (
    LONGEST,
    KeptCertificates,
    Seal,
    kept_file,
    octets_of_file,
    octets_of_names,
    parse_file,
)
from unit.rows import each_row

PEM = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
HOST, NAMES = "www.site.example", (x509.DNSName("www.site.example"),)


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> tuple[CertStore, CertStore]:
    """Two authorities."""
    return tuple(CertStore.from_store(tmp_path_factory.mktemp("authority"), "mitmproxy", 2048) for _ in range(2))


@pytest.fixture
def store(stores: tuple[CertStore, CertStore]) -> CertStore:
    return stores[0]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return kept_file(tmp_path / "cache", tmp_path)


@pytest.fixture
def day(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """The clock: so many days from now."""
    moved = SimpleNamespace(days=0)

    class Clock(datetime):
        @classmethod
        def now(cls, tz: object = None) -> datetime:
            return datetime.now(UTC) + timedelta(days=moved.days)

    monkeypatch.setattr(kept_certificates, "datetime", Clock)
    return moved


@pytest.fixture
def writes(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The files that are written, in their order."""
    found, write = list[Path](), kept_certificates.replace_file

    def note(path: Path, octets: bytes, *, is_private: bool) -> None:
        found.append(path)
        write(path, octets, is_private=is_private)

    monkeypatch.setattr(kept_certificates, "replace_file", note)
    return found


def certificate(kept: KeptCertificates, store: CertStore, *more: str | None, host: str = HOST) -> Cert:
    """What a proxy presents for a host, as mitmproxy 11 asks for it, and 12 with one more."""
    names = (x509.DNSName(host),)
    return kept.certificate(store.default_privatekey, store.default_ca._cert, host, names, *(more or (None,)))


def start(store: CertStore, file: Path) -> KeptCertificates:
    """A proxy that starts."""
    kept = KeptCertificates()
    kept.use(store.default_privatekey, store.default_ca._cert)
    kept.exchange(file)
    return kept


def test_a_certificate_outlasts_a_restart_on_its_day(store: CertStore, file: Path, day: SimpleNamespace) -> None:
    before = start(store, file)
    made = certificate(before, store)
    assert certificate(before, store) == made  # also where mitmproxy has forgotten it: a hundred others came
    before.exchange(file)
    after = certificate(start(store, file), store)
    assert after == made
    after._cert.verify_directly_issued_by(store.default_ca._cert)
    assert (after.cn, [*after.altnames]) == (HOST, [*NAMES])
    day.days = 1
    assert certificate(before, store) != made
    assert certificate(start(store, file), store) != made
    day.days = -1  # the clock was wrong
    assert certificate(start(store, file), store) != made


def test_a_key_that_is_read_again_is_the_same(store: CertStore, file: Path) -> None:
    kept = start(store, file)
    made, octets = certificate(kept, store), store.default_privatekey.private_bytes(*PEM)
    again = kept.certificate(certs.load_pem_private_key(octets, None), store.default_ca._cert, HOST, NAMES, None)
    assert again == made


def test_a_file_of_another_day_is_emptied_at_once(store: CertStore, file: Path, day: SimpleNamespace) -> None:
    kept = start(store, file)
    certificate(kept, store)
    kept.exchange(file)
    day.days = 1
    start(store, file)
    assert parse_file(file.read_bytes())[1] == {}


def test_whatever_differs_between_two_certificates_is_told_apart() -> None:
    name = x509.DNSName(HOST)
    said = [
        octets_of_names(*all_of)
        for all_of in (
            (HOST, [name], (None,)),
            (None, [name], (None,)),
            (HOST, [], (None,)),
            (HOST, [name, x509.DNSName("b.example")], (None,)),
            (HOST, [name], ("Some organization",)),
            (HOST, [name], (None, "http://h.example/mitmproxy-1.crl")),
            (HOST, [x509.RFC822Name(HOST)], (None,)),
            (HOST, [x509.UniformResourceIdentifier(HOST)], (None,)),
        )
    ]
    assert len({*said}) == len(said)


def test_each_certificate_has_what_it_is_asked_for(store: CertStore, file: Path) -> None:
    kept = start(store, file)
    plain, named = certificate(kept, store), certificate(kept, store, "Some organization")
    kept.exchange(file)
    after = start(store, file)
    assert [certificate(after, store, more) for more in (None, "Some organization")] == [plain, named]
    assert (plain.organization, named.organization) == (None, "Some organization")
    if hasattr(Cert, "crl_distribution_points"):  # mitmproxy 12
        listed = certificate(kept, store, None, "http://h.example/a.crl")
        kept.exchange(file)
        assert certificate(start(store, file), store, None, "http://h.example/a.crl") == listed
        assert (listed.crl_distribution_points, plain.crl_distribution_points) == (["http://h.example/a.crl"], [])


def test_another_authority_uses_none_of_it(
    stores: tuple[CertStore, CertStore], file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    first, second = stores
    kept = start(first, file)
    made = certificate(kept, first)
    kept.exchange(file)
    after = certificate(start(second, file), second)
    assert after != made
    after._cert.verify_directly_issued_by(second.default_ca._cert)
    assert "are of another day or authority" in caplog.text


def test_a_renewed_authority_uses_none_of_it(store: CertStore) -> None:
    """It has the key of before, and another certificate."""
    before = store.default_ca._cert
    names = before.subject, before.subject, before.public_key()
    renewed = x509.CertificateBuilder(*names, 5, datetime(2020, 1, 1), datetime(2040, 1, 1))
    signed = renewed.sign(store.default_privatekey, hashes.SHA256())
    marks = {Seal.of(store.default_privatekey, authority, date(2026, 11, 29)).mark for authority in (before, signed)}
    assert len(marks) == 2


def test_the_file_is_the_users_alone_and_names_no_host(store: CertStore, file: Path) -> None:
    kept = start(store, file)
    assert not file.exists()
    made = certificate(kept, store)
    kept.exchange(file)
    octets = file.read_bytes()
    assert HOST.encode() not in octets
    assert made._cert.signature not in octets
    if os.name == "posix":
        assert stat.S_IMODE(file.stat().st_mode) == 0o600


@each_row(
    ("name", "octets"),
    {
        "empty": b"",
        "no mark": b"x" * 31,
        "cut short": None,
        "nonsense": b"x" * 999,
        "too long": b"\0" * (3 << 20),
    }.items(),
)
def test_a_file_that_cannot_be_used_is_made_anew(
    stores: object, tmp_path: Path, caplog: pytest.LogCaptureFixture, name: str, octets: bytes | None
) -> None:
    store, file = stores[0], kept_file(tmp_path / "cache", tmp_path / name)  # type: ignore[index]
    caplog.clear()
    caplog.set_level("INFO")
    kept = start(store, file)
    certificate(kept, store)
    kept.exchange(file)
    whole = file.read_bytes()
    file.write_bytes(whole[:-1] if octets is None else octets)
    again = start(store, file)
    assert f"{file}" in caplog.text
    certificate(again, store)
    again.exchange(file)
    assert len(file.read_bytes()) == len(whole)


def test_what_was_changed_on_the_disk_is_not_presented(
    store: CertStore, file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Not in one octet, nor as the certificate of another host."""
    kept = start(store, file)
    made = [certificate(kept, store, host=host) for host in (HOST, "other.example")]
    kept.exchange(file)
    mark, there = parse_file(file.read_bytes())
    (place, _), (other_place, other) = there.items()
    file.write_bytes(octets_of_file(mark, [(place, other), (other_place, other[:-1] + bytes([other[-1] ^ 1]))]))
    after = start(store, file)
    for host, before in zip((HOST, "other.example"), made, strict=True):
        anew = certificate(after, store, host=host)
        assert anew != before
        assert anew.cn == host
    assert caplog.text.count("is damaged, and is made anew") == 2


def test_what_a_client_or_an_origin_can_add_is_bounded(
    store: CertStore, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = start(store, file)
    long = tuple(x509.DNSName(f"{number}.{'x' * 60}.example") for number in range(LONGEST // 60))
    kept.certificate(store.default_privatekey, store.default_ca._cert, HOST, long, None)
    assert kept._sealed == {}  # an origin has many names
    monkeypatch.setattr(kept_certificates, "MOST", 3)
    made = [certificate(kept, store, host=f"h{number}.example") for number in range(5)]
    kept.exchange(file)
    after = start(store, file)
    assert [certificate(after, store, host=f"h{number}.example") for number in (2, 3, 4)] == made[2:]
    assert certificate(after, store, host="h0.example") != made[0]
    monkeypatch.setattr(kept_certificates, "MOST_OCTETS", 2 * len(next(iter(after._sealed.values()))) + 9)
    certificate(after, store, host="new.example")
    assert len(after._sealed) == 2
    assert after._octets == sum(map(len, after._sealed.values()))


def test_workers_share_what_they_make(store: CertStore, file: Path) -> None:
    first, second = start(store, file), start(store, file)
    made = [certificate(kept, store, host=host) for kept, host in ((first, "a.example"), (second, "b.example"))]
    for kept in (first, second, first):
        kept.exchange(file)
    assert [certificate(first, store, host=host) for host in ("a.example", "b.example")] == made
    before = file.stat()
    first.exchange(file)
    assert file.stat().st_ino == before.st_ino  # nothing is written where nothing is new


def test_workers_that_have_made_the_same_write_it_once_and_then_rest(
    store: CertStore, file: Path, writes: list[Path]
) -> None:
    workers = [start(store, file), start(store, file)]
    for kept in workers:
        certificate(kept, store)
    for kept in workers * 3:
        kept.exchange(file)
    assert writes == [file, file]
    assert certificate(workers[0], store) == certificate(workers[1], store)


def test_workers_that_have_more_than_is_kept_rest_too(
    store: CertStore, file: Path, writes: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept_certificates, "MOST", 2)
    workers = [start(store, file), start(store, file)]
    for number, kept in enumerate(workers * 2):
        certificate(kept, store, host=f"h{number}.example")
    for kept in workers * 3:
        kept.exchange(file)
    assert writes == [file, file]


def test_an_exchange_waits_for_another_one_and_writes_what_came_meanwhile(
    store: CertStore, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As at the end of a proxy whose thread is at the file."""
    kept, write, is_begun, goes_on = start(store, file), kept_certificates.replace_file, Event(), Event()

    def write_first_later(path: Path, octets: bytes, *, is_private: bool) -> None:
        if not is_begun.is_set():
            is_begun.set()
            assert goes_on.wait(20)
        write(path, octets, is_private=is_private)

    monkeypatch.setattr(kept_certificates, "replace_file", write_first_later)
    made = [certificate(kept, store, host="a.example")]
    with ThreadPoolExecutor() as pool:
        pool.submit(kept.exchange, file)
        assert is_begun.wait(20)
        made.append(certificate(kept, store, host="b.example"))
        last = pool.submit(kept.exchange, file)
        assert not wait([last], timeout=0.1).done
        goes_on.set()
        last.result(20)
    assert [certificate(start(store, file), store, host=host) for host in ("a.example", "b.example")] == made


def test_no_length_tells_a_host(store: CertStore, file: Path) -> None:
    kept = start(store, file)
    for host in ("a.example", f"{'a' * 50}.example"):
        certificate(kept, store, host=host)
    assert len({len(sealed) for sealed in kept._sealed.values()}) == 1


def test_a_folder_that_cannot_be_written_is_told_once(
    store: CertStore, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "cache").write_text("")
    kept = KeptCertificates()
    kept.exchange(tmp_path)  # nothing is known of an authority
    for _ in range(2):
        certificate(kept, store)
        kept.exchange(tmp_path / "cache" / "certificates")
    assert caplog.text.count("is no folder") == 1


def test_mitmproxy_makes_them_by_it(store: CertStore, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = KeptCertificates()
    monkeypatch.setattr(kept_certificates, "KEPT", kept)
    monkeypatch.setattr(certs, "dummy_cert", kept_certificates.kept_certificate)
    made = store.get_cert(HOST, NAMES, "Some organization").cert
    monkeypatch.setattr(store, "certs", {})
    assert store.get_cert(HOST, NAMES, "Some organization").cert == made
    monkeypatch.setattr(store, "certs", {})
    assert store.get_cert(HOST, NAMES).cert != made
    assert len(kept._sealed) == 2
