"""``hushlist log``: reads the decision log."""

from __future__ import annotations

import argparse
import re
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta, tzinfo
from functools import partial

from hushlist.cli import common
from hushlist.cli.command_options import policy_of
from hushlist.core.errors import printable
from hushlist.core.lists.category_names import category_named
from hushlist.core.match.rule import Action
from hushlist.core.policy.groups import address_text
from hushlist.core.system.files import state_folder
from hushlist.core.url.hrn import Hrn, parse_hrn
from hushlist.core.url.parts import as_typed
from hushlist.core.url.request import canonical_host
from hushlist.extensions.journal import log_database
from hushlist.extensions.journal.log_identifiers import parse_reference, pseudonyms, read_key
from hushlist.extensions.journal.log_record import LOST, LogFields, shown_record, time_text
from hushlist.extensions.journal.request_counts import WOULD
from hushlist.extensions.unblock import default_path
from hushlist.extensions.unblock.shown_clients import privacy_of_store

_NO_RECORD = "the log has nothing that fits; what is old is removed, and --folder names another log"
_NO_LOG = (
    "there is no log. The proxy writes it where the policy says 'log: on'; if that names another folder, or the proxy "
    "runs as another user, --folder names it"
)
#: exit code for an empty answer
_NOTHING = 1
_ACTION_HELP = "what was done; would: a dry run let it pass; lost: the log itself has a gap"
#: values of which it is told how many a dry run let pass
_MOST_TRIED = 100_000
#: seconds between two checks for new lines
_PAUSE = 0.5


def add_to(commands: common.Commands) -> None:
    text = "show what was decided, count it, and look a reference number up, in the decision log"
    log = common.add_group(commands, "log", text)
    tail = _add(log, "tail", show_tail, "print the last decisions, the newest last")
    _add_number(tail, 10, "how many")
    tail.add_argument("-f", "--follow", action="store_true", help="go on with what is written from now on")
    _add_filters(tail)
    most = _add(log, "top", show_top, "count decisions, and print what they were most often about")
    most.add_argument("--by", choices=log_database.COUNTED, default="list", help="what to count (default: %(default)s)")
    _add_number(most, 10, "how many lines")
    _add_filters(most)
    show = _add(log, "show", show_reference, "print everything about the decision with a reference number")
    show.add_argument(
        "reference",
        type=_reference,
        metavar="REF",
        help="as the block page has it; case, spaces and hyphens do not matter",
    )


def _category(text: str) -> Hrn:
    return parse_hrn(category_named(text))


_Answer = Callable[[log_database.LogPlace, argparse.Namespace], int]


def _add(commands: common.Commands, name: str, answer: _Answer, text: str) -> argparse.ArgumentParser:
    epilog = "Exit codes: 0 something was found; 1 nothing was; 2 wrong usage, or no log that can be read."
    parser = common.add_command(commands, name, partial(_ask, answer), text, epilog)
    parser.add_argument(
        "--folder",
        type=common.parse_place,
        metavar="FOLDER",
        help="the folder of the log, or its database as postgresql://..., in place of the policy's (default: the "
        "user's folder for state)",
    )
    common.add_policy(parser, "the proxies' policy: where it has the log, and its time zone (default: UTC)")
    parser.add_argument("--json", action="store_true", help="print one JSON object a line; its times are in UTC")
    return parser


def _add_number(parser: argparse.ArgumentParser, default: int, what: str) -> None:
    parser.add_argument(
        "-n", "--number", type=common.parse_number, default=default, metavar="N", help=f"{what} (default: %(default)s)"
    )


def _add_filters(parser: argparse.ArgumentParser) -> None:
    filters = parser.add_argument_group("filters", "all that are given have to fit")
    filters.add_argument("--action", choices=[*Action, WOULD, LOST], help=_ACTION_HELP)
    filters.add_argument("--client", metavar="ADDRESS", help="whose request it was; a pseudonym will do, too")
    filters.add_argument("--user", metavar="NAME", help="the same, by the name of the user")
    filters.add_argument(
        "--category", type=common.checked(_category), metavar="NAME", help="of the rule, or a superordinate one"
    )
    filters.add_argument("--list", metavar="NAME", help="name or title of the list with the rule")
    filters.add_argument("--host", type=_host, metavar="HOST", help="what was asked for; hosts below it, too")
    filters.add_argument("--file", metavar="TEXT", help="in what a file is, its media type or its name; '': any file")
    moment = "as 2026-12-24, 2026-12-24T22:30, or how long ago: 90s, 30m, 2h, 3d, 1w"
    filters.add_argument("--since", type=_moment, metavar="TIME", help=f"from then on: {moment}")
    filters.add_argument("--until", type=_moment, metavar="TIME", help="before then")


# -- arguments ---------------------------------------------------------------------------------------------------------


@common.checked
def _reference(text: str) -> str:
    reference = parse_reference(text)
    if reference is None:
        raise ValueError(f"{text!r} is no reference number: they have ten letters and digits, and no U")
    return reference


@common.checked
def _host(text: str) -> str:
    return canonical_host(as_typed(text)).decode("ascii")


_AGO = re.compile(r"([0-9]{1,6})([smhdw])")
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


def _moment(text: str) -> str:
    parse_past_moment(text, datetime.now(UTC))  # the zone is known later
    return text


def parse_past_moment(text: str, now: datetime) -> str:
    """A moment in the log's form, from a day, a time in the zone of ``now``, or a duration before it.

    >>> parse_past_moment("2h", datetime(2026, 12, 24, 22, 30, tzinfo=UTC))
    '2026-12-24T20:30:00.000Z'

    Raises:
        argparse.ArgumentTypeError: it is none of these.
    """
    ago = _AGO.fullmatch(text)
    try:
        moment = now - timedelta(**{_UNITS[ago[2]]: int(ago[1])}) if ago else datetime.fromisoformat(text)
        return time_text((moment if moment.tzinfo else moment.replace(tzinfo=now.tzinfo)).timestamp())
    except (ValueError, OverflowError) as error:
        raise argparse.ArgumentTypeError(f"{text!r} is no time such as 2026-12-24T22:30, 2h or 3d") from error


def _filters(arguments: argparse.Namespace) -> log_database.LogFilters:
    now = datetime.now(arguments.zone)
    since, until = (text and parse_past_moment(text, now) for text in (arguments.since, arguments.until))
    return log_database.LogFilters(
        (arguments.action,) if arguments.action else (),
        _names("client", arguments.client and address_text(arguments.client)),
        _names("user", arguments.user),
        arguments.category,
        arguments.list,
        arguments.host,
        since=since,
        until=until,
        file=arguments.file,
    )


def _names(kind: str, name: str | None) -> tuple[str, ...]:
    """A name, and its pseudonym if there is a key for it."""
    if name is None:
        return ()
    try:
        key = read_key(state_folder())
    except (OSError, ValueError, RuntimeError):
        key = None
    return (name,) if key is None else (name, pseudonyms(key)(kind, name))


# -- commands ----------------------------------------------------------------------------------------------------------


def _ask(answer: _Answer, arguments: argparse.Namespace) -> int:
    """The log's answer; without a log, an error on standard error."""
    policy = policy_of(arguments)
    arguments.zone = UTC if policy is None else policy.zone
    try:
        folder = arguments.folder or (policy and policy.of("log") and policy.of("log").place) or state_folder()
        if log_database.has_log(folder):
            arguments.privacy = privacy_of_store(
                (policy and policy.of("store")) or default_path(), policy, common.remark
            )
            code = answer(folder, arguments)
            if code == _NOTHING:
                common.remark(f"{folder}: {_NO_RECORD}")
            return code
        return common.complain(f"{folder}: {_NO_LOG}")
    except (OSError, RuntimeError) as error:
        return common.complain(error)


def show_tail(folder: log_database.LogPlace, arguments: argparse.Namespace) -> int:
    """Print the last decisions, and with ``--follow`` all new ones."""
    filters = _filters(arguments)
    if arguments.follow:
        _follow(folder, filters, arguments)
        return common.GOOD
    newest = log_database.newest_records(folder, filters, arguments.number)
    _print_records(newest, arguments)
    return common.GOOD if newest else _NOTHING


def _follow(folder: log_database.LogPlace, filters: log_database.LogFilters, arguments: argparse.Namespace) -> None:
    """Print new decisions until the user stops it."""
    # Records that are written between the next two lines are found by both.
    with suppress(KeyboardInterrupt), closing(log_database.follow(folder)) as follower:
        next(follower)
        newest = log_database.newest_records(folder, filters, arguments.number, only_lines=True)
        shown = {fields.get("reference") for fields in newest}
        _print_records(newest, arguments)
        for new in follower:
            wanted = [fields for fields, _ in filters.fitting(new) if fields.get("reference") not in shown]
            _print_records(wanted, arguments)
            common.flush_output()
            time.sleep(_PAUSE)


def show_top(folder: log_database.LogPlace, arguments: argparse.Namespace) -> int:
    """Print the most frequent values, with counts."""
    filters = _filters(arguments)
    counts = log_database.top_values(folder, arguments.by, filters, arguments.number)
    counts = log_database.shown_values(counts, arguments.by, arguments.privacy)
    only_tried = replace(filters, actions=(WOULD,))
    tried = (
        {}
        if filters.actions or arguments.by == "action"
        else dict(log_database.top_values(folder, arguments.by, only_tried, _MOST_TRIED))
    )
    tried = dict(log_database.shown_values(tried.items(), arguments.by, arguments.privacy))
    width = max((len(str(number)) for _, number in counts), default=0)
    for value, number in counts:
        name, file = log_database.named(arguments.by, value)
        if arguments.json:
            more: dict[str, str | int] = {"title": name} if file else {}
            more |= {"would_block": tried[value]} if value in tried else {}
            common.print_json({arguments.by: file or name, **more, "count": number})
        else:
            would = f"  (would block {tried[value]})" if value in tried else ""
            common.print_line(f"{number:>{width}}  {name}{f' ({file})' if file else ''}{would}")
    return common.GOOD if counts else _NOTHING


def show_reference(folder: log_database.LogPlace, arguments: argparse.Namespace) -> int:
    """Print everything about one decision."""
    records = [
        shown_record(fields, arguments.privacy) for fields in log_database.find_records(folder, arguments.reference)
    ]
    if arguments.json:
        _print_records(records, arguments)
    else:
        for fields in records:
            shown = fields if arguments.zone is UTC else {**fields, "time": _time_in(fields, arguments.zone)}
            for name, text in _described(shown):
                common.print_line(f"{name:<12} {text}")
    return common.GOOD if records else _NOTHING


# -- for people --------------------------------------------------------------------------------------------------------


def _print_records(entries: Iterable[LogFields], arguments: argparse.Namespace) -> None:
    records = [shown_record(fields, arguments.privacy) for fields in entries]
    if arguments.json:
        for fields in records:
            common.print_json(fields)
        return
    rows = [_row(fields, arguments.zone) for fields in records]
    widths = [max(map(len, column)) for column in list(zip(*rows, strict=True))[:-1]]
    for row in rows:
        common.print_line("  ".join([*(text.ljust(width) for text, width in zip(row, widths, strict=False)), row[-1]]))


def _time_in(fields: LogFields, zone: tzinfo) -> str:
    try:
        return f"{datetime.fromisoformat(_text(fields, 'time')).astimezone(zone):%Y-%m-%d %H:%M:%S}"
    except (ValueError, OverflowError):  # of a record that somebody has changed
        return _text(fields, "time").replace("T", " ")[:19]


def _row(fields: LogFields, zone: tzinfo) -> list[str]:
    """Time, reference, action, client, then URL and reason."""
    client, user = _text(fields, "device") or _text(fields, "client"), _text(fields, "user")
    cells = (
        _time_in(fields, zone),
        _text(fields, "reference"),
        _done(fields),
        f"{user} {client}".strip() or "-",
        "  ".join(filter(None, (_text(fields, "url"), _why(fields)))),
    )
    return [printable(cell) for cell in cells]


def _text(fields: LogFields, name: str) -> str:
    return str(fields.get(name, ""))


def _done(fields: LogFields) -> str:
    return "would block" if fields.get("would_block") else _text(fields, "action")


def _why(fields: LogFields) -> str:
    """The reason, as ``hushlist check`` prints it."""
    if "fault" in fields or "rule" not in fields:
        return _text(fields, "fault") or _text(fields, "reason")
    via = f", {fields['via']}" if "via" in fields else ""
    reason = f": {fields['reason']}" if "reason" in fields else ""
    name = _text(fields, "title") or _text(fields, "list")
    granted = f" (let pass by {fields['grant']})" if "grant" in fields else ""
    return f"{fields.get('expression')} by {name} ({fields['rule']}{via}){reason}{granted}"


def _described(fields: LogFields) -> Iterator[tuple[str, str]]:
    """Names and values, in the order of the record; tags get a line each."""
    for name, value in fields.items():
        if name == "would_block":
            continue
        if name == "tags" and isinstance(value, list):
            yield from (
                ("Tag", "  ".join(map(str, filter(None, tag.values())))) for tag in value if isinstance(tag, dict)
            )
        elif name == "file" and isinstance(value, dict):
            yield "File", "  ".join(" ".join(each) if isinstance(each, list) else str(each) for each in value.values())
        elif name == "action":
            yield "Action", _done(fields)
        else:
            yield "URL" if name == "url" else name.capitalize(), f"{value} µs" if name == "duration" else str(value)
