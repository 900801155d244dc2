"""The catalogue of public lists: what is shipped can be read, and what is wrong has file and line."""

from pathlib import Path

import pytest

from hushlist.core.errors import SourceError
from hushlist.core.lists.list_formats import FORMATS
from hushlist.core.lists.list_source import ListDefaults, ProblemReport
from hushlist.extensions.subscriptions.catalogue import CatalogueEntry, read_catalogue, shipped_catalogue
from unit.rows import each_row

CATALOGUE = read_catalogue(shipped_catalogue())
#: the beginning of a list of each format, as the publishers of the catalogue write it
HEADS = {
    "domains": "# Title: A list\n# Number of entries: 2\n\na.example\nb-c.example\n",
    "hosts": "# Title: A list\n127.0.0.1 localhost\n::1 localhost\n\n0.0.0.0 a.example\n0.0.0.0 b-c.example\n",
    "public-suffixes": "// ===BEGIN PRIVATE DOMAINS===\n\na.example\n*.b-c.example\n",
    "addresses": "# a publisher\n\n192.0.2.1\n\n# another (misc.)\n198.51.100.0/24\n",
    "adblock": "[Adblock Plus 2.0]\n! Title: EasyList\n||a.example^\n||b-c.example^\n",
    "adblock-dns": "! Title: AdGuard DNS filter\n!\n[Adblock Plus 2.0]\n||a.example^\n||b-c.example^\n",
}


def test_there_are_lists_for_every_subject() -> None:
    assert len(CATALOGUE) >= 12
    subjects = {entry.category.rpartition("/")[2] for entry in CATALOGUE.values()}
    assert subjects == {
        *("malware", "phishing", "ads", "adult", "gambling", "doh", "bypass", "social", "services", "games", "dating"),
        *(
            "drugs",
            "weapons",
            "violence",
            "ai",
            "streaming",
            "piracy",
            "remote",
            "device-trackers",
            "dynamic-dns",
            "free-hosting",
            "new-names",
            "parked",
        ),
    }
    assert len({entry.url or entry.file for entry in CATALOGUE.values()}) == len(CATALOGUE)
    assert [entry.name for entry in CATALOGUE.values() if entry.file] == ["services"]


@each_row("entry", [entry for entry in CATALOGUE.values() if entry.format != "services"])
def test_a_reader_takes_each_list(entry: CatalogueEntry) -> None:
    report = ProblemReport(entry.name)
    rules = FORMATS[entry.format].read(HEADS[entry.format].encode(), ListDefaults(category=entry.category), report)
    patterns = ["192.0.2.1/32", "198.51.100.0/24"] if entry.format == "addresses" else ["a.example/", "b-c.example/"]
    assert [(str(rule.pattern), rule.terms.category) for rule in rules] == [(own, entry.category) for own in patterns]
    assert (report.errors, report.warnings) == ([], [])


GOOD = (
    "{name: a, for: b, publisher: c, licence: d, url: 'https://h.example/', format: hosts, category: 'hrn://c', "
    "source: e}"
)
NOWHERE = GOOD.replace("url: 'https://h.example/', ", "")


@each_row(
    ("text", "errors"),
    [
        (f"lists:\n- {GOOD}\n- {GOOD}", ["3: a: more than one list has this name"]),
        (
            f"lists:\n- {GOOD.replace('https', 'http')}",
            ["2: http://h.example/: a public list is fetched over https"],
        ),
        (
            f"lists:\n- {GOOD.replace('name: a', 'name: A b')}",
            ["2: A b: a name has small letters, digits, and hyphens between them"],
        ),
        (
            "lists:\n- {name: a, for: b}",
            ["2: list: it has no publisher, no licence, no format, no category, no source"],
        ),
        (
            "lists: [a]",
            ["1: 'a': expected a mapping with name, for, publisher, licence, url, file, format, category, size, pace"],
        ),
        (
            f"lists:\n- {GOOD[:-1]}, file: a.yaml}}\n- {NOWHERE}",
            ["2: a: expected exactly one of url, file", "3: a: expected exactly one of url, file"],
        ),
        (f"lists:\n- {GOOD[:-1]}, gate: {{rollin: true}}}}", ["2: rollin: unknown key; did you mean 'rolling'?"]),
        ("- a", ["1: a list: expected a mapping with lists"]),
    ],
)
def test_what_is_wrong_has_file_and_line(tmp_path: Path, text: str, errors: list[str]) -> None:
    path = tmp_path / "catalogue.yaml"
    path.write_text(text)
    with pytest.raises(SourceError) as caught:
        read_catalogue(path)
    told = [str(problem).removeprefix(f"{path}:") for problem in caught.value.problems]
    assert [text[: len(error)] for text, error in zip(told, errors, strict=False)] == errors
