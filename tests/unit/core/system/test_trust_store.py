"""The certificate authorities that a machine trusts: where Python says, or where its system has them."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from hushlist.core.system.trust_store import TrustStore, trust_store
from unit.rows import each_row


@each_row(
    ("system", "of_python", "expected"),
    [
        (["/etc/ssl/certs/ca-certificates.crt"], (None, None), ("/etc/ssl/certs/ca-certificates.crt", None)),
        (["/etc/pki/tls/certs/ca-bundle.crt"], (None, None), ("/etc/pki/tls/certs/ca-bundle.crt", None)),
        (["/etc/ssl/ca-bundle.pem"], (None, "/certs"), ("/etc/ssl/ca-bundle.pem", "/certs")),
        (["/etc/ssl/cert.pem"], (None, None), ("/etc/ssl/cert.pem", None)),
        (["/etc/ssl/cert.pem"], ("/python.pem", None), ("/python.pem", None)),
        (["/elsewhere.pem"], (None, None), (None, None)),
    ],
)
def test_the_file_is_python_s_or_that_of_the_system(
    monkeypatch: pytest.MonkeyPatch,
    system: list[str],
    of_python: tuple[str | None, str | None],
    expected: tuple[str | None, str | None],
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(Path, "is_file", lambda path: str(path) in system)
        store = trust_store(SimpleNamespace(cafile=of_python[0], capath=of_python[1]))
    assert store == TrustStore(*expected)


@pytest.mark.parametrize(
    ("store", "option"),
    [
        (TrustStore("/a.pem", "/certs"), "ssl_verify_upstream_trusted_ca=/a.pem"),
        (TrustStore(None, "/certs"), "ssl_verify_upstream_trusted_confdir=/certs"),
        (TrustStore(None, None), None),
    ],
)
def test_mitmproxy_has_an_option_for_a_file_and_for_a_folder(store: TrustStore, option: str | None) -> None:
    assert store.option == option
