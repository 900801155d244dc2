"""README.md beside this, as data: its sections by their headings, and the tables in them."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

README = Path(__file__).with_name("README.md")


@cache
def _sections() -> dict[str, str]:
    _, *parts = re.split(r"^#+ (.+)\n", README.read_text("utf-8"), flags=re.MULTILINE)
    return dict(zip(parts[::2], parts[1::2], strict=True))


def sections() -> list[str]:
    """All headings."""
    return list(_sections())


def section(heading: str) -> str:
    """The text between a heading and the next one."""
    return _sections()[heading]


def table(text: str) -> list[list[str]]:
    """The cells of a section's one table, without its head; a section without one has none."""
    lines = [line.strip().strip("|") for line in text.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.split(" | ")] for line in lines[2:]]
