"""What each example does for whom and when, as its README says: the tables that the tests go by."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple
from zoneinfo import ZoneInfo

#: the port of the school's exam room
EXAM_PORT = 8082


class Role(NamedTuple):
    """Who asks."""

    address: str
    user: str | None = None
    port: int | None = None


ROLES = {
    "family": {
        "anna": Role("192.168.1.10"),
        "tom at the shared computer": Role("192.168.1.30", "tom"),
        "leo": Role("192.168.1.21"),
        "leo at the shared computer": Role("192.168.1.30", "leo"),
        "mia": Role("192.168.1.22"),
        "television": Role("192.168.1.40"),
    },
    "school": {
        "pupil": Role("10.20.3.4", "pupil7"),
        "own device": Role("10.30.3.4", "pupil7"),
        "teacher": Role("10.30.5.6", "berg"),
        "teacher in a computer room": Role("10.20.3.4", "yilmaz"),
        "exam": Role("10.20.9.1", "pupil7", EXAM_PORT),
        "teacher in the exam room": Role("10.20.9.2", "nowak", EXAM_PORT),
        "stranger": Role("10.99.1.1", "pupil7"),
    },
    "company": {
        "staff": Role("10.1.2.3"),
        "server": Role("10.1.8.9"),
        "guest": Role("192.168.77.5"),
        "pilot": Role("10.1.99.5"),
        "security": Role("10.1.2.4", "okafor"),
    },
}

ZONES = {"family": ZoneInfo("Europe/Berlin"), "school": ZoneInfo("Europe/Berlin"), "company": ZoneInfo("Europe/London")}

# moment | who | URL | action | the category's last name | until, by the clock on the wall
TABLES = {
    "family": """
        # Monday afternoon: homework from 14:30 to 16:30
        2026-11-16T14:29 | mia        | games.example                | pass  |         |
        2026-11-16T14:30 | mia        | games.example                | block | games   | 2026-11-16T16:30
        2026-11-16T14:30 | mia        | portal.example/play/7        | block | games   | 2026-11-16T16:30
        2026-11-16T15:00 | mia        | games.example/chess/         | allow |         |
        2026-11-16T16:30 | mia        | games.example                | pass  |         |
        2026-11-16T15:00 | leo        | games.example                | block | games   | 2026-11-16T16:30
        2026-11-16T15:00 | leo        | social.example               | block | social  | 2026-11-16T16:30
        2026-11-16T17:00 | leo        | social.example               | pass  |         |
        2026-11-16T17:00 | mia        | social.example               | block | social  |
        2026-11-16T15:00 | television | games.example                | block | games   | 2026-11-16T16:30
        2026-11-16T15:00 | anna       | games.example                | pass  |         |
        2026-11-16T15:00 | leo at the shared computer | social.example | block | social | 2026-11-16T16:30
        2026-11-16T15:00 | tom at the shared computer | social.example | pass  |       |
        # Friday has no homework, nor has Christmas
        2026-11-20T15:00 | mia        | games.example                | pass  |         |
        2026-12-22T15:00 | leo        | games.example                | pass  |         |
        2026-12-24T15:00 | mia        | games.example                | pass  |         |
        2027-01-04T15:00 | mia        | games.example                | block | games   | 2027-01-04T16:30
        # bedtime, before school and on weekends
        2026-11-16T19:59 | mia        | knowledge.example            | pass  |         |
        2026-11-16T20:00 | mia        | knowledge.example            | block |         | 2026-11-17T06:30
        2026-11-17T06:29 | mia        | knowledge.example            | block |         | 2026-11-17T06:30
        2026-11-17T06:30 | mia        | knowledge.example            | pass  |         |
        2026-11-16T23:00 | mia        | stories.example              | allow |         |
        2026-11-17T03:00 | television | updates.example/tv           | allow |         |
        2026-11-16T21:59 | leo        | knowledge.example            | pass  |         |
        2026-11-16T22:00 | leo        | knowledge.example            | block |         | 2026-11-17T06:30
        2026-11-16T23:00 | leo at the shared computer | knowledge.example | block | | 2026-11-17T06:30
        2026-11-17T02:00 | anna       | knowledge.example            | pass  |         |
        2026-11-17T02:00 | tom at the shared computer | knowledge.example | pass |  |
        2026-11-20T21:00 | mia        | knowledge.example            | pass  |         |
        2026-11-20T21:30 | mia        | knowledge.example            | block |         | 2026-11-21T07:30
        2026-11-21T07:00 | mia        | knowledge.example            | block |         | 2026-11-21T07:30
        2026-11-21T07:00 | leo        | knowledge.example            | block |         | 2026-11-21T08:00
        2026-11-22T20:00 | mia        | knowledge.example            | block |         | 2026-11-23T06:30
        # holidays: every evening is like a weekend's, but the last
        2026-12-22T21:00 | mia        | knowledge.example            | pass  |         |
        2026-12-24T23:00 | leo        | knowledge.example            | pass  |         |
        2026-12-24T23:45 | leo        | knowledge.example            | block |         | 2026-12-25T08:00
        2027-01-03T20:00 | mia        | knowledge.example            | block |         | 2027-01-04T06:30
        # the clock is put back in the night to 2026-10-25, forward in that to 2027-03-28
        2026-10-25T02:30 | mia        | knowledge.example            | block |         | 2026-10-25T07:30
        2026-10-25T06:45+01:00 | mia  | knowledge.example            | block |         | 2026-10-25T07:30
        2026-10-25T06:30+00:00 | mia  | knowledge.example            | pass  |         |
        2027-03-28T05:29+00:00 | mia  | knowledge.example            | block |         | 2027-03-28T07:30
        2027-03-28T05:30+00:00 | mia  | knowledge.example            | pass  |         |
        # at all times
        2026-11-16T17:00 | mia        | shop.example/bikes           | warn  | shops   | 2026-11-16T20:00
        2026-11-16T17:00 | leo        | shop.example                 | warn  | shops   | 2026-11-16T22:00
        2026-11-16T21:00 | mia        | shop.example                 | block | shops   | 2026-11-17T06:30
        2026-11-16T21:00 | anna       | shop.example                 | pass  |         |
        2026-11-16T17:00 | mia        | adult.example/x              | block | adult   |
        2026-11-16T17:00 | leo        | www.horror.example/movies/7  | block | adult   |
        2026-11-16T17:00 | leo        | horror.example/books/        | pass  |         |
        2026-11-16T17:00 | mia        | casino.example               | block | gambling |
        2026-11-16T17:00 | anna       | casino.example               | pass  |         |
        2026-11-16T17:00 | mia        | news.example/banners/1       | block | ads     |
        2026-11-16T17:00 | mia        | news.example/today           | pass  |         |
        2026-11-16T17:00 | leo        | ads.example                  | pass  |         |
        2026-11-16T17:00 | mia        | chat.example/strangers/7     | block | chat    |
        2026-11-16T17:00 | mia        | malware.example              | block | malware |
        2026-11-16T17:00 | anna       | malware.example              | block | malware |
        2026-11-16T17:00 | tom at the shared computer | www.malware.example | block | malware |
        2026-11-16T17:00 | anna       | bank.example.phishing.example/login | block | phishing |
    """,
    "school": """
        # Monday: lessons until 15:30 with breaks between them
        2026-11-16T07:59 | pupil      | football.example             | pass  |         |
        2026-11-16T08:00 | pupil      | football.example             | block | distraction | 2026-11-16T09:30
        2026-11-16T09:30 | pupil      | football.example             | pass  |         |
        2026-11-16T09:49 | own device | music.example/charts/        | pass  |         |
        2026-11-16T09:50 | own device | music.example/charts/        | block | distraction | 2026-11-16T11:20
        2026-11-16T10:00 | own device | music.example/theory/        | pass  |         |
        2026-11-16T10:00 | teacher    | football.example             | pass  |         |
        2026-11-16T15:29 | pupil      | football.example             | block | distraction | 2026-11-16T15:30
        2026-11-16T15:30 | pupil      | football.example             | pass  |         |
        # Friday ends at 13:10; Saturday and holidays have no lessons
        2026-11-20T13:09 | pupil      | football.example             | block | distraction | 2026-11-20T13:10
        2026-11-20T13:10 | pupil      | football.example             | pass  |         |
        2026-11-21T10:00 | pupil      | football.example             | pass  |         |
        2026-12-23T10:00 | pupil      | football.example             | pass  |         |
        2027-05-17T10:00 | pupil      | football.example             | pass  |         |
        # the Mondays after the clock is put: 08:00 in Berlin is 06:00 UTC in summer, 07:00 in winter
        2026-10-16T06:00+00:00 | pupil | football.example            | block | distraction | 2026-10-16T09:30
        2026-11-02T06:00+00:00 | pupil | football.example            | pass  |         |
        2026-11-02T07:00+00:00 | pupil | football.example            | block | distraction | 2026-11-02T09:30
        2027-03-19T06:59+00:00 | pupil | football.example            | pass  |         |
        2027-04-05T06:00+00:00 | pupil | football.example            | block | distraction | 2027-04-05T09:30
        # social networks, with video below them, and education below that
        2026-11-16T08:30 | pupil      | social.example/wall          | block | social  | 2026-11-16T09:30
        2026-11-16T08:30 | pupil      | portal.example/groups/9      | block | social  | 2026-11-16T09:30
        2026-11-16T09:35 | pupil      | social.example/wall          | warn  | social  | 2026-11-16T09:50
        2026-11-16T09:35 | own device | social.example/wall          | pass  |         |
        2026-11-16T08:30 | pupil      | video.example/cats           | block | video   | 2026-11-16T09:30
        2026-11-16T09:35 | pupil      | video.example/cats           | warn  | video   | 2026-11-16T09:50
        2026-11-16T08:30 | pupil      | video.example/physics-lessons/1 | allow | education |
        2026-11-16T08:30 | own device | video.example/school-channel/ | allow | education |
        2026-11-16T08:30 | teacher    | social.example/wall          | pass  |         |
        2026-11-16T08:30 | teacher    | video.example/cats           | pass  |         |
        2026-11-16T08:30 | teacher in a computer room | clips.example | pass  |        |
        2026-11-16T08:30 | stranger   | social.example               | block | social  |
        2026-11-21T12:00 | stranger   | video.example/cats           | block | video   |
        2026-11-16T08:30 | stranger   | video.example/physics-lessons/1 | allow | education |
        # the rest
        2026-11-16T09:35 | pupil      | games.example                | block | games   |
        2026-11-16T09:35 | pupil      | portal.example/play/1        | block | games   |
        2026-11-16T09:35 | teacher    | games.example                | warn  | games   |
        2026-11-16T09:35 | pupil      | games.example/theatre-project/ | allow |       |
        2027-08-01T12:00 | pupil      | games.example/theatre-project/ | block | games |
        2026-11-16T09:35 | teacher    | adult.example                | block | adult   |
        2026-11-16T09:35 | pupil      | answers.example              | block | cheating |
        2026-11-16T09:35 | pupil      | dns.google/dns-query         | block | doh     |
        2026-11-16T09:35 | teacher    | mozilla.cloudflare-dns.com   | block | doh     |
        2026-11-16T09:35 | own device | 9.9.9.9                      | block | doh     |
        2026-11-16T09:35 | stranger   | mask.icloud.com              | block | relay   |
        2026-11-16T09:35 | stranger   | _dns.resolver.arpa           | block | canary  |
        2026-11-16T09:35 | pupil      | resolver.example/q?dns=AAABAAABAAAAAAAAA3d3dwdleGFtcGxlA2NvbQAAAQAB | block | |
        2026-11-16T09:35 | pupil      | library.example              | allow |         |
        # exams: whoever asks there
        2026-11-16T09:35 | exam       | exam.example/1               | allow |         |
        2026-11-16T09:35 | exam       | dictionary.example/en-de/dog | allow |         |
        2026-11-16T09:35 | exam       | dictionary.example/en-fr/dog | block |         |
        2026-11-16T09:35 | exam       | library.example              | block |         |
        2026-11-16T09:35 | exam       | knowledge.example            | block |         |
        2026-11-21T23:00 | exam       | knowledge.example            | block |         |
        2026-11-16T09:35 | teacher in the exam room | social.example | block |         |
    """,
    "company": """
        # private mail, in office hours of London
        2026-11-16T08:29 | staff    | mail.example/inbox           | pass  |         |
        2026-11-16T08:30 | staff    | mail.example/inbox           | warn  | private mail | 2026-11-16T12:30
        2026-11-16T13:00 | staff    | mail.example/inbox           | pass  |         |
        2026-11-16T17:29 | staff    | webmail.example              | warn  | private mail | 2026-11-16T17:30
        2026-11-16T17:30 | staff    | webmail.example              | pass  |         |
        2026-12-28T10:00 | staff    | mail.example                 | pass  |         |
        2026-12-29T10:00 | staff    | mail.example                 | warn  | private mail | 2026-12-29T12:30
        2027-03-26T08:45+00:00 | staff | mail.example              | pass  |         |
        2027-03-30T07:30+00:00 | staff | mail.example              | warn  | private mail | 2027-03-30T12:30
        2026-10-26T08:29+00:00 | staff | mail.example              | pass  |         |
        2026-10-26T08:30+00:00 | staff | mail.example              | warn  | private mail | 2026-10-26T12:30
        2026-11-16T10:00 | guest    | mail.example                 | pass  |         |
        2026-11-16T10:00 | server   | mail.example                 | block |         |
        2026-11-16T10:00 | security | mail.example                 | pass  |         |
        # malware, for everybody
        2026-11-16T10:00 | staff    | www.malware.example          | block | malware |
        2026-11-16T10:00 | guest    | malware.example              | block | malware |
        2026-11-16T10:00 | server   | malware.example              | block | malware |
        2026-11-16T10:00 | security | malware.example              | warn  | malware |
        2026-11-16T10:00 | staff    | 203.0.113.70/gate            | block | botnets |
        2026-11-16T10:00 | guest    | 198.51.100.7                 | block | botnets |
        2026-11-16T10:00 | security | 203.0.113.70                 | warn  | botnets |
        2026-11-16T10:00 | staff    | login.phishing.example/bank  | block | phishing |
        2026-11-16T10:00 | staff    | www.secret.example           | block | known bad |
        2026-11-16T10:00 | staff    | ransom.example/pay/now       | block | known bad |
        2026-11-16T10:00 | staff    | ransom.example/about         | pass  |         |
        # the administrators' own rules
        2026-11-16T10:00 | staff    | partner.example              | allow |         |
        2026-11-16T10:00 | guest    | partner.example              | block | malware |
        2026-11-16T10:00 | staff    | secret.example/audit/        | allow |         |
        2026-11-16T10:00 | staff    | casino.example/careers/      | allow |         |
        2026-11-16T10:00 | staff    | competitor.example/leaks/1   | block |         |
        # conduct
        2026-11-16T10:00 | staff    | casino.example               | block | gambling |
        2026-11-16T10:00 | guest    | casino.example               | block | gambling |
        2026-11-16T10:00 | security | casino.example               | pass  |         |
        2026-11-16T10:00 | staff    | tracker.example              | block | trackers |
        2026-11-16T10:00 | staff    | tv.example                   | tag   | streaming |
        2026-11-16T10:00 | guest    | tv.example                   | pass  |         |
        2026-11-16T10:00 | staff    | portal.example/drop/file     | tag   | file sharing |
        # the dry run: what would be blocked passes
        2026-11-16T10:00 | pilot    | tv.example                   | block | streaming |
        2026-11-16T10:00 | pilot    | malware.example              | block | malware |
        2026-11-16T10:00 | pilot    | mail.example                 | warn  | private mail | 2026-11-16T12:30
        # servers, day and night
        2026-11-16T03:00 | server   | updates.example/pool         | allow |         |
        2026-11-16T03:00 | server   | packages.example/stable/x    | allow |         |
        2026-11-16T03:00 | server   | packages.example/testing/x   | block |         |
        2026-11-16T03:00 | server   | partner.example/api          | allow |         |
        2026-11-16T03:00 | server   | knowledge.example            | block |         |
    """,
}


class Row(NamedTuple):
    """A line of a table."""

    example: str
    at: str
    who: str
    url: str
    action: str
    category: str
    until: str

    def __str__(self) -> str:
        return f"{self.example}-{self.at}-{self.who}-{self.url}"

    @property
    def role(self) -> Role:
        return ROLES[self.example][self.who]


def _rows() -> Iterator[Row]:
    for example, table in TABLES.items():
        for line in table.splitlines():
            if line.strip() and not line.strip().startswith("#"):
                cells = [cell.strip() for cell in line.split("|")]
                yield Row(example, *cells, *[""] * (6 - len(cells)))


ROWS = list(_rows())
