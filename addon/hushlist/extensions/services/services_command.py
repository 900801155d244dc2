"""``hushlist services``: which services a policy can name, and by which addresses each is found."""

from __future__ import annotations

import argparse

from hushlist.cli.common import FINDINGS, GOOD, Commands, add_command, complain, print_json, print_line
from hushlist.core.errors import did_you_mean
from hushlist.extensions.services.service_lists import groups, services

#: addresses of a service that are shown
_SHOWN = 3


def add_to(commands: Commands) -> None:
    text = "list the services that a policy can name, such as tiktok, with their groups and main addresses"
    epilog = "Exit codes: 0 good; 1 there is no such service or group; 2 wrong usage or bad input."
    parser = add_command(commands, "services", run_services, text, epilog)
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help="services and groups (default: all), with all addresses"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object a line")


def run_services(arguments: argparse.Namespace) -> int:
    """Show them in the order of the list, by group."""
    every, wanted = services(), arguments.names
    if unknown := [name for name in wanted if name not in every and name not in groups()]:
        for name in unknown:
            complain(f"{name}: no service and no group is called so{did_you_mean(name, [*every, *groups()])}")
        return FINDINGS
    shown = [service for service in every.values() if not wanted or service.id in wanted or service.group in wanted]
    width = max((len(service.id) for service in shown), default=0)
    for service in shown:
        addresses = [
            str(expression).removesuffix("/") if str(expression).count("/") == 1 else str(expression)
            for expression, _ in service.rules
        ]
        if arguments.json:
            named = {name: getattr(service, name) for name in ("id", "title", "group", "category")}
            print_json({**named, "addresses": addresses, "source": service.source})
        else:
            few = addresses if wanted else addresses[:_SHOWN]
            more = f" and {len(addresses) - len(few)} more" if len(few) < len(addresses) else ""
            print_line(f"{service.group:9}  {service.id:{width}}  {service.title}: {', '.join(few)}{more}")
    return GOOD
