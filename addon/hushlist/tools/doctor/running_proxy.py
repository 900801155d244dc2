"""Whether the proxy runs: it is asked for the filter's own page, over http and decrypted; nothing else is asked."""

from __future__ import annotations

import json
import ssl
from collections.abc import Iterator
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from ipaddress import ip_address
from pathlib import Path

from hushlist.core.diagnosis import GOOD, UNKNOWN, WARNING, WRONG, About, Diagnosis
from hushlist.core.system.files import read_regular, reason_of
from hushlist.core.system.package_code import OTHER_CODE, OTHER_MITMPROXY

#: the host of the live page, which the proxy answers itself
HOST = "hushlist.internal"
_PATIENCE = 10.0
_LONGEST = 1 << 20
#: the state of a socket that listens, in /proc/net/tcp
_LISTENS = "0A"


def examine_proxy(host: str, port: int, authority: Path) -> Iterator[Diagnosis]:
    """Ask the proxy at an address; ``authority`` is the certificate by which its own are verified."""
    place = f"{host}:{port}"
    try:
        status, body = _ask(HTTPConnection(host, port, timeout=_PATIENCE), f"http://{HOST}/readyz")
    except (OSError, HTTPException) as error:
        advice = "start it, or name where it listens: --proxy; systemctl status hushlist, journalctl -u hushlist"
        yield Diagnosis(About.PROXY, WRONG, f"nothing answers at {place}: {reason_of(error)}", advice)
        return
    yield from _examine_listening(port)
    if status == 407:
        what = f"the proxy at {place} asks for a name and a password: nothing more was asked"
        yield Diagnosis(About.PROXY, UNKNOWN, what)
        return
    health = _health(body)
    if health is not None:
        is_ready, reason, warnings = health
        condition = GOOD if is_ready else WRONG
        advice = "" if is_ready else "see what the proxy has logged: journalctl -u hushlist"
        yield Diagnosis(About.PROXY, condition, f"at {place}: {reason}", advice)
        for warning in warnings:
            advice = "it is tried again; the proxy has logged why: journalctl -u hushlist"
            if warning == OTHER_CODE:
                advice = ""  # it says itself what to do
            elif warning.startswith(OTHER_MITMPROXY):
                advice = "install the mitmproxy that is tested with this Python, and load no script that changes it"
            yield Diagnosis(About.PROXY, WARNING, f"at {place}: {warning}", advice)
    elif _is_ours(host, port):
        what = f"Hushlist answers at {place}, but does not show this machine its live page"
        yield Diagnosis(About.PROXY, UNKNOWN, what, "ask on the machine itself, or by the policy's live")
    else:
        what = f"what answers at {place} is not Hushlist: status {status} for its own page"
        yield Diagnosis(About.PROXY, WRONG, what, "start mitmdump with -s addon/filter.py, or name another --proxy")
        return
    yield _examine_decryption(host, port, authority)


def _ask(connection: HTTPConnection, target: str) -> tuple[int, bytes]:
    try:
        connection.request("GET", target)
        response = connection.getresponse()
        return response.status, response.read(_LONGEST)
    finally:
        connection.close()


def _health(body: bytes) -> tuple[bool, str, list[str]] | None:
    """Whether it is ready, why, and what fails meanwhile; ``None`` if the answer says nothing of it."""
    try:
        plain = json.loads(body)
        return bool(plain["ok"]), str(plain["reason"]), list(map(str, plain.get("warnings", ())))
    except (ValueError, TypeError, KeyError, RecursionError):
        return None


def _is_ours(host: str, port: int) -> bool:
    """Whether the page that sets up devices answers, which is there for everybody."""
    try:
        return _ask(HTTPConnection(host, port, timeout=_PATIENCE), f"http://{HOST}/setup")[0] == 200
    except (OSError, HTTPException):
        return False


def _examine_decryption(host: str, port: int, authority: Path) -> Diagnosis:
    """Go through the proxy over https, as a browser that trusts the authority."""
    if not authority.exists():
        return Diagnosis(About.PROXY, UNKNOWN, f"whether https works: there is no {authority}", "name --confdir")
    try:
        context = ssl.create_default_context(cafile=authority)
        connection = HTTPSConnection(host, port, timeout=_PATIENCE, context=context)
        connection.set_tunnel(HOST, 443)
        _ask(connection, "/readyz")
    except ssl.SSLCertVerificationError as error:
        what = f"https goes through, but not by the authority {authority}: {error.verify_message}"
        advice = "name the folder that the proxy has: --confdir; devices need the certificate of that one"
        return Diagnosis(About.PROXY, WRONG, what, advice)
    except (OSError, HTTPException) as error:
        advice = "see what the proxy has logged: journalctl -u hushlist"
        return Diagnosis(About.PROXY, WRONG, f"https does not go through: {reason_of(error)}", advice)
    return Diagnosis(About.PROXY, GOOD, f"https goes through, by the authority {authority}")


def _examine_listening(port: int) -> Iterator[Diagnosis]:
    addresses = sorted(_listening(port))
    if not addresses:
        return
    what = f"port {port} is open at {', '.join(addresses)}"
    if all(ip_address(address).is_loopback for address in addresses):
        what += ": for this machine alone"
    yield Diagnosis(About.PORTS, GOOD, what)


def _listening(port: int) -> Iterator[str]:
    """The addresses at which somebody listens; none where only others than Linux know. Spec: proc_net_tcp(5)"""
    for name in ("tcp", "tcp6"):
        try:
            text = read_regular(Path("/proc/net") / name, 1 << 24).decode("ascii", "replace")
        except OSError:
            continue
        for line in text.splitlines()[1:]:
            fields = line.split()
            address, _, number = fields[1].partition(":")
            if fields[3] == _LISTENS and int(number, 16) == port:
                words = (bytes.fromhex(address[at : at + 8])[::-1] for at in range(0, len(address), 8))
                yield str(ip_address(b"".join(words)))
