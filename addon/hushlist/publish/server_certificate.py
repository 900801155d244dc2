"""The certificate of the server of published lists, and the next one in its place: certificates last for months."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from pathlib import Path

from hushlist.system.files import fingerprint, read_private, read_regular

#: octets of a file of certificates, or of a key
_LONGEST = 1 << 20
#: seconds between two looks at the files
INTERVAL = 60.0


def read_certificate(certificate: Path, key: Path) -> ssl.SSLContext:
    """What serves HTTPS with a certificate chain and its key, both in PEM; ``OSError`` if they cannot be used."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    read_regular(certificate, _LONGEST)  # OpenSSL would wait for a pipe
    read_private(key, _LONGEST)
    try:
        context.load_cert_chain(certificate, key)
    except ssl.SSLError as error:
        raise OSError(error.errno, f"no certificate with its key: {error.reason}", str(certificate)) from error
    return context


async def keep_certificate(
    certificate: Path, key: Path, use: Callable[[ssl.SSLContext], object], complain: Callable[[OSError], object]
) -> None:
    """Hand on the certificate whenever its files have changed; never ends. What cannot be used is complained of."""
    files = (certificate, key)
    seen = [fingerprint(file) for file in files]
    while True:
        await asyncio.sleep(INTERVAL)
        before, seen = seen, [fingerprint(file) for file in files]
        if seen != before:
            try:
                use(read_certificate(certificate, key))
            except OSError as error:  # perhaps the key is not there yet, which is another change
                complain(error)
