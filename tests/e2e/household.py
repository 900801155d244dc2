"""A family whose proxy has run for weeks: two children, a log of thousands of decisions, and somebody who signs in."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from http.client import HTTPConnection
from pathlib import Path
from time import time

from e2e.origin import LOOPBACK, Origin
from e2e.policies import stored, write_list
from e2e.proxy import PATIENCE, Proxy, mitmdump
from hushlist.extensions.journal.log_database import Database
from hushlist.extensions.journal.log_entry import entry_of_fields
from hushlist.extensions.journal.log_identifiers import References
from hushlist.extensions.journal.log_keys import LogSettings
from hushlist.extensions.journal.log_record import time_text
from hushlist.extensions.journal.request_counts import QUARTER

PASSPHRASE = "correct horse battery staple"
#: whatever stands in it must stay text
SCRIPT = "<img src=x onerror=document.title='owned'>"
CHILDREN = {"Mia": "127.0.0.2", "Leo": "127.0.0.3"}
ADS, GAMES = "hrn://lists.example/advertising", "hrn://lists.example/online-games"
_SITES = {
    "block": (("pixel.ads.test", ADS, "Advertising"), ("www.games.test", GAMES, "Games"), ("chat.test", None, None)),
    "warn": (("shop.test", None, None),),
    "pass": (("school.test", None, None), ("wiki.test", None, None), ("news.test", None, None)),
    "tag": (("video.test", "hrn://lists.example/video", "Video"),),
}
_POLICY = """
timezone: UTC
log: {folder: log, what: all}
unblock: {ask: on, codes: on}
admin:
  - {name: anna, passphrase: '%(passphrase)s', role: manage}
  - {name: vera, passphrase: '%(passphrase)s', role: view}
  - {name: tina, passphrase: '%(passphrase)s', role: manage, groups: [Mia]}
  - {name: theo, passphrase: '%(passphrase)s', role: manage, groups: [Mia, Leo]}
devices: [{name: Leo's phone, addresses: [127.0.0.3]}]
notify: [{name: phone, command: [/bin/true]}]
alerts: [{name: gaming, when: {category: 'hrn://lists.example/online-games'}}]
schedules: {bedtime: {times: 20:00-07:00}}
groups:
  - name: Mia
    clients: [127.0.0.2]
    default: {action: block, during: bedtime, otherwise: pass}
    quotas: {'hrn://lists.example/video': {minutes: 60}}
    categories: {'hrn://lists.example/online-games': block}
  - name: Leo
    clients: [127.0.0.3]
categories: {'hrn://lists.example/video': tag}
layers:
  - {name: overrides, lists: [own.yaml]}
  - name: lists
    lists: [ads.yaml, games.yaml, video.yaml]
"""


def fill_log(folder: Path, decisions: int = 3000, days: int = 7) -> None:
    """Write a log of some days, the same each time but for when it is."""
    chosen, references, now = random.Random(1), References(), time()
    database, entries, counts = Database(folder, LogSettings()), [], Counter[tuple[int, str, str, str, str]]()
    for moment in sorted(now - days * 86400 * chosen.random() ** 1.6 for _ in range(decisions)):
        action = chosen.choices(list(_SITES), (3, 1, 12, 2))[0]
        host, category, title = chosen.choice(_SITES[action])
        group, client = chosen.choice([*CHILDREN.items(), ("default", "127.0.0.9")])
        fields = {
            "reference": references.make(moment),
            "time": time_text(moment),
            "client": client,
            "group": group,
            "method": "GET",
            "url": f"http://{host}/{chosen.randrange(99)}",
            "action": action,
            "layer": "lists" if title else None,
            "category": category,
            "list": title and title.lower(),
            "title": title,
            "rule": title and f"{title.lower()}:1",
            "expression": f"{host}/" if action != "pass" else None,
        }
        kept: dict[str, object] = {name: value for name, value in fields.items() if value is not None}
        entries.append(entry_of_fields(kept))
        counts[int(moment) // QUARTER, client, "", group, action] += 1
    database.append(entries, now)
    database.count(counts)
    database.close()


def write_household(folder: Path) -> Path:
    """The family's policy, lists and log."""
    write_list(folder / "own.yaml", "chat.test/")
    write_list(folder / "ads.yaml", "ads.test/", title="Advertising", category=ADS, reason="No advertising")
    write_list(folder / "games.yaml", "games.test/", title=f"Games {SCRIPT}", category=GAMES)
    write_list(folder / "video.yaml", "video.test/", title="Video", category="hrn://lists.example/video")
    (folder / "policy.yaml").write_text(_POLICY % {"passphrase": stored(PASSPHRASE)})
    fill_log(folder / "log")
    return folder / "policy.yaml"


@contextmanager
def household(folder: Path, mitmproxy: Path, origin: Origin) -> Iterator[Proxy]:
    with mitmdump(mitmproxy, origin, policy=write_household(folder)) as running:
        yield running


def get_as(proxy: Proxy, child: str, url: str) -> tuple[int, str]:
    """What a child's device gets: status and body."""
    connection = HTTPConnection(LOOPBACK, proxy.port, PATIENCE, source_address=(CHILDREN[child], 0))
    with closing(connection):
        connection.request("GET", url)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
