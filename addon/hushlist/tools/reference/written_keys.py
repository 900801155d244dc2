"""What is written from the table of keys: the JSON schemas for editors, and the tables of the reference.

    python -m hushlist.tools.reference.written_keys rules

writes them into the folder of the reference. In its pages, ``<!-- keys: log -->`` stands before the table of the keys
that the key ``log`` may have, and its rows are written; the last one stays, if it is about several keys at once.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from hushlist.core.lists.list_keys import LIST_KEYS
from hushlist.core.policy.key_types import whole_schema
from hushlist.core.policy.keys import Key, Schema
from hushlist.core.policy.policy_reader import policy_rows
from hushlist.core.policy.usable_keys import KeyTable, table_of
from hushlist.extensions.services.service_lists import SERVICES_KEYS
from hushlist.extensions.subscriptions.catalogue import CATALOGUE_KEYS

#: the kinds of files -> what each is
FILES = {
    "policy": "A policy of Hushlist",
    "list": "A list of Hushlist, in YAML",
    "catalogue": "A catalogue of public lists, for Hushlist",
    "services": "A list of services, for Hushlist",
}
_CELL = re.compile(r"(?<!\\)\|")
_MARK = re.compile(r"(?<=^<!-- keys: )(.*)( -->\n\n?\|.*\n\| --- .*\n)((?:\|.*\n)+)", re.MULTILINE)


def keys_of_file(name: str, table: KeyTable) -> tuple[Key, ...]:
    """The keys of a kind of file, with those of some extensions."""
    rows = {"list": LIST_KEYS, "catalogue": CATALOGUE_KEYS, "services": SERVICES_KEYS}
    return rows.get(name) or policy_rows(table)


def schema_of_file(name: str, table: KeyTable) -> Schema:
    """The schema of a kind of file."""
    says = "written from the table of keys; README.md beside this file is the reference, and has the same words"
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": FILES[name],
        "description": says,
        **whole_schema(keys_of_file(name, table)),
    }


def schema_text(name: str, table: KeyTable) -> str:
    """The file of a schema: a line for each key, and for each definition."""
    return "".join(_lines(schema_of_file(name, table), "")) + "\n"


def _lines(schema: Schema, indent: str) -> Iterator[str]:
    inner = indent + " "
    yield "{\n"
    for number, (key, part) in enumerate(schema.items()):
        comma = ",\n" if number else ""
        yield f"{comma}{inner}{json.dumps(key)}: "
        if isinstance(part, dict) and (key in ("properties", "$defs") or part.get("properties")):
            yield from _lines(part, inner)
        else:
            yield json.dumps(part, ensure_ascii=False)
    yield f"\n{indent}}}"


def rows_of(path: str, table: KeyTable) -> tuple[list[Key], list[Key]]:
    """The keys that a key may have, by its path from the kind of file on; and those that its parents have, too."""
    file, *steps = path.split("/")
    rows, above = keys_of_file(file, table), list[Key]()
    for step in steps:
        above += rows
        rows = next(row for row in rows if row.name == step).kind.rows
    return [row for row in rows if row not in above], [row for row in rows if row in above]


def page_with_tables(page: str, text: str, table: KeyTable) -> str:
    """A page of the reference, with its tables as the keys have them."""

    def written(match: re.Match[str]) -> str:
        lines, last = [], match[3].splitlines()[-1]
        for path in match[1].split():
            rows, shared = rows_of(path, table)
            lines += [f"| `{row.name}` | {row.sentence.replace(f']({page}#', '](#')} |" for row in rows]
            if shared:
                lines.append(f"| {', '.join(f'`{row.name}`' for row in shared)} |{_CELL.split(last)[2]}|")
            elif "`, `" in _CELL.split(last)[1]:
                lines.append(last)
        return "".join((match[1], match[2], *(f"{line}\n" for line in lines)))

    return _MARK.sub(written, text)


def main(folder: Path) -> None:
    """Write them."""
    table = table_of()
    for name in FILES:
        (folder / f"{name}.schema.json").write_text(schema_text(name, table), encoding="utf-8")
    for page in folder.glob("*.md"):
        text = page.read_text(encoding="utf-8")
        page.write_text(page_with_tables(page.name, text, table), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
