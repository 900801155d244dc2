"""The languages of the pages: every one is whole, and each reader gets theirs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from hushlist.core.extension import built_in
from hushlist.core.match.checks import CHECKS
from hushlist.core.match.rule import Action
from hushlist.proxy import languages
from hushlist.proxy.languages import DEFAULT_LANGUAGE, TEXTS, Texts, live_texts, load_texts, negotiate, subject_texts
from support.administrators import ACTIONS
from unit.rows import each_row

OFFERED = ["en", "de", "fr", "pt", "zh-hant"]


@each_row(
    ("header", "language"),
    [
        ("", "en"),
        ("de", "de"),
        ("DE", "de"),
        ("de-CH-1996", "de"),
        ("de, en", "de"),
        ("en;q=0.8, de;q=0.9", "de"),
        ("de;q=0.5, fr;q=0.5", "de"),
        ("fr;q=0.001, tlh", "fr"),
        (" \tde\t; \tq=1.000 ", "de"),
        ("de;Q=0.3, fr;q=0.2", "de"),
        (",,, ,de,", "de"),
        # lookup: the more general language follows the special one that is not there, before the next range
        ("pt-BR, de", "pt"),
        ("zh-Hant-TW", "zh-hant"),
        ("zh-Hans, fr", "fr"),
        ("zh-Hant-CN-x-private1-private2", "zh-hant"),
        ("de-x-a", "de"),
        # of Chinese, the script counts, and a region tells it
        ("zh-HK, fr", "zh-hant"),
        ("zh-CN, fr", "fr"),
        ("zh-CN, zh;q=0.9, fr;q=0.8", "fr"),
        ("zh-TW;q=0.5, zh", "zh-hant"),
        ("zh, fr", "fr"),
        # "*" is the default, and comes in its turn
        ("*", "en"),
        ("tlh, *", "en"),
        ("*;q=0.1, de;q=0.2", "de"),
        ("*, de;q=0.5", "en"),
        # 0 is "not acceptable"
        ("de;q=0, fr;q=0.1", "fr"),
        ("en;q=0, *", "de"),
        ("en;q=0, de;q=0.000, *;q=0.5", "fr"),
        ("de-CH, de;q=0, fr;q=0.5", "fr"),
        ("en;q=0", "en"),
        ("*;q=0", "en"),
        # what cannot be read is no wish
        ("de;q=2, fr;q=0.1", "fr"),
        ("de;q=0.1234, fr;q=0.1", "fr"),
        ("de;q=, fr;q=0.1", "fr"),
        ("de;q=nan, fr;q=0.1", "fr"),
        ("de;q=-1, fr;q=0.1", "fr"),
        ("de;level=1, fr;q=0.1", "fr"),
        ("de;q=1;q=1, fr;q=0.1", "fr"),
        ("de_DE, fr;q=0.1", "fr"),
        ("d\u00e9, fr", "fr"),
        ("de-, fr", "fr"),
        ("-de, fr", "fr"),
        ("deutschland, fr", "fr"),
        ("*-CH, fr", "fr"),
        ("\x00\xff\udcff;;==", "en"),
        ("../../etc/passwd", "en"),
    ],
)
def test_the_language_is_the_one_that_the_reader_wants_most(header: str, language: str) -> None:
    assert negotiate(header, OFFERED, "en") == language


FIRST_START, SUBJECTS, SETUP, LIVE = (
    load_texts("hushlist.extensions.first_start", ""),
    subject_texts(),
    load_texts("hushlist.extensions.dashboard", "setup"),
    load_texts("hushlist.extensions.dashboard", "live_page"),
)
#: a separator, which may be a space, and units, of which some are abbreviated
_NO_SENTENCES = ("thousands", "minutes", "hours")


@each_row("language", TEXTS)
@each_row("folder", [TEXTS, FIRST_START, SUBJECTS, SETUP, LIVE])
def test_every_language_is_whole(folder: Mapping[str, Texts], language: str) -> None:
    texts, english = folder[language], folder[DEFAULT_LANGUAGE]
    assert list(texts) == list(english)
    for key, text in texts.items():
        assert text != "", key
        assert text.strip() == text or key == "thousands", key
        assert "<" not in text, key
        assert _placeholders(text) == _placeholders(english[key]), key
        if key not in _NO_SENTENCES:  # a sentence stays one
            assert english[key].endswith(".") is bool(re.search(r"[.।。]$", text)), key
        assert len(text) <= 2 * len(english[key]) + 20, key


def _placeholders(text: str) -> list[str]:
    return sorted(re.findall(r"\{\w*\}", text))


def test_a_month_has_its_name_and_a_language_its_direction() -> None:
    for language, texts in TEXTS.items():
        assert len(texts["months"].split()) == len(set(texts["months"].split())) == 12
        assert texts["dir"] == ("rtl" if language == "ar" else "ltr")


PROXY = Path(languages.__file__).parent


def test_the_live_page_has_a_text_for_each_key_and_a_use_for_each_text() -> None:
    page = PROXY.parent / "extensions" / "dashboard" / "live_page"
    scripts = "".join(path.read_text(encoding="utf-8") for path in page.glob("*.js"))
    placed = set(re.findall(r"\$(\w+)", (page / "index.html").read_text())) - {"lang", "texts"}
    modules = [*PROXY.rglob("*.py"), *page.parents[1].rglob("*.py")]
    written = "".join(path.read_text(encoding="utf-8") for path in modules) + scripts
    known = live_texts()["en"].keys()
    recorded = (action.did for action in ACTIONS if action.did)
    done = {f"did_{word.replace(' ', '_')}" for word in (*recorded, "signed in")}
    actions = {f"action_{action.value}" for action in Action}
    assert placed | set(re.findall(r'\bt\("(\w+)"', scripts)) | done | actions <= known
    assert {key for key in known if key.startswith("did_")} == done
    by_kind = re.compile("did_|action_|role_|clients_|queries_|stopped_|figure_")
    used = placed | set(re.findall(r"[\"'](\w+)[\"']", written))
    assert {key for key in LIVE["en"] if not by_kind.match(key)} <= used


def test_every_check_has_a_sentence_in_every_language() -> None:
    for texts in TEXTS.values():
        assert {key for key in texts if key.startswith("check_")} == {
            f"check_{code}" for code in (*CHECKS, *(code for own in built_in() for code in own.request_checks))
        }
