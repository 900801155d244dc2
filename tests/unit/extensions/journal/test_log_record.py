"""Records: what a line says, and what it never says; references and pseudonyms."""

from __future__ import annotations

import json
import re
import stat
from pathlib import Path
from weakref import ref

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hushlist.core.decide import decision
from hushlist.core.decide.decision import Decision, LogRecord
from hushlist.core.match.rule import Action
from hushlist.core.url.request import Request
from hushlist.core.url.request import canonical_url as request_canonical_url
from hushlist.extensions.journal import log_record
from hushlist.extensions.journal.log_entry import MOST_SHOWN, NULL, entry_of, fields_of, line_of, row_of
from hushlist.extensions.journal.log_identifiers import (
    References,
    base32,
    keep_key,
    parse_reference,
    pseudonyms,
    read_key,
)
from hushlist.extensions.journal.log_keys import LoggedClients, LoggedQueries, LoggedRequests
from hushlist.extensions.journal.log_record import Privacy, is_wanted, to_line, url_of
from hushlist.extensions.searches.hidden import HiddenSearches
from unit.extensions.journal.samples import EVE, decided, record
from unit.hostile import octets, urls
from unit.rows import each_row

KEPT = Privacy()


def test_a_record_says_what_was_decided_of_whom_and_why() -> None:
    made = LogRecord(
        decision=decided("http://ME:pw@ads.Example/x?q"),
        reference="003F8KQ71Z",
        moment=EVE,
        client="::ffff:10.0.0.7",
        user="pupil7",
        group="pupils",
        method="GET",
        would_block=True,
        duration=12,
    )
    assert fields_of(made, KEPT) == {
        "reference": "003F8KQ71Z",
        "time": "2026-12-24T22:30:00.250Z",
        "client": "10.0.0.7",
        "user": "pupil7",
        "group": "pupils",
        "method": "GET",
        "url": "http://ads.example/x?q",
        "action": "block",
        "would_block": True,
        "layer": "first",
        "category": "hrn://c.example/ads/video",
        "list": "hrn://l.example/ads",
        "title": "Ads",
        "rule": "first.yaml:4",
        "expression": "ads.example/",
        "reason": "No ads",
        "duration": 12,
    }


def test_tags_and_faults_are_recorded() -> None:
    tagged = fields_of(record("http://tagged.example/"), KEPT)
    assert (tagged["action"], tagged["tags"]) == (
        "tag",
        [{"list": "hrn://l.example/ads", "category": "hrn://c.example/adsless"}],
    )
    assert fields_of(record("http://a%2fb/"), KEPT)["fault"] == "there is a delimiter in the host"


TEXTS = st.text(st.characters(), max_size=20)  # surrogates, too


@given(urls(), TEXTS, TEXTS, TEXTS)
def test_a_record_is_one_line_of_visible_ascii_whatever_the_request_has(
    url: bytes, user: str, client: str, grant: str
) -> None:
    entry = entry_of(record(url, user=user, client=client, grant=grant), KEPT)
    assert re.fullmatch(rb"[ -~]+\n", line_of(entry))
    fields = json.loads(line_of(entry))
    assert row_of(fields, to_line(fields), nothing=NULL) == entry


@given(st.text("abcXYZ019:/?#\\%. ", min_size=1, max_size=12), octets())
def test_no_password_is_ever_recorded(noise: str, rest: bytes) -> None:
    for form in (b"http://%b:s3cr3t%b@h.example/%b", b"http://%b%%40s3cr3t%b@h.example:x/%b", b"//%bs3cr3t%b@h[/%b"):
        url = form % (noise.replace("%", "").encode(), noise.encode(), rest.replace(b"@", b""))
        decision = decided(url)
        if decision.fault is None and b"s3cr3t" in decision.url:
            continue  # a slash ends the authority: for a browser this is a host and a path
        assert b"s3cr3t" not in to_line(fields_of(record(url), KEPT))


@each_row(
    ("url", "shown"),
    [
        (b"http://me:pw@h.example/", "http://h.example/"),
        (b"http://h.example/?u=http://me:p@w@other.example/@x", "http://h.example/?u=http://other.example/@x"),
        (b"http://me:p/w@h:x/a", "http://h:x/a"),
        (b"me:pw@", ""),
        (b"http://me:pw%40a%2fb/", "http://a%2fb/"),
        (b"http://me:pw%2540a%2fb/", "http://a%2fb/"),
        (b"http://a%2fb/\xff", "http://a%2fb/\\xff"),
    ],
)
def test_user_information_is_cut_off(url: bytes, shown: str) -> None:
    assert url_of(decided(url)) == shown
    assert url_of(Decision(Action.BLOCK, url, fault="no policy")) == shown


def test_without_a_policy_a_good_url_is_recorded_whole() -> None:
    request = Request(b"https", (b"h.example",), 443, b"/@scope/name")
    assert url_of(Decision(Action.BLOCK, request.url, fault="no policy")) == "https://h.example/@scope/name"


@pytest.mark.parametrize(
    ("url", "shown", "expression"),
    [
        ("http://find.example/s?q=x", "http://find.example/s", "find.example/s"),
        ("http://ads.example/a?b?c", "http://ads.example/a", "ads.example/"),
    ],
)
def test_queries_are_dropped_by_choice(url: str, shown: str, expression: str) -> None:
    fields = fields_of(record(url), Privacy(queries=LoggedQueries.DROP))
    assert (fields["url"], fields["expression"]) == (shown, expression)


@each_row(
    ("target", "kept", "dropped"),
    [
        (b"/%7Ex?q", "http://H.example:81/%7Ex?q", "http://H.example:81/%7Ex"),
        (b"/x%3Fq", "http://H.example:81/x%3Fq", None),
        (b"/x%253Fq?q", "http://H.example:81/x%253Fq?q", None),
        (b"/x%%323q", "http://H.example:81/x%%323q", None),
        (b"/\xc3\xa9", "http://H.example:81/\\xc3\\xa9", "http://H.example:81/\\xc3\\xa9"),
        (b"/" + 5000 * b"a", "http://H.example:81/" + (MOST_SHOWN - 20) * "a" + "...", None),
    ],
)
def test_the_original_form_is_kept_as_the_settings_say(target: bytes, kept: str, dropped: str | None) -> None:
    request = Request(b"http", (b"H.example",), 81, target)
    made = LogRecord("", EVE, Decision(Action.BLOCK, request=request), request=request)
    assert fields_of(made, KEPT)["original"] == kept
    if len(target) < MOST_SHOWN:
        assert fields_of(made, Privacy(queries=LoggedQueries.DROP)).get("original") == dropped


@pytest.mark.parametrize("queries", LoggedQueries)
def test_the_canonical_url_of_a_record_is_made_once(queries: LoggedQueries, monkeypatch: pytest.MonkeyPatch) -> None:
    """It takes as long as half of all else of a record; the original is compared with it."""
    request, made = Request(b"http", (b"h.example",), 80, b"/a%2db?q=%2d"), list[object]()

    def canonical_url(request: Request | bytes) -> bytes:
        made.append(request)
        return request_canonical_url(request)

    for module in (decision, log_record):
        monkeypatch.setattr(module, "canonical_url", canonical_url)
    fields = fields_of(LogRecord("", EVE, Decision(Action.PASS, request=request), request=request), Privacy(queries))
    assert ("original" in fields, made) == (True, [request])


def test_what_was_sent_in_canonical_form_is_written_once() -> None:
    request = Request(b"http", (b"h.example",), 80, b"/x")
    assert "original" not in fields_of(
        LogRecord("", EVE, Decision(Action.BLOCK, request=request), request=request), KEPT
    )
    asked = Request(b"http", (b"h.example",), 80, b"/x?" + 70 * b"q")
    dropped = fields_of(
        LogRecord("", EVE, Decision(Action.BLOCK, request=asked), request=asked), Privacy(LoggedQueries.DROP)
    )
    assert "original" not in dropped


def test_clients_are_dropped_or_get_pseudonyms_by_choice() -> None:
    one = record(user="pupil7")
    assert not {"client", "user"} & set(fields_of(one, Privacy(clients=LoggedClients.DROP)))
    fields = fields_of(one, Privacy(clients=LoggedClients.PSEUDONYM, pseudonym=pseudonyms(bytes(32))))
    assert fields["client"] == "client-EKMX5MBZ"
    assert re.fullmatch("user-[0-9A-Z]{8}", str(fields["user"]))


def test_a_pseudonym_depends_on_name_kind_and_key() -> None:
    make = pseudonyms(bytes(32))
    assert make("client", "a") == make("client", "a")
    others = {make("client", "b"), make("user", "a"), pseudonyms(b"x" * 32)("client", "a")}
    assert make("client", "a") not in others
    assert len(others) == 3


def test_the_key_is_made_once_and_private(tmp_path: Path) -> None:
    state = tmp_path / "state"
    assert read_key(state) is None
    key = keep_key(state)
    assert keep_key(state) == read_key(state) == key
    (file,) = state.iterdir()
    assert [stat.S_IMODE(path.stat().st_mode) for path in (state, file)] == [0o700, 0o600]


def test_a_damaged_key_is_no_key(tmp_path: Path) -> None:
    keep_key(tmp_path)
    (tmp_path / "pseudonyms.key").write_bytes(b"short")
    with pytest.raises(ValueError, match="5 octets instead of 32"):
        keep_key(tmp_path)


PASSES, TAGS, BLOCKS = "http://pass.example/", "http://tagged.example/", "http://ads.example/"


@each_row(
    ("what", "made", "wanted"),
    [
        (LoggedRequests.BLOCKED, record(BLOCKS), True),
        (LoggedRequests.BLOCKED, record(BLOCKS)._replace(decision=Decision(Action.WARN)), True),
        (LoggedRequests.BLOCKED, record(TAGS), False),
        (LoggedRequests.BLOCKED, record("http://ads.example/ok"), False),
        (LoggedRequests.BLOCKED, record(PASSES, grant="7"), True),
        (LoggedRequests.BLOCKED, record(PASSES, would_block=True), True),
        (LoggedRequests.NOTED, record(TAGS), True),
        (LoggedRequests.NOTED, record("http://ads.example/ok"), True),
        (LoggedRequests.NOTED, record("http://a%2fb/"), True),
        (LoggedRequests.NOTED, record(PASSES), False),
        (LoggedRequests.ALL, record(PASSES), True),
    ],
)
def test_what_is_logged(what: LoggedRequests, made: LogRecord, wanted: bool) -> None:
    assert is_wanted(made, what) is wanted


# -- references --------------------------------------------------------------------------------------------------------


def test_references_are_different_and_sorted_by_time() -> None:
    references = References()
    made = [references.make(EVE + number / 1000) for number in range(5000)]
    assert made == sorted(set(made))
    assert all(parse_reference(reference) == reference for reference in made)


def test_references_go_on_from_a_clock_that_is_set_back_by_less_than_a_day() -> None:
    references = References()
    last = references.make(EVE)
    assert last < (near := references.make(EVE - 86_000)) < (other := references.make(EVE - 86_000))
    assert other[:6] == near[:6] == last[:6]


def test_a_clock_that_was_far_ahead_spoils_no_later_reference() -> None:
    references = References()
    assert references.make(1e10) == "Z" * 10
    assert [references.make(moment)[:6] for moment in (EVE, EVE + 1)] == [
        References().make(moment)[:6] for moment in (EVE, EVE + 1)
    ]


@given(st.integers(0, (1 << 50) - 1))
def test_a_reference_is_heard_as_it_was_said(number: int) -> None:
    reference = base32(number, 10)
    said = reference.lower().replace("0", "o").replace("1", "l")
    assert parse_reference(f" {said[:5]}-{said[5:]} ") == reference


@each_row("text", ["", "7K3M9QX2A", "7K3M9QX2ABC", "7K3M9QX2AU", "7K3M9QX2A\n", "７K3M9QX2AB", "../../../.."])
def test_what_is_no_reference_is_none(text: str) -> None:
    assert parse_reference(text) is None


@pytest.mark.parametrize(("length", "is_cut"), [(MOST_SHOWN, False), (MOST_SHOWN + 1, True)])
def test_a_text_may_be_so_long(length: int, is_cut: bool) -> None:
    url = "http://ads.example/".ljust(length, "x")
    assert str(fields_of(record(url), KEPT)["url"]) == (url[:MOST_SHOWN] + "..." if is_cut else url)


def test_a_key_that_vanishes_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.link", lambda *_: None)
    with pytest.raises(FileNotFoundError, match=r"it vanished$"):
        keep_key(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_what_hides_the_searches_of_a_policy_goes_with_it() -> None:
    hides = HiddenSearches()
    kept, privacy = ref(hides), Privacy(LoggedQueries.WITHOUT_SEARCHES, hides=hides)
    for url in (
        "http://ads.example/x",
        "http://www.google.com/search?q=x",
        f"http://{'a' * 300}.google.com/search?q=x",
    ):
        assert fields_of(record(url), privacy)
    del hides, privacy
    assert kept() is None  # at once, since the collector leaves alone what was there at the start
