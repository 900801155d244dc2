"""mitmproxy's authority, which only a copy gives back: damage and loss are noticed, and so is another in its place."""

from __future__ import annotations

from pathlib import Path

import pytest
from mitmproxy.certs import CertStore

from hushlist.core.system.authority_file import (
    CERTIFICATE,
    NAME,
    fault_of_authority,
    is_other_authority,
    known_authority,
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    CertStore.create_store(tmp_path, "mitmproxy", 2048)
    return tmp_path


def test_a_whole_one_and_none_at_all_are_good(folder: Path, tmp_path: Path) -> None:
    assert fault_of_authority(folder) is None
    assert fault_of_authority(tmp_path / "none") is None


@pytest.mark.parametrize("length", [0, 900, -20])
def test_one_that_is_cut_short_is_damaged(folder: Path, length: int) -> None:
    octets = (folder / NAME).read_bytes()
    (folder / NAME).write_bytes(octets[:length])
    assert "is damaged, or has another passphrase. Put it back from a copy" in str(fault_of_authority(folder))


def test_a_key_of_another_certificate_is_damage(folder: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    CertStore.create_store(other, "mitmproxy", 2048)
    key = (other / NAME).read_bytes().partition(b"-----BEGIN CERTIFICATE")[0]
    (folder / NAME).write_bytes(key + (folder / CERTIFICATE).read_bytes())
    assert "is damaged" in str(fault_of_authority(folder))


def test_one_that_is_gone_while_its_certificate_is_there_is_not_made_anew(folder: Path) -> None:
    (folder / NAME).unlink()
    assert "mitmproxy-ca.pem is gone, and mitmproxy-ca-cert.pem" in str(fault_of_authority(folder))


def test_another_one_is_noticed_until_somebody_removes_what_was_noted(folder: Path, tmp_path: Path) -> None:
    known = known_authority(tmp_path / "state", folder)
    certificate = (folder / CERTIFICATE).read_bytes()
    assert [is_other_authority(known, certificate) for _ in range(2)] == [False, False]
    assert known.stat().st_mode & 0o777 == 0o600
    assert [is_other_authority(known, b"another") for _ in range(2)] == [True, True]
    known.unlink()
    assert not is_other_authority(known, b"another")
