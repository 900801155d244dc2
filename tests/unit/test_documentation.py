"""The pages of the documentation lead to each other, and the first of them is short."""

from __future__ import annotations

import re
from importlib import import_module
from operator import attrgetter
from pathlib import Path

from documentation import PAGES, ROOT
from unit.rows import each_row

ALL = (
    *PAGES,
    "addon/README.md",
    "addon/readings.md",
    "tests/README.md",
    "tests/bench/README.md",
    "tests/conformance/README.md",
)
_CODE = re.compile(r"^```.*?^```$", re.DOTALL | re.MULTILINE)
_LINK = re.compile(r"\]\(([^)\s]+)\)")
_NO_LETTER = re.compile(r"[^\w\- ]")
_WORDS = {
    2: "two",
    3: "three",
    4: "four",
    5: "five",
    6: "six",
    9: "nine",
    10: "ten",
    20: "twenty",
    30: "thirty",
    100: "hundred",
}
_KIB, _MIB, _GIB, _HOUR, _DAY = 1 << 10, 1 << 20, 1 << 30, 3600, 86400
#: page -> what it promises, with "#" for the number, the constants that keep it, and their unit
PROMISES: dict[str, list[tuple[str, str, int]]] = {
    "SECURITY.md": [
        ("# seconds for an answer at most", "hushlist.extensions.safe_browsing.confirmations:PATIENCE", 1),
        ("an answer at most, # with its turn", "hushlist.extensions.safe_browsing.confirmations:LONGEST_WAIT", 1),
        ("A target of more than # KiB, or headers", "hushlist.core.url.request:LONGEST_TARGET", _KIB),
        ("A target of more than # KiB, or headers", "hushlist.core.url.http_head:LONGEST_HEADERS", _KIB),
        ("sends # KiB of a head", "hushlist.proxy.bounds.bounded_http:MOST_WAITING", _KIB),
        ("# KiB of a ClientHello", "hushlist.proxy.bounds.bounded_names:LONGEST_HELLO", _KIB),
        ("# MiB of a WebSocket's message", "hushlist.proxy.bounds.bounded_websocket:LONGEST_MESSAGE", _MIB),
        ("the last # are kept for", "hushlist.proxy.bounds.bounded_websocket:MOST_MESSAGES", 1),
        ("kept for recordings, or # MiB", "hushlist.proxy.bounds.bounded_websocket:LONGEST_MESSAGE", _MIB),
        ("Of each client, # names are looked up", "hushlist.proxy.connections.name_lookups:MOST_OF_CLIENT", 1),
        ("while # MiB of answers waits", "hushlist.proxy.connections.turns:MOST_UNREAD", _MIB),
        ("Of a body that is not read, # KiB wait", "hushlist.proxy.bounds.back_pressure:MUCH", _KIB),
        ("or HTTP/3, # MiB at most are taken in", "hushlist.proxy.bounds.flow_windows:CLIENT_WINDOW", _MIB),
        ("or # MiB from an origin", "hushlist.proxy.bounds.flow_windows:ORIGIN_WINDOW", _MIB),
        ("is dropped, up to # GiB in a minute", "hushlist.proxy.bounds.flowing_bodies:MOST_DROPPED", _GIB),
        ("names of a DNS message have # KiB", "hushlist.proxy.bounds.bounded_dns:MOST_OF_NAMES", _KIB),
        ("a DNS connection has # questions", "hushlist.proxy.bounds.bounded_dns:MOST_QUESTIONS", 1),
        ("the rest # requests a minute are free", "hushlist.extensions.quotas.quota_meter:MOST_BACKGROUND", 1),
        ("requests for access: # that wait", "hushlist.extensions.unblock.access_requests:MOST_WAITING", 1),
    ],
    "rules/README.md": [
        ("have at most # bytes", "hushlist.core.lists.list_source:LONGEST_LINE", 1),
        ("A YAML file has at most # MiB", "hushlist.core.system.files:LONGEST_DOCUMENT", _MIB),
        ("line by line # GiB", "hushlist.core.system.files:LONGEST_LIST", _GIB),
        ("popular domains # MiB", "hushlist.core.system.files:LONGEST_WHOLE", _MIB),
        ("up to # for each file", "hushlist.core.lists.list_source:MOST_KEPT", 1),
    ],
    "rules/admin.md": [
        ("A session ends after # hours", "hushlist.extensions.dashboard.admin_store:SESSION", _HOUR),
        ("in the last # days", "hushlist.extensions.dashboard.admin_store:DEVICE", _DAY),
        ("# at one name within an hour", "hushlist.extensions.dashboard.admin_store:MOST_TRIES_OF_NAME", 1),
        ("There are # blocks at most", "hushlist.extensions.unblock.grant_rows:MOST_BLOCKS", 1),
        ("the # newest records of the log", "hushlist.extensions.journal.preview:MOST_PREVIEWED", 1),
        ("has the last # records", "hushlist.extensions.dashboard.admin_store:MOST_RECORDED", 1),
        ("at most # KiB: else", "hushlist.extensions.dashboard.api_requests:LONGEST_BODY", _KIB),
    ],
    "rules/commands.md": [
        ("Up to # sites are counted", "hushlist.tools.audit.replay.tally:MOST_NAMES", 1),
        ("for files of at most # MiB", "hushlist.core.system.files:LONGEST_WHOLE", _MIB),
        ("no more than # updates at one time", "hushlist.tools.publish.list_server:MOST_OF_CALLER", 1),
        ("still served for # seconds", "hushlist.proxy.service.graceful_stop:NOTICE", 1),
        ("the rules say of them | # hosts", "hushlist.core.decide.known_hosts:MOST_KNOWN", 1),
        ("were looked for | # names", "hushlist.extensions.adblock.filter_table:MOST_NAMES", 1),
        ("names, # filters", "hushlist.extensions.adblock.filter_table:MOST_KNOWN", 1),
        ("live page | # decisions", "hushlist.proxy.statistics:MOST_RECENT", 1),
        ("list and category | # of each", "hushlist.proxy.statistics:MOST_NAMES", 1),
        ("where it is written | # records", "hushlist.extensions.journal.log_writer:MOST_WAITING", 1),
    ],
    "rules/lists.md": [
        ("A name has at most # characters", "hushlist.core.url.hrn:LONGEST_NAME", 1),
        ("and # levels below the host", "hushlist.core.url.hrn:MOST_LEVELS", 1),
        ("the first # KiB of the content", "hushlist.core.lists.format_detection:HEAD", _KIB),
        ("the server tells, in # minutes", "hushlist.extensions.subscriptions.list_fetch:LONGEST_FETCH", 60),
        ("or with more than # states", "hushlist.extensions.adblock.automaton:MOST_STATES", 1),
        ("people call it, in at most # characters", "hushlist.core.lists.list_source:LONGEST_TITLE", 1),
        ("block page says, in at most # characters", "hushlist.core.lists.list_source:LONGEST_REASON", 1),
        ("once that has a # requests", "hushlist.extensions.subscriptions.logged_visits:FEWEST", 1),
        ("at most # of them, spread evenly", "hushlist.extensions.subscriptions.logged_visits:MOST_RECORDS", 1),
    ],
    "rules/log.md": [
        ("a thread and # records", "hushlist.extensions.journal.log_writer:MOST_WAITING", 1),
    ],
    "rules/fleet.md": [("not done after # seconds counts", "hushlist.extensions.databases.postgres:ANSWER", 1)],
    "rules/network.md": [("is good for # seconds", "hushlist.proxy.connections.dns_queries:TTL", 1)],
    "rules/quotas.md": [
        ("gets at most # requests a minute", "hushlist.extensions.quotas.quota_meter:MOST_BACKGROUND", 1),
        ("When # minutes are left", "hushlist.extensions.quotas.quota_meter:WARNING_LEFT", 1),
        ("The store keeps, for # days", "hushlist.extensions.quotas.use_minutes:KEPT", 1440),
    ],
    "rules/safe-browsing.md": [
        ("At most # prefixes and", "hushlist.extensions.safe_browsing.confirmations:MOST_PREFIXES", 1),
        ("prefixes and # hashes are", "hushlist.extensions.safe_browsing.confirmations:MOST_HASHES", 1),
        ("answered after # seconds", "hushlist.extensions.safe_browsing.confirmations:PATIENCE", 1),
        ("A question has up to # prefixes", "hushlist.extensions.safe_browsing.confirmations:MOST_ASKED", 1),
        ("asks for beyond # prefixes", "hushlist.extensions.safe_browsing.confirmations:MOST_OF_CLIENT", 1),
        ("no turn within # seconds", "hushlist.extensions.safe_browsing.confirmations:LONGEST_WAIT", 1),
    ],
    "rules/unblocking.md": [
        ("# wrong tries within a quarter", "hushlist.extensions.unblock.wrong_tries:MOST_TRIES", 1),
        (
            "A # within an hour lock everybody from trying a passphrase",
            "hushlist.extensions.unblock.wrong_tries:MOST_TRIES_OF_ALL",
            1,
        ),
        ("up to # day.", "hushlist.extensions.unblock.wrong_tries:DAY", _DAY),
        ("A client has # that wait", "hushlist.extensions.unblock.access_requests:MOST_WAITING_OF_CLIENT", 1),
        ("and makes # a day", "hushlist.extensions.unblock.access_requests:MOST_OF_CLIENT", 1),
        ("a day at most, # wait in all", "hushlist.extensions.unblock.access_requests:MOST_WAITING", 1),
        ("the same host for # hour.", "hushlist.extensions.unblock.access_requests:REST", _HOUR),
        ("are kept for # week", "hushlist.extensions.unblock.access_requests:KEPT", 7 * _DAY),
        ("A URL of more than # characters", "hushlist.extensions.unblock.grants:LONGEST_TARGET", 1),
        ("has # seconds |", "hushlist.extensions.notify.delivery:PATIENCE", 1),
        ("At most # notices go out", "hushlist.extensions.notify.notifier:MOST_NOTICES", 1),
        ("and # that one client has caused", "hushlist.extensions.notify.notifier:MOST_OF_CLIENT", 1),
    ],
}


def text_of(page: Path) -> str:
    """A page without its blocks of code."""
    return _CODE.sub("", page.read_text(encoding="utf-8"))


def anchors(page: Path) -> set[str]:
    """What a link may name in a page: its headings, as sites that show Markdown write them."""
    headings = re.findall(r"^#+ (.*)$", text_of(page), re.MULTILINE)
    return {_NO_LETTER.sub("", heading.strip().lower()).replace(" ", "-") for heading in headings}


@each_row("page", ALL)
def test_every_link_leads_somewhere(page: str) -> None:
    dead = []
    for link in _LINK.findall(text_of(ROOT / page)):
        file, _, anchor = link.partition("#")
        target = (ROOT / page).parent / file if file else ROOT / page
        if not link.startswith("https://") and not (target.exists() and (not anchor or anchor in anchors(target))):
            dead.append(link)
    assert dead == []


def test_the_front_door_is_short() -> None:
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 200


def test_the_front_door_says_what_the_filter_cannot_see() -> None:
    page = text_of(ROOT / "README.md")
    for words in ("only what goes through the proxy", "does not look into pages", "Hashes hide a list"):
        assert words in page


def promised(promise: str, number: float) -> list[str]:
    """A promise with its number: in digits, or as a word."""
    ways = [f"{number:,.0f}", _WORDS.get(int(number), ""), *(("a", "an") if number == 1 else ())]
    return [promise.replace("#", way) for way in ways if way and number == int(number)]


@each_row("page", PROMISES)
def test_every_bound_is_as_promised(page: str) -> None:
    text, broken = " ".join((ROOT / page).read_text(encoding="utf-8").lower().split()), []
    for promise, place, unit in PROMISES[page]:
        module, _, name = place.partition(":")
        number = attrgetter(name)(import_module(module)) / unit
        if not any(way.lower() in text for way in promised(promise, number)):
            broken.append((promise, place, number))
    assert broken == []
