"""``hushlist serve-lists``: publishes lists of a policy as a Safe Browsing server."""

from __future__ import annotations

import argparse
import asyncio
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from hushlist.cli import common
from hushlist.core.errors import SourceError
from hushlist.core.policy import default_policy
from hushlist.core.system.files import reason_of
from hushlist.core.system.socket_address import parse_socket_address

if TYPE_CHECKING:
    import ssl

    from hushlist.extensions.safe_browsing.v4_messages import ThreatType
    from hushlist.tools.publish.list_publisher import Publication
    from hushlist.tools.publish.list_server import RequestLog, ServerLimits

#: words for a threat type
_THREATS = ("MALWARE", "SOCIAL_ENGINEERING", "UNWANTED_SOFTWARE", "POTENTIALLY_HARMFUL_APPLICATION")
#: octets of a file of keys
_LONGEST_KEYS = 1 << 20


def add_to(commands: common.Commands) -> None:
    text = "publish lists of a policy as a Safe Browsing server, v4 and v5, which browsers can use"
    parser = common.add_command(commands, "serve-lists", serve_lists, text)
    common.add_policy(parser)
    parser.add_argument(
        "--listen",
        type=common.checked(parse_socket_address),
        default=("127.0.0.1", 8088),
        metavar="ADDRESS:PORT",
        help="where to listen (default: 127.0.0.1:8088)",
    )
    parser.add_argument(
        "--list",
        action="append",
        type=common.checked(_choice, f"is no NAME=TYPE with a type of {', '.join(_THREATS)}"),
        default=[],
        metavar="NAME=TYPE",
        help="a list of the policy, by its path, file name or title, and as which threat it is published: "
        f"{', '.join(_THREATS)}; may be repeated (default: all lists, as MALWARE)",
    )
    parser.add_argument(
        "--certificate", type=Path, metavar="FILE", help="serve HTTPS with this certificate chain, in PEM"
    )
    parser.add_argument("--key", type=Path, metavar="FILE", help="the certificate's private key, in PEM")
    parser.add_argument(
        "--client-keys", type=Path, metavar="FILE", help="keys of clients, one a line: nobody else is answered"
    )
    parser.add_argument(
        "--rate",
        type=int,
        default=600,
        metavar="N",
        help="requests a minute of one key, or else of one address; 0 for any number (default: 600)",
    )
    parser.add_argument(
        "--wait",
        type=common.parse_number,
        default=300,
        metavar="SECONDS",
        help="how long clients are to wait between updates, and to remember answers (default: 300)",
    )
    parser.add_argument(
        "--log-prefixes", action="store_true", help="log the prefixes that are asked for, which tell of visits"
    )


def _choice(text: str) -> tuple[str, str]:
    name, _, threat = text.rpartition("=")
    if not name or threat not in _THREATS:
        raise ValueError(text)
    return name, threat


def serve_lists(arguments: argparse.Namespace) -> int:
    from hushlist.tools.publish.list_server import ServerLimits, read_certificate

    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(line_buffering=True)  # somebody may read the log as it is written
    if (arguments.certificate is None) != (arguments.key is None):
        return common.complain("--certificate and --key go together")
    try:
        tls = None if arguments.certificate is None else read_certificate(arguments.certificate, arguments.key)
        limits = ServerLimits(_keys(arguments.client_keys), max(0, arguments.rate))
        asyncio.run(_serve(arguments, limits, tls))
    except (OSError, RuntimeError) as error:
        return common.complain(error)
    return common.GOOD


def _keys(path: Path | None) -> tuple[str, ...]:
    """The keys in a file; a line with # says something else."""
    from hushlist.core.system.files import read_private

    if path is None:
        return ()
    lines = (line.strip() for line in read_private(path, _LONGEST_KEYS).decode("ascii", "replace").splitlines())
    keys = tuple(line for line in lines if line and not line.startswith("#"))
    if not keys:
        raise OSError(None, "it has no key", str(path))
    return keys


async def _serve(arguments: argparse.Namespace, limits: ServerLimits, tls: ssl.SSLContext | None) -> None:
    from hushlist.extensions.safe_browsing.v4_messages import ThreatType
    from hushlist.tools.publish.list_publisher import keep_publishing, make_versions, open_histories, read_publication
    from hushlist.tools.publish.list_server import ListServer, keep_fresh, read_certificate
    from hushlist.tools.publish.safebrowsing_service import SafeBrowsingService

    policy = arguments.policy or default_policy()
    chosen: dict[str, ThreatType] = {name: ThreatType[threat] for name, threat in arguments.list}
    histories = open_histories(policy, common.complain)
    service = SafeBrowsingService(histories, float(arguments.wait))
    read = partial(read_publication, policy, chosen)

    def use(publication: Publication) -> None:
        make_versions(publication, histories)  # first: without them, nothing is published
        service.lists = publication.lists
        for published in publication.lists.values():
            common.print_warnings(published.warnings)
        common.print_lines(publication.lines(histories))

    publication = await asyncio.to_thread(read)
    use(publication)
    server = ListServer(service, limits, partial(_log, arguments.log_prefixes))
    host, port = arguments.listen
    port = server.listen(host, port, tls)
    common.print_line(
        f"listening on {'http' if tls is None else 'https'}://{f'[{host}]' if ':' in host else host}:{port}/"
    )
    keeping = [keep_publishing(publication, read, use, server.thread, _complain)]
    if tls is not None:
        files = arguments.certificate, arguments.key
        keeping.append(keep_fresh(files, lambda: server.use_tls(read_certificate(*files)), _complain_of_change))
    if (keys := arguments.client_keys) is not None:
        keeping.append(keep_fresh((keys,), lambda: server.use_keys(_keys(keys)), _complain_of_change))
    await asyncio.gather(*keeping)


def _complain_of_change(error: OSError) -> None:
    common.complain(error)
    common.complain("the change is not used, what was before stays")


def _complain(error: Exception) -> None:
    if isinstance(error, SourceError):
        common.complain_of(error.problems)
    else:
        common.complain(reason_of(error))
    common.complain("the change is not published, the last good lists stay")


def _log(with_prefixes: bool, request: RequestLog) -> None:
    moment = request.moment.isoformat(timespec="seconds").removesuffix("+00:00") + "Z"
    fields = (moment, request.address, request.method, request.path, request.status, request.octets)
    common.print_line(*fields, *((",".join(request.prefixes),) if with_prefixes else ()))
