"""The part of a page where a person asks: what it shows in each state, and what it may run."""

from __future__ import annotations

import re
from base64 import b64encode
from hashlib import sha256

import pytest

from hushlist.extensions.journal.log_keys import LoggedClients
from hushlist.extensions.unblock.access_requests import RequestState
from hushlist.extensions.unblock.page_form import AccessOffer, Unblock, access_section
from hushlist.proxy.languages import TEXTS
from hushlist.proxy.page.pages import Explanation, page
from unit.proxy.outline import outline
from unit.rows import each_row

EXPLANATION = Explanation("http://h.example/")
HOSTILE = "\"'><script>alert(1)</script>&amp;</title>"


FORM = """\
section class=ask
  form method=post action=/unblock autocomplete=off
    p class=alert role=alert | $ask_often
    input type=hidden name=token value=ask token
    input type=hidden name=ask value=on
    div class=field
      label for=reason | $ask_reason
      input type=text id=reason name=reason dir=auto maxlength=300 autocomplete=off
    p class=note id=ask-seen | $ask_seen
    button type=submit aria-describedby=ask-seen | $ask"""
WAITING = """\
section class=ask role=status
  p class=alert id=asked data-answer=/answer data-granted=$ask_granted data-declined=$ask_declined | $ask_waiting
  p class=word id=asked-note dir=auto data-opens=$ask_opens | $ask_reload
"""
DECLINED = """\
section class=ask
  p class=alert | $ask_declined"""


@pytest.mark.parametrize(
    ("state", "more", "expected"),
    [
        (None, {"message": "ask_often"}, FORM),
        (RequestState.WAITING, {}, WAITING),
        (RequestState.DECLINED, {}, DECLINED),
        (RequestState.DECLINED, {"word": "after dinner"}, f"{DECLINED}\n  p class=word dir=auto | after dinner"),
    ],
)
def test_it_has_these_elements(state: RequestState | None, more: dict[str, str], expected: str) -> None:
    section = access_section(
        AccessOffer("ask token", "/answer", LoggedClients.KEEP, state, **more), "/unblock", TEXTS["en"]
    )
    assert outline(section, TEXTS["en"]).partition("script | ")[0] == expected


def shown(offered: AccessOffer, language: str = "en", **more: bool) -> tuple[str, str]:
    """The page and its content security policy."""
    unblock = Unblock("/unblock", "token", access=offered, **more)  # type: ignore[arg-type]
    body, headers = page(EXPLANATION, language, unblock)
    return body.decode(), headers["Content-Security-Policy"]


@each_row("language", TEXTS)
def test_somebody_who_has_not_asked_gets_a_form_that_needs_no_script(language: str) -> None:
    text, policy = shown(AccessOffer("ask token", "/answer", LoggedClients.KEEP), language)
    assert TEXTS[language]["ask"] in text
    assert "<script" not in text
    assert "script-src" not in policy
    assert "connect-src" not in policy
    assert policy.endswith("sandbox allow-forms")


def test_a_page_that_waits_runs_one_script_in_a_sandbox_without_an_origin() -> None:
    text, policy = shown(AccessOffer("t", "/answer?a&b", LoggedClients.KEEP, RequestState.WAITING))
    (script,) = re.findall("<script>(.*?)</script>", text, re.DOTALL)
    digest = b64encode(sha256(script.encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'; connect-src 'self'" in policy
    assert policy.endswith("sandbox allow-forms allow-scripts")
    assert 'data-answer="/answer?a&amp;b"' in text
    assert "<title>Your request is waiting for an answer. – Blocked</title>" in text
    assert 'name="reason"' not in text


@pytest.mark.parametrize(
    ("offered", "key"),
    [
        (AccessOffer("t", "/answer", LoggedClients.KEEP, RequestState.EXPIRED), "ask_expired"),
        (AccessOffer("t", "/answer", LoggedClients.KEEP, message="ask_often"), "ask_often"),
        (AccessOffer("t", "/answer", LoggedClients.KEEP, message="expired"), "expired"),
    ],
)
def test_what_went_wrong_is_said_before_the_form_and_in_the_title(offered: AccessOffer, key: str) -> None:
    text, _ = shown(offered)
    assert f'role="alert">{TEXTS["en"][key]}</p>' in text
    assert f"<title>{TEXTS['en'][key]} – Blocked</title>" in text
    assert 'name="reason"' in text


@pytest.mark.parametrize("is_both", [False, True])
def test_codes_stand_beside_it_where_they_are_taken(is_both: bool) -> None:
    text, _ = shown(AccessOffer("t", "/answer", LoggedClients.KEEP), code=is_both)
    assert text.count("<form") == 1 + is_both
    assert ('name="code"' in text) is is_both


@each_row("state", [None, *RequestState])
def test_no_text_becomes_markup(state: RequestState | None) -> None:
    plain, _ = shown(AccessOffer("t", "/a", LoggedClients.KEEP, state, "word", "failed"))
    text, policy = shown(AccessOffer(HOSTILE, HOSTILE, LoggedClients.KEEP, state, HOSTILE, "failed"))
    tags = re.compile("<[a-z/!][^>]*")
    assert [tag.split()[0] for tag in tags.findall(text)] == [tag.split()[0] for tag in tags.findall(plain)]
    assert "alert(1)" not in policy
