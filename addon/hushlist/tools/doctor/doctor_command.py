"""``hushlist doctor``: what is wrong with an installation, and what to do."""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from hushlist.cli import common
from hushlist.core.diagnosis import Diagnosis
from hushlist.core.errors import number_of
from hushlist.core.extension import extensions_named, load
from hushlist.core.policy import default_policy
from hushlist.core.system.files import open_regular
from hushlist.core.system.socket_address import parse_socket_address
from hushlist.tools.doctor import installation
from hushlist.tools.doctor.firewall import examine_router
from hushlist.tools.doctor.running_proxy import examine_proxy
from hushlist.tools.doctor.servers import examine_server


def add_to(commands: common.Commands) -> None:
    text = "say what is wrong with this installation, and what to do"
    epilog = "Exit codes: 0 nothing is wrong; 1 something is; 2 wrong usage, or a policy that cannot be opened."
    parser = common.add_command(commands, "doctor", examine, text, epilog)
    common.add_policy(parser)
    parser.add_argument(
        "--proxy",
        type=common.checked(parse_socket_address),
        default=("127.0.0.1", 8080),
        metavar="ADDRESS:PORT",
        help="where the proxy listens (default: 127.0.0.1:8080)",
    )
    parser.add_argument(
        "--confdir",
        type=Path,
        default=Path("~/.mitmproxy"),
        metavar="FOLDER",
        help="mitmproxy's folder, with its certificate authority (default: %(default)s)",
    )
    parser.add_argument(
        "--server",
        type=common.checked(_parse_server),
        action="append",
        default=[],
        metavar="HOST[:PORT]",
        help="test whether mitmproxy can begin TLS with a server, and who trusts it (default port: 443)",
    )
    parser.add_argument("--router", action="store_true", help="look at nftables even if this machine forwards nothing")
    parser.add_argument("--json", action="store_true", help="print a JSON object a line, for each thing looked at")


def _parse_server(text: str) -> tuple[str, int]:
    """Host and port of a server.

    >>> _parse_server("bank.example"), _parse_server("[2001:db8::1]:8443")
    (('bank.example', 443), ('2001:db8::1', 8443))

    Raises:
        ValueError: it is none.
    """
    host, colon, port = text.rpartition(":")
    if not colon or (text.startswith("[") and text.endswith("]")) or (":" in host and not host.startswith("[")):
        host, port = text, "443"
    host = host.removeprefix("[").removesuffix("]")
    if not host or not port.isdecimal() or not port.isascii() or not 0 < int(port) < 1 << 16:
        raise ValueError("expected HOST or HOST:PORT")
    return host, int(port)


def examine(arguments: argparse.Namespace) -> int:
    path: Path = arguments.policy or default_policy()
    try:
        open_regular(path).close()
    except (OSError, ValueError) as error:
        return common.complain(error)
    diagnoses = []
    for diagnosis in _diagnoses(arguments, path):
        diagnoses.append(diagnosis)
        if arguments.json:
            common.print_json(diagnosis._asdict())
            continue
        common.print_line(f"{diagnosis.condition:<11} {diagnosis.about}: {diagnosis.what}")
        if diagnosis.advice:
            common.print_line(f"{'':<11}   do: {diagnosis.advice}")
    wrong = sum(diagnosis.is_finding for diagnosis in diagnoses)
    if wrong:
        common.remark(f"{number_of(wrong, 'thing needs', 'things need')} somebody to look at")
    return common.FINDINGS if wrong else common.GOOD


def _diagnoses(arguments: argparse.Namespace, path: Path) -> Iterator[Diagnosis]:
    now = datetime.now(UTC)
    confdir = arguments.confdir.expanduser()
    yield from installation.examine_versions()
    engine, diagnoses = installation.open_policy(path)
    yield from diagnoses
    if engine is not None:
        yield from installation.examine_files(engine.policy, time.time())
        for extension in extensions_named(engine.policy.extensions):
            if extension.checks:
                yield from load(extension.checks)(engine.policy, time.time())
        yield from installation.examine_schedules(engine.policy, now)
        yield from installation.examine_clock(engine.policy, now)
    yield from installation.examine_authority(confdir, now)
    host, port = arguments.proxy
    yield from examine_proxy(host, port, confdir / "mitmproxy-ca-cert.pem")
    for server in arguments.server:
        yield from examine_server(*server)
    yield from examine_router(is_router=arguments.router)
