"""The pages: what they say, that everyone can read them, and that no data becomes markup."""

from __future__ import annotations

import re
from base64 import b64encode
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from hashlib import sha256
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hushlist.core.match.rule import TimeLimit
from hushlist.extensions.unblock.page_form import Unblock
from hushlist.proxy.languages import TEXTS, local_time
from hushlist.proxy.page.pages import Explanation, Verdict, page
from hushlist.proxy.page.template import MARKUP, VARIABLES, parse_template, shipped_template
from unit.rows import each_row

EXPLANATION = Explanation(
    url="http://h.example/",
    reason="It is bad",
    category="hrn://c.example/web/social-media",
    list="ads",
    rule="ads.yaml:3",
    expression="h.example/",
    until=datetime(2026, 12, 24, 22, 30, tzinfo=timezone(timedelta(hours=1))),
    reference="7K3F-29QX",
)
UNBLOCK = Unblock("/.well-known/hushlist/unblock", "token", True, True, ("url", "host", "category"), (15, 60, 90))
#: every text placeholder between elements and, as far as it may, in an attribute
CUSTOM = parse_template(
    '<!doctype html><html lang="$lang" dir="$dir"><title>$title</title><h1>$heading</h1>$reason$facts$form'
    + "".join(f"<p title=\"${name}\" class='${{{name}}}'>${name}" for name in VARIABLES if name not in MARKUP),
    "own.html",
)


class Seen(HTMLParser):
    """A page's elements with their attributes, and its text."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.others: list[str] = []
        self.text = ""
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert len({name for name, _ in attrs}) == len(attrs)
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data

    def handle_comment(self, data: str) -> None:
        self.others.append(data)

    handle_decl = handle_pi = unknown_decl = handle_comment

    @property
    def shape(self) -> list[object]:
        """Everything but text and the attributes' values."""
        return [*((tag, *names) for tag, names in self.elements), *self.others]

    def of(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]


def seen(explanation: Explanation, language: str = "", unblock: Unblock | None = None, **options: object) -> Seen:
    body, _ = page(explanation, language, unblock, **options)  # type: ignore[arg-type]
    return Seen(body.decode())


def hostile(value: str, kind: Verdict = Verdict.BLOCKED) -> tuple[Explanation, Unblock]:
    """The same text in every place."""
    explanation = Explanation(*[value] * 7, reference=value, kind=kind)
    return explanation, Unblock(value, value, True, True, (value,), (15,), message=value)


HOSTILE = [
    "<script>alert(1)</script>",
    "</dd></dl></main><img src=x onerror=alert(1)>",
    '" onmouseover="alert(1)" x=\'',
    "' autofocus onfocus='alert(1)",
    "$facts",
    "${reason}",
    "$",
    "$$reason",
    "{reason}",
    "{}",
    "%(reason)s",
    "&lt;b&gt;",
    "</style><style>*{display:none}",
    "</title><script>",
    "<!--",
    "]]>",
    "ünï\u202ecode",
]


@each_row("value", HOSTILE)
def test_whatever_came_with_the_request_is_text_on_the_page(value: str) -> None:
    here, harmless = (seen(hostile(text)[0]) for text in (value, "harmless"))
    assert here.shape == harmless.shape
    assert here.text == harmless.text.replace("harmless", value)
    assert here.text.count(value) >= 7


_MEANING = st.sampled_from(
    ['"', "'", "<", ">", "&", "=", "/", "-", "!", "$", "{", "}", " ", "\n", "\x00", "a", "<b ", "url"]
)
_TEXTS = st.text(max_size=20) | st.lists(_MEANING, min_size=1, max_size=15).map("".join)


@given(_TEXTS, st.sampled_from(list(TEXTS)), st.sampled_from(Verdict), st.sampled_from([CUSTOM, None]))
def test_no_element_and_no_attribute_comes_from_data(text: str, language: str, kind: Verdict, template: object) -> None:
    # an empty address is left out, and so is its row
    here, harmless = (
        seen(explanation, language, unblock, template=template)
        for explanation, unblock in (hostile(value, kind) for value in (f"x{text}", "harmless"))
    )
    assert here.shape == harmless.shape
    shown = re.sub(r"\r\n?", "\n", f"x{text}").encode("utf-8", "backslashreplace").decode()
    assert [form["action"] for form in here.of("form")] == [f"x{text}".encode("utf-8", "backslashreplace").decode()]
    assert re.sub(r"\r\n?", "\n", here.text).count(shown) >= 7


def test_octets_that_are_no_text_are_shown_as_such() -> None:
    assert "\\udcff" in seen(Explanation("http://h.example/\udcff")).text


# -- what a page says ------------------------------------------------------------------------------------------------


@each_row("language", TEXTS)
@each_row("kind", Verdict)
def test_the_page_says_in_the_readers_language_what_why_and_by_which_rule(language: str, kind: Verdict) -> None:
    body, headers = page(replace(EXPLANATION, kind=kind), language, UNBLOCK)
    found, texts = Seen(body.decode()), TEXTS[language]
    assert headers["Content-Language"] == language
    assert headers["Vary"] == "Accept-Language"
    assert found.of("html") == [{"lang": language, "dir": texts["dir"]}]
    assert found.of("body") == [{"class": kind.value}]
    assert found.of("time") == [{"datetime": "2026-12-24T22:30+01:00", "dir": texts["dir"]}]
    for value in ("http://h.example/", "It is bad", "social media", "hrn://c.example/web/social-media", "ads.yaml:3"):
        assert value in found.text
    for value in ("h.example/", " 22:30 (UTC+01:00)", "7K3F-29QX", texts[f"{kind}_heading"], texts["list"]):
        assert value in found.text


@each_row("language", TEXTS)
def test_what_google_advises_is_told_with_doubt_and_a_link(language: str) -> None:
    asked = Explanation("http://h.example/", text="suspected_reason", is_by_google=True)
    for template in (None, CUSTOM):
        body, _ = page(asked, language, template=template)
        found, texts = Seen(body.decode()), TEXTS[language]
        (link,) = found.of("a")
        assert link["href"] == "https://developers.google.com/safe-browsing/v4/advisory"
        for key in ("suspected_reason", "advisory", "advisory_doubt"):
            assert texts[key] in found.text
    assert "Google" not in Seen(page(replace(asked, is_by_google=False), language)[0].decode()).text


_ELEMENTS = {
    *("html", "head", "meta", "title", "style", "body", "main", "svg", "path", "h1", "h2", "p", "a", "section", "div"),
    *("dl", "dt", "dd", "code", "span", "strong", "time", "form", "input", "label", "button", "fieldset", "legend"),
    *("details", "summary", "circle", "footer", "header", "br"),
}
_VALUES = {
    "dir": {"ltr", "rtl", "auto"},
    "type": {"hidden", "password", "text", "radio", "submit"},
    "autocomplete": {"off"},
    "autocapitalize": {"none"},
    "spellcheck": {"false"},
    "aria-invalid": {"true"},
}


@each_row("language", ["en", "ar"])
@each_row("kind", Verdict)
def test_a_page_has_elements_and_values_that_browsers_know(language: str, kind: Verdict) -> None:
    every = replace(EXPLANATION, kind=kind, fault="it names no host", original="http://H.example/")
    for unblock in (UNBLOCK, replace(UNBLOCK, message="wrong")):
        here = seen(every, language, unblock)
        assert {tag for tag, _ in here.elements} <= _ELEMENTS
        for name, known in _VALUES.items():
            assert {own[name] for _, own in here.elements if name in own} <= known


def test_the_page_leaves_out_what_is_not_known_and_needs_nothing_from_outside() -> None:
    found = seen(Explanation("http://h.example/"))
    assert len(found.of("dt")) == 1
    assert "None" not in found.text
    assert "A rule of the filter blocks it." in found.text
    assert not found.of("form")
    tags = {tag for tag, _ in found.elements}
    assert not {"script", "link", "img", "iframe", "form"} & tags
    assert not {"src", "href", "style"} & {name for _, attributes in found.elements for name in attributes}


def test_what_it_is_about_and_until_when_stands_first_and_all_else_is_folded() -> None:
    text = page(replace(EXPLANATION, until=datetime(2026, 7, 1, tzinfo=UTC)))[0].decode()
    shown, _, folded = text.partition("<details>")
    assert ['class="category"' in part for part in (shown, folded)] == [True, False]
    assert ['class="until"' in part for part in (shown, folded)] == [True, False]
    assert [f'class="{key}"' in folded for key in ("address", "list", "rule", "expression")] == [True] * 4


def test_a_failure_and_an_address_that_cannot_be_read_have_words_of_their_own() -> None:
    unread = seen(Explanation("http://%FF/", fault="it names no host"), "de").text
    assert "Der Filter kann diese Adresse nicht lesen." in unread
    assert "it names no host" in unread
    failed = seen(Explanation("", kind=Verdict.FAILED))
    assert "It lets nothing pass that it could not check." in failed.text
    assert not failed.of("dl")
    assert "Is this a mistake?" not in failed.text


def test_minutes_that_are_used_up_are_told_once_and_in_the_readers_language() -> None:
    limit = TimeLimit(limit=30, used=30, per="day")
    told = seen(replace(EXPLANATION, list="policy", expression=str(limit), limit=limit), "de").text
    assert TEXTS["de"]["used_up_reason"].partition("{}")[0] in told
    assert "ads.yaml:3" in told
    for words in (str(limit), TEXTS["de"]["list"], TEXTS["de"]["expression"]):
        assert words not in told


def test_a_long_address_does_not_bury_the_rest() -> None:
    text = seen(Explanation(f"http://h.example/{'a' * 65536}/end")).text
    assert "http://h.example/aaa" in text
    assert "aaa/end" in text
    assert len(text) < 15_000


@pytest.mark.parametrize(
    ("moment", "text"),
    [
        (datetime(2026, 7, 1, 8, 5, 59, tzinfo=UTC), "1 July 2026, 08:05 (UTC)"),
        (datetime(2026, 7, 1, 8, 5, tzinfo=timezone(-timedelta(hours=3.5))), "1 July 2026, 08:05 (UTC-03:30)"),
        (datetime(1, 1, 1, tzinfo=UTC), "1 January 1, 00:00 (UTC)"),
    ],
)
def test_a_time_is_written_so_that_every_reader_understands_it(moment: datetime, text: str) -> None:
    assert local_time(moment, TEXTS["en"]) == text


# -- the form --------------------------------------------------------------------------------------------------------


def test_the_form_offers_what_it_is_told_to() -> None:
    found = seen(EXPLANATION, "", UNBLOCK)
    assert found.of("form") == [{"method": "post", "action": UNBLOCK.action, "autocomplete": "off"}]
    inputs = [(field["type"], field["name"], field.get("value")) for field in found.of("input")]
    assert inputs == [
        ("hidden", "token", "token"),
        ("password", "passphrase", None),
        ("text", "code", None),
        *(("radio", "scope", scope) for scope in ("url", "host", "category")),
        *(("radio", "minutes", minutes) for minutes in ("15", "60", "90")),
    ]
    assert [field["value"] for field in found.of("input") if "checked" in field] == ["url", "15"]
    for words in ("Unblock for a while", "The whole site", "15 min", "1 h", "1 h 30 min", "One of the two is enough."):
        assert words in found.text
    assert found.of("details") == [{}, {}]


@pytest.mark.parametrize("field", ["passphrase", "code"])
def test_a_single_secret_is_required(field: str) -> None:
    found = seen(EXPLANATION, "", Unblock("/x", "t", passphrase=field == "passphrase", code=field == "code"))
    _, secret = found.of("input")
    assert secret["name"] == field
    assert "required" in secret
    assert secret["autocomplete"] == "off"
    assert not found.of("fieldset")


@each_row(("message", "key"), [("wrong", "wrong"), ("locked", "locked"), ("expired", "expired"), ("?", "failed")])
def test_what_went_wrong_is_told_first_and_the_form_is_open(message: str, key: str) -> None:
    found = seen(EXPLANATION, "fr", replace(UNBLOCK, message=message))
    words = TEXTS["fr"][key]
    assert found.text.count(words) == 2  # the title and the alert
    assert [paragraph["role"] for paragraph in found.of("p") if "role" in paragraph] == ["alert"]
    assert ["open" in one for one in found.of("details")] == [False, True]
    assert [field.get("aria-invalid") for field in found.of("input")[1:3]] == ["true" if key == "wrong" else None] * 2


@pytest.mark.parametrize("field", ["passphrase", "code"])
def test_only_what_was_asked_for_is_called_wrong(field: str) -> None:
    offered = Unblock("/x", "t", passphrase=field == "passphrase", code=field == "code", message="wrong")
    found = seen(EXPLANATION, "en", offered)
    assert f"That {field} is not right" in found.text
    assert "passphrase or code" not in found.text


def test_a_warning_has_a_button_to_go_on() -> None:
    found = seen(replace(EXPLANATION, kind=Verdict.WARNED), "", Unblock("/x", "t"))
    assert [field["type"] for field in found.of("input")] == ["hidden"]
    assert len(found.of("button")) == 1
    assert "Go on" in found.text
    assert "Back button" in found.text
    assert len(found.of("details")) == 1


# -- for everyone ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", Verdict)
def test_a_screen_reader_finds_its_way(kind: Verdict) -> None:
    found = seen(replace(EXPLANATION, kind=kind), "", replace(UNBLOCK, message="wrong"))
    assert len(found.of("main")) == len(found.of("h1")) == len(found.of("title")) == 1
    ids = [attributes["id"] for _, attributes in found.elements if "id" in attributes]
    assert len(set(ids)) == len(ids)
    for _, attributes in found.elements:
        for name in ("aria-labelledby", "aria-describedby", "for"):
            assert set((attributes.get(name) or "").split()) <= set(ids)
    labelled = {label["for"] for label in found.of("label") if "for" in label}
    assert labelled == {field["id"] for field in found.of("input") if field["type"] in ("text", "password")}
    assert len(found.of("legend")) == len(found.of("fieldset")) == 2


def test_the_style_is_allowed_by_its_hash_alone() -> None:
    body, headers = page(EXPLANATION, "")
    (style,) = re.findall(r"<style>(.*?)</style>", body.decode(), re.DOTALL)
    digest = b64encode(sha256(style.encode()).digest()).decode()
    assert headers["Content-Security-Policy"] == (
        f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'; sandbox"
    )


def colours(dark: bool, kind: Verdict) -> dict[str, str]:
    """The style's colours in one scheme."""
    (style,) = re.findall(r"<style>(.*?)</style>", shipped_template().text.template, re.DOTALL)
    light, _, rest = style.partition("@media (prefers-color-scheme: dark)")
    parts = [light] if not dark else [light, rest.partition("\n    }\n")[0]]
    found: dict[str, str] = {}
    for part in parts:
        for selector in (":root", f".{kind}"):
            for block in re.findall(rf"^ *{re.escape(selector)} \{{(.*?)\}}", part, re.DOTALL | re.MULTILINE):
                found |= dict(re.findall(r"--([a-z-]+): (#[0-9a-f]{6});", block))
    return found


def contrast(one: str, other: str) -> float:
    """Spec: WCAG 2.2, contrast ratio."""

    def luminance(colour: str) -> float:
        channels = (int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5))
        linear = [each / 12.92 if each <= 0.04045 else ((each + 0.055) / 1.055) ** 2.4 for each in channels]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    brighter, darker = sorted((luminance(one), luminance(other)), reverse=True)
    return (brighter + 0.05) / (darker + 0.05)


@each_row("kind", Verdict)
@each_row("dark", [False, True])
def test_the_contrast_is_enough_in_both_schemes(dark: bool, kind: Verdict) -> None:
    found = colours(dark, kind)
    assert found != colours(not dark, kind)
    texts = [("ink", "card"), ("ink", "well"), ("ink", "tint"), ("ink", "paper"), ("soft", "card"), ("soft", "well")]
    texts += [("accent", "card"), ("on-accent", "accent")]
    # Spec: WCAG 2.2, 1.4.3 (AA) for text, 1.4.11 for the edges of fields, the signs, and what has the focus
    assert {pair: ratio for pair in texts if (ratio := contrast(*(found[name] for name in pair))) < 4.5} == {}
    edges = [("edge", "card"), ("accent", "tint"), ("ink", "card")]
    assert {pair: ratio for pair in edges if (ratio := contrast(*(found[name] for name in pair))) < 3} == {}


def test_the_page_for_a_check_of_somebody_else_s_extension_has_its_own_sentence() -> None:
    body, _ = page(replace(EXPLANATION, text="check_foreign", reason="The odds are too long."), "de")
    assert b"The odds are too long." in body
