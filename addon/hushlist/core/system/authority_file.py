"""The file of mitmproxy's certificate authority, which every device trusts: only a copy gives it back.

mitmproxy makes another authority where the file is gone, and ends with a traceback where it is damaged. So the
certificate of a proxy's first start is kept elsewhere: at each start, it shows whether the authority is still the same.
"""

from __future__ import annotations

import os
from hashlib import sha256
from pathlib import Path

from hushlist.core.system.files import make_private, read_regular, reason_of, replace_file

#: key and certificate; and the certificate alone, for devices
NAME, CERTIFICATE = "mitmproxy-ca.pem", "mitmproxy-ca-cert.pem"
_LONGEST = 1 << 16
#: how it is told that it has been replaced
OTHER_AUTHORITY = "the authority that devices trust is another one than before: see what the proxy has logged"


def fault_of_authority(folder: Path, passphrase: str = "") -> str | None:
    """What is wrong with the authority in mitmproxy's folder, and what to do; ``None`` if there is none, or nothing."""
    from cryptography import x509
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    path = folder / NAME
    if not path.exists():
        if not (folder / CERTIFICATE).exists():
            return None
        return f"{path} is gone, and {CERTIFICATE}, which devices trust, is there. {_advice(folder)}"
    try:
        octets = read_regular(path, _LONGEST)
    except OSError as error:
        return f"{path} cannot be read: {reason_of(error)}"
    try:
        key = load_pem_private_key(octets, passphrase.encode() or None)
        is_whole = key.public_key() == x509.load_pem_x509_certificate(octets).public_key()
    except ValueError:
        is_whole = False
    except TypeError:  # a passphrase is missing, or is one too many, as mitmproxy says
        is_whole = True
    return None if is_whole else f"{path} is damaged, or has another passphrase. {_advice(folder)}"


def known_authority(state: Path, folder: Path) -> Path:
    """Where the certificate is kept that the authority in mitmproxy's folder has; ``state`` is the folder for state."""
    return state / f"authority-{sha256(os.fsencode(folder.absolute())).hexdigest()[:16]}.pem"


def is_other_authority(path: Path, certificate: bytes) -> bool:
    """Whether an authority is another one than before; the first one is noted. ``OSError`` if that cannot be told."""
    try:
        return read_regular(path, _LONGEST).strip() != certificate.strip()
    except FileNotFoundError:
        make_private(path.parent)
        replace_file(path, certificate, is_private=True)
        return False


def _advice(folder: Path) -> str:
    return (
        f"Put it back from a copy. Without one, move {folder}/mitmproxy-ca* away, start the proxy, and install the new "
        "certificate on every device"
    )
