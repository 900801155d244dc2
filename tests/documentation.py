"""The pages of the documentation, for the tests that execute, load and compare what stands in them."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
RULES = ROOT / "rules"
COMMANDS = "rules/commands.md"
#: the reference of policies and lists: an index, and a page for each subject
REFERENCE = (
    "rules/README.md",
    "rules/policy.md",
    "rules/lists.md",
    "rules/inside.md",
    "rules/searches.md",
    "rules/alerts.md",
    "rules/safe-browsing.md",
    "rules/groups.md",
    "rules/unblocking.md",
    "rules/quotas.md",
    "rules/log.md",
    "rules/admin.md",
    "rules/network.md",
    "rules/fleet.md",
    "rules/failures.md",
    "rules/decisions.md",
)
TUTORIAL = "examples/tablet.md"
GUIDES = "examples/README.md"
MOVING = "examples/moving.md"
ROUTER = "examples/router/README.md"
FLEET = "examples/fleet/README.md"
SERVICE = "examples/service/README.md"
#: what somebody reads who uses the filter
PAGES = (
    *("README.md", "SECURITY.md", *REFERENCE, COMMANDS, GUIDES, TUTORIAL, MOVING, ROUTER, FLEET, SERVICE),
    "examples/why.md",
)

_BLOCK = r"^```{}\n(.*?)^```$"
_SECTION = r"^{}\n(.*?)(?=^##+ |\Z)"
_TABLE = re.compile(r"(?:^\|.*\n)+", re.MULTILINE)
_CELL = re.compile(r"(?<!\\)\|")
_CODE = re.compile(r"`([^`]*)`")
_LINK = re.compile(r"\[([^\]]*)\]\([^)]*\)")


def joined(*pages: str) -> str:
    """The pages, one after the other."""
    return "\n".join((ROOT / page).read_text(encoding="utf-8") for page in pages)


def blocks(page: str, language: str) -> list[str]:
    """A page's code blocks in one language."""
    found: list[str] = re.findall(_BLOCK.format(language), joined(page), re.DOTALL | re.MULTILINE)
    return found


def without_times(text: str) -> str:
    """What a command prints, without what it says of how long it took."""
    text = re.sub(r" in [0-9.]+ s(, [0-9,]+ a second)?; ", "; ", text)
    return re.sub(r"^\nSlowest decisions\n(  .*\n)*", "", text, flags=re.MULTILINE)


def is_list(block: str) -> bool:
    """Whether a block of YAML is a list, and not a policy."""
    return re.search(r"^rules:", block, re.MULTILINE) is not None


def whole(block: str) -> str:
    """A policy, made of a block that is one or a part of one."""
    return block if re.search(r"^layers:", block, re.MULTILINE) else f"{block}layers: []\n"


def rows(heading: str) -> list[dict[str, str]]:
    """The tables below a heading of the reference: what stands behind each row's one word in code, without links."""
    pattern = re.compile(_SECTION.format(heading), re.DOTALL | re.MULTILINE)
    (section,) = (found for page in REFERENCE for found in pattern.findall(joined(page)))
    tables = []
    for table in _TABLE.findall(section):
        cells = [[cell.strip() for cell in _CELL.split(line)[1:-1]] for line in table.splitlines()]
        tables.append({word[1]: _LINK.sub(r"\1", row[1]) for row in cells if (word := _CODE.fullmatch(row[0]))})
    return tables
