"""Where this machine keeps the certificate authorities that its programs trust, as far as it keeps them in files."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple, Protocol

#: files of systems whose Python looks elsewhere: Debian, Fedora, SUSE, Alpine, BSD and macOS
_FILES = (
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
)


class VerifyPaths(Protocol):
    """What ``ssl.get_default_verify_paths`` gives."""

    @property
    def cafile(self) -> str | None: ...

    @property
    def capath(self) -> str | None: ...


class TrustStore(NamedTuple):
    """A file with all certificates, or a folder with them by hash."""

    file: str | None
    folder: str | None

    @property
    def option(self) -> str | None:
        """The option by which mitmproxy trusts what this machine trusts.

        >>> TrustStore("/etc/ssl/cert.pem", None).option
        'ssl_verify_upstream_trusted_ca=/etc/ssl/cert.pem'
        """
        if self.file is not None:
            return f"ssl_verify_upstream_trusted_ca={self.file}"
        return None if self.folder is None else f"ssl_verify_upstream_trusted_confdir={self.folder}"


def trust_store(paths: VerifyPaths) -> TrustStore:
    """The store that Python's ``ssl`` uses, by its file if there is one."""
    return TrustStore(paths.cafile or next((name for name in _FILES if Path(name).is_file()), None), paths.capath)
