"""Whether mitmproxy can begin TLS with a server: by the authorities that it trusts, and by those of this machine."""

from __future__ import annotations

import socket
import ssl
import warnings
from collections.abc import Iterator
from contextlib import closing, suppress

from hushlist.core.diagnosis import GOOD, WRONG, About, Diagnosis
from hushlist.core.system.files import reason_of
from hushlist.core.system.trust_store import trust_store

_PATIENCE = 10.0
#: seconds in which a server that wants a certificate refuses whoever has none: TLS 1.3 does so behind the handshake
_REFUSAL_PATIENCE = 2.0


def examine_server(host: str, port: int) -> Iterator[Diagnosis]:
    """Begin TLS with a server as mitmproxy would, and ask nothing."""
    import certifi  # mitmproxy brings it, and has its authorities

    place = f"{host}:{port}"
    entry = f"pass-through: ['={host}']"
    try:
        _handshake(host, port, _verifying(certifi.where(), None))
    except ssl.SSLCertVerificationError as error:
        yield _unverified(host, port, error, entry)
    except ssl.SSLError as error:
        yield _refused(host, port, error, entry)
    except OSError as error:
        what = f"no connection to {place}: {reason_of(error)}"
        yield Diagnosis(About.SERVER, WRONG, what, "see whether this machine reaches it")
    else:
        yield Diagnosis(About.SERVER, GOOD, f"mitmproxy begins TLS with {place}")


def _verifying(file: str | None, folder: str | None) -> ssl.SSLContext:
    """A context that verifies as mitmproxy does: Python's own refuses authorities that leave out what they should say.

    Spec: RFC 5280, which a company's authority may not follow to the letter
    """
    context = ssl.create_default_context(cafile=file, capath=folder)
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    return context


def _unverified(host: str, port: int, error: ssl.SSLCertVerificationError, entry: str) -> Diagnosis:
    place, why, store = f"{host}:{port}", error.verify_message, trust_store(ssl.get_default_verify_paths())
    try:
        _handshake(host, port, _verifying(store.file, store.folder))
    except ssl.SSLCertVerificationError:
        what = f"neither mitmproxy nor this machine trusts the certificate of {place}: {why}"
        advice = (
            "if its authority is your own, start mitmproxy with ssl_verify_upstream_trusted_ca=FILE, a file with that "
            f"and all others; or leave it to the browsers: {entry}"
        )
        return Diagnosis(About.SERVER, WRONG, what, advice)
    except (ssl.SSLError, OSError) as other:
        return _refused(host, port, other, entry)
    option = store.option
    what = f"this machine trusts the certificate of {place}, and mitmproxy does not: {why}"
    advice = f"start mitmproxy with --set {option}" if option else f"pass it through: {entry}"
    return Diagnosis(About.SERVER, WRONG, what, advice)


def _refused(host: str, port: int, error: OSError, entry: str) -> Diagnosis:
    place, why = f"{host}:{port}", (getattr(error, "reason", None) or reason_of(error)).lower().replace("_", " ")
    if "certificate required" in why or "bad certificate" in why:
        what = f"{place} wants a certificate of the client: {why}"
        advice = f"start mitmproxy with client_certs=FOLDER that has {host}.pem, or leave it to the browsers: {entry}"
        return Diagnosis(About.SERVER, WRONG, what, advice)
    try:
        version = _handshake(host, port, _of_old())
    except OSError:
        what = f"{place} refuses TLS: {why}"
        advice = f"it may want a certificate of the client, or speak another protocol; leave it to programs: {entry}"
        return Diagnosis(About.SERVER, WRONG, what, advice)
    what = f"{place} speaks {version}, which mitmproxy does not: {why}"
    advice = f"start mitmproxy with --set tls_version_server_min=TLS1, or leave it to the browsers: {entry}"
    return Diagnosis(About.SERVER, WRONG, what, advice)


def _of_old() -> ssl.SSLContext:
    """Any TLS; it verifies nothing, since it is only asked which."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        context.minimum_version = ssl.TLSVersion.TLSv1
        context.maximum_version = ssl.TLSVersion.TLSv1_1
    context.set_ciphers("ALL:@SECLEVEL=0")
    return context


def _handshake(host: str, port: int, context: ssl.SSLContext) -> str | None:
    """The version of TLS that is agreed on.

    Raises:
        OSError: there is no connection; ``ssl.SSLError``: no TLS on it.
    """
    with (
        closing(socket.create_connection((host, port), _PATIENCE)) as connected,
        context.wrap_socket(connected, server_hostname=host) as tls,
    ):
        if tls.version() == "TLSv1.3":
            tls.settimeout(_REFUSAL_PATIENCE)
            with suppress(TimeoutError):  # it waits to be asked
                tls.recv(1)
        return tls.version()
