"""The pages of the documentation lead to each other, and the first of them is short."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from documentation import PAGES, ROOT

ALL = (*PAGES, "addon/README.md", "tests/bench/README.md", "tests/conformance/README.md")
_CODE = re.compile(r"^```.*?^```$", re.DOTALL | re.MULTILINE)
_LINK = re.compile(r"\]\(([^)\s]+)\)")
_NO_LETTER = re.compile(r"[^\w\- ]")


def text_of(page: Path) -> str:
    """A page without its blocks of code."""
    return _CODE.sub("", page.read_text(encoding="utf-8"))


def anchors(page: Path) -> set[str]:
    """What a link may name in a page: its headings, as sites that show Markdown write them."""
    headings = re.findall(r"^#+ (.*)$", text_of(page), re.MULTILINE)
    return {_NO_LETTER.sub("", heading.strip().lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", ALL)
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
