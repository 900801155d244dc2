"""The JSON Schemas for editors, and the tables of the reference: they are written from the table of keys."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator

from documentation import PAGES, ROOT, RULES, blocks, is_list, whole
from hushlist.core.compile.policy_compiler import compile_policy
from hushlist.core.lists.list_source import ListDefaults, ProblemReport
from hushlist.core.lists.yaml_rules import read_yaml
from hushlist.core.policy.keys import Key
from hushlist.core.policy.policy_file import PolicyError
from hushlist.core.policy.usable_keys import table_of
from hushlist.tools.reference.written_keys import FILES, keys_of_file, page_with_tables, rows_of, schema_text
from hushlist.tools.reference.written_keys import main as write
from unit.rows import each_row

SCHEMAS = {name: json.loads((RULES / f"{name}.schema.json").read_text(encoding="utf-8")) for name in FILES}
STORED = f"scrypt$n=32768,r=8,p=1${'A' * 43}${'A' * 43}"


def errors_of_policy(folder: Path, text: str) -> list[str]:
    """What the loader says against a policy, in a folder with some lists."""
    (folder / "list.yaml").write_text("rules: []\n", encoding="utf-8")
    (folder / "list.txt").write_text("", encoding="utf-8")
    (folder / "page.html").write_text("a page", encoding="utf-8")
    (folder / "policy.yaml").write_text(text, encoding="utf-8")
    try:
        compile_policy(folder / "policy.yaml")
    except PolicyError as error:
        return [f"{problem.what}: {problem.why}" for problem in error.problems]
    return []


def errors_of_list(folder: Path, text: str) -> list[str]:
    """What the reader says against a list."""
    report = ProblemReport(str(folder / "list.yaml"))
    list(read_yaml(text.encode(), ListDefaults(), report))
    return [f"{problem.what}: {problem.why}" for problem in report.errors]


LOADERS = {"policy": errors_of_policy, "list": errors_of_list}
COMMAND = "write it by: python -m hushlist.tools.reference.written_keys rules"


# -- what an editor sees -----------------------------------------------------------------------------------------------


class Yaml11(yaml.SafeLoader):
    """YAML 1.1: on and off are booleans; JSON has no dates, so these stay text."""


Yaml11.add_constructor("tag:yaml.org,2002:timestamp", yaml.SafeLoader.construct_yaml_str)


class Yaml12(yaml.SafeLoader):
    """The core schema of YAML 1.2, by which most editors read.

    Spec: YAML 1.2.2, 10.3.2
    """

    yaml_implicit_resolvers: dict[str, Any] = {}  # noqa: RUF012  PyYAML's own way


for _tag, _pattern, _first in (
    ("null", r"(?:null|Null|NULL|~|)", ["n", "N", "~", ""]),
    ("bool", r"(?:true|True|TRUE|false|False|FALSE)", list("tTfF")),
    ("int", r"[-+]?[0-9]+", list("-+0123456789")),
    ("float", r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?", list("-+.0123456789")),
):
    Yaml12.add_implicit_resolver(f"tag:yaml.org,2002:{_tag}", re.compile(f"^{_pattern}$"), _first)


def complaints(schema: str, text: str, loader: type[yaml.SafeLoader]) -> list[str]:
    """What an editor says against a text."""
    document = yaml.load(text, loader)
    return [error.message for error in Draft202012Validator(SCHEMAS[schema]).iter_errors(document)]


# -- they are written from the table of keys ---------------------------------------------------------------------------


@pytest.mark.parametrize("name", FILES)
def test_a_schema_is_what_is_written_from_the_table(name: str) -> None:
    Draft202012Validator.check_schema(SCHEMAS[name])
    assert (RULES / f"{name}.schema.json").read_text(encoding="utf-8") == schema_text(name, table_of()), COMMAND


def test_the_tables_of_the_reference_are_what_is_written_from_the_table() -> None:
    marked = list[str]()
    for path in RULES.glob("*.md"):
        text = path.read_text(encoding="utf-8")
        assert text == page_with_tables(path.name, text, table_of()), COMMAND
        marked += re.findall("^<!-- keys: (.*) -->$", text, re.MULTILINE)
    in_tables = {row.name for path in " ".join(marked).split() for rows in rows_of(path, table_of()) for row in rows}
    assert all_keys() - in_tables == set()


def test_they_are_written_where_they_are_not_so(tmp_path: Path) -> None:
    page = (RULES / "files.md").read_text(encoding="utf-8")
    other = re.sub("(<!-- keys: .* -->\n\n.*\n.*\n).*\n", r"\1| `gone` | |\n", page, count=1)
    (tmp_path / "files.md").write_text(other, encoding="utf-8")
    write(tmp_path)
    assert (tmp_path / "files.md").read_text(encoding="utf-8") == page
    for name in FILES:
        assert (tmp_path / f"{name}.schema.json").read_text() == (RULES / f"{name}.schema.json").read_text()


def all_keys() -> set[str]:
    """The names of all keys, but those of which each has the words of another table, or of no table."""

    def below(rows: Iterable[Key]) -> Iterator[Key]:
        for row in rows:
            yield row
            yield from below(row.kind.rows)

    return {row.name for name in FILES for row in below(keys_of_file(name, table_of()))}


def test_every_key_is_described() -> None:
    def check(part: Any) -> None:
        for value in part.values() if isinstance(part, dict) else part if isinstance(part, list) else ():
            check(value)
        if isinstance(part, dict) and isinstance(part.get("properties"), dict) and "type" in part:
            assert {key for key, value in part["properties"].items() if not value.get("description")} == set()

    check(SCHEMAS)


# -- the same documents are good ---------------------------------------------------------------------------------------

SHIPPED = [(path.stem if path.stem in SCHEMAS else "list", path) for path in sorted(RULES.glob("*.yaml"))]
DOCUMENTED = [block for page in PAGES for block in blocks(page, "yaml")]
readings = pytest.mark.parametrize("loader", [Yaml11, Yaml12])


@readings
@pytest.mark.parametrize(("schema", "path"), SHIPPED)
def test_what_is_shipped_is_good_and_names_its_schema(schema: str, path: Path, loader: type[yaml.SafeLoader]) -> None:
    text = path.read_text(encoding="utf-8")
    assert complaints(schema, text, loader) == []
    assert text.splitlines()[0] == f"# yaml-language-server: $schema={schema}.schema.json"


@readings
@pytest.mark.parametrize("block", DOCUMENTED)
def test_the_examples_of_the_documentation_are_good(block: str, loader: type[yaml.SafeLoader]) -> None:
    if is_list(block):
        assert complaints("list", block, loader) == []
    else:
        assert complaints("policy", whole(block), loader) == []


def test_the_schemas_are_shipped_with_the_rules() -> None:
    assert '"hushlist.rules" = ["*.yaml", "*.txt", "*.md", "*.json"]' in (ROOT / "pyproject.toml").read_text(
        encoding="utf-8"
    )


GOOD_POLICIES = [
    "",
    "unparsable: pass",
    "unknown-context: block",
    "timezone: Asia/Kolkata",
    "mode: off",
    "mode: tag",
    "block-page: page.html",
    "default: warn",
    "default: {action: block, during: s, otherwise: pass}\nschedules: {s: {times: 8:00-24:00}}",
    "categories: {hrn://a.example: block, 'HRN://me@A.example/x%20y': {action: allow}}",
    "categories: {hrn://-/f81d4fae-7dec-11d0-a765-00a0c91e6bf6/x: tag, hrn://10.0.0.1/a: pass, hrn://b: warn}",
    "safe-search: off",
    "safe-search: moderate",
    "safe-search: []",
    "safe-search: [google, ecosia]",
    "safe-search: {google: off, youtube: moderate}",
    "unblock: on",
    "unblock: off",
    "unblock: {}",
    "unblock: {codes: off, ask: {name: shown}}",
    "unblock: {ask: {}}",
    f"unblock: {{passphrase: '{STORED}', codes: off, scopes: [url], minutes: [1, 1440]}}",
    "pass-through: []",
    "pass-through: [bank.example, =api.bank.example, 192.0.2.0/24, '2001:db8::/32', 192.0.2.7, bücher.example]",
    "pass-through: ['mail.example:25', '=api.bank.example:443', '192.0.2.0/24:22']",
    "pass-through: ['[2001:db8::1]:22', '[2001:db8::/32]:22', '2001:db8::1']",
    "pass-through: {hosts: [bank.example, {file: list.txt}], failed-handshakes: add}",
    "pass-through: household",
    "pass-through: [{needs: push}, bank.example]",
    "groups: [{name: a, users: [b], pass-through: [bank.example]}]",
    "decrypt: where-needed\nalways-decrypt: [cdn.example, =a.example, 192.0.2.0/24, {file: list.txt}]",
    "decrypt: all\nalways-decrypt: {categories: [hrn://a.example/cdn]}",
    "relayed: keep",
    "quotas: {}",
    "quotas: {hrn://a.example: 60, hrn://b.example: [{minutes: 1440}, {minutes: 10080, per: week, reset: sun 4:00}]}",
    "groups: [{name: a, users: [b], quotas: {hrn://a.example: {minutes: 5, reset: '04:00', for: group}}}]",
    "decrypt: without-pages",
    "groups: [{name: a, users: [b], relayed: end, decrypt: never, always-decrypt: {hosts: [a.example]}}]",
    "log: on",
    "log: off",
    "log: {}",
    "log: {what: all, queries: keep, clients: drop, folder: ~/log, size: 64KiB, files: 1, days: 3650, rows: 0}",
    "log: {gzip: on}",
    "log: {also: stdout}",
    "log: {also: ['syslog:/dev/log', 'syslog+udp://logs.example:514', 'syslog+tcp://[::1]:65535']}",
    "live: on",
    "live: off",
    "live: {}",
    "live: {clients: [192.168.1.0/24, '::1'], users: [admin, 7]}",
    "log: {size: 1048576}",
    "log: {size: 1 GiB}",
    "keep-headers: []",
    "require-patches: on",
    "require-patches: off",
    "keep-headers: [dav.example, =b.example, 192.0.2.0/24, {file: list.txt}]",
    "dns: {}",
    "dns: {blocked: nxdomain}",
    "dns: {blocked: refused}",
    "dns: {blocked: 192.0.2.80}",
    "dns: {blocked: ['2001:db8::80', 192.0.2.80]}",
    "on-failure: open",
    "on-failure: closed",
    "on-failure: {}",
    "on-failure: {default: open, start: closed, index: closed, error: open}",
    "groups: []",
    "groups: [{name: a, clients: [10.0.0.7, 10.1.0.0/16, 10.0.0.0/255.0.0.0, '::1', 'fd00::/8', '::ffff:10.0.0.1']}]",
    "groups: [{name: 7, users: [anna, 1234], ports: [8081, 0, 65535]}]",
    "groups: [{name: a, users: [b], layers: []}]",
    "schedules: {s: {days: mon}, t: [{days: 'Mon-Fri, SUNDAY', except: s}, {days: [fri - mon, wed]}]}",
    "schedules: {s: {dates: 2026-12-24, times: 22:00-06:00}, t: {dates: [2026-12-24..2027-01-06, 2028-02-29]}}",
    "schedules: {'my days': {dates: '2026-12-24, 2026-12-26'}, s: {times: 8:00–9:00, except: [my days, 2026-01-01]}}",
    "schedules: {Ferien: {days: sat-sun}, a: {days: mon, except: 'Ferien, 2026-01-01..2026-01-02'}}",
]
GOOD_LAYERS = [
    "[{name: a}]",
    "[{name: 1, lists: [list.yaml], checks: {}}]",
    "[{name: a, checks: {rare-ipv4: {action: tag}, well-known-port: {action: block, ports: [81]}, encoded-nul: pass}}]",
    "[{name: a, lists: [{file: list.txt, format: domains, name: hrn://a.example/b, title: 9, action: warn}]}]",
    "[{name: a, lists: [{file: list.txt, format: safebrowsing-raw, prefix-length: 4, category: hrn://a.example}]}]",
    "[{name: a, lists: [{file: list.txt, format: hashed-uris, variant: p}]}]",
    "[{name: a, lists: [{url: 'https://a.example/l', every: 12h, optional: true, format: domains, title: x}]}]",
    "[{name: a, lists: [{safe-browsing: {version: 5, lists: [mw-4b], server: 'https://a.example'}, optional: true}]}]",
    "[{name: a, lists: [{safe-browsing: {version: 4, lists: [MALWARE, SOCIAL_ENGINEERING/LINUX/URL], "
    "server: 'http://127.0.0.1:9/x', no-answer: block, category: {MALWARE: 'hrn://a.example'}}, optional: true}]}]",
    f"[{{name: a, lists: [{{url: 'http://a.example/l', sha256: {'0a' * 32}, optional: true}}]}}]",
    "[{name: a, lists: [{url: 'http://a.example/l', key: RWQf6LRCGA9i53mlYecO4IzT51TGPpvWucNSCh1CBM0QTaLn73Y7GFO3, "
    "signature: 'http://a.example/s', optional: true}]}]",
]
GOOD_LISTS = [
    "rules: []",
    "{title: 2024, description: on, reason: 404, rules: [a.example, 'http://b.example/c?d', bücher.example]}",
    "rules: [{expression: a.example, action: allow, expires: 2030-07-31, category: hrn://a.example/b, reason: Yes}]",
    "rules: [{expression: 'https://a.example/b', match: simple}, {expression: 'http://b.example:80', match: scheme}]",
    "rules: [{sha256: 12345678}, {sha256: 12345e78}, {sha256: 0BADF00D, action: warn}]",
    f"rules: [{{sha256: {'0a' * 32}, action: allow}}]",
    f"{{seal: f87dde256ef1fd9a, rules: [{{sealed: 12345678}}, {{sealed: {'0a' * 32}, action: allow}}]}}",
    "rules: [{address: 192.0.2.0/24}, {address: 192.0.2.7}, {address: 2001:db8::/32, action: tag}]",
    f"rules: ['hashed:sha1={'0a' * 20}', {{uri: 'HASHED:MD5={'0A' * 16}+Query'}}]",
]
WRONG_POLICIES = [
    "keep-headers: dav.example",
    "require-patches: some",
    "keep-headers: {hosts: [dav.example]}",
    "keep-headers: ['*.dav.example']",
    "dns: off",
    "dns: {blocked: drop}",
    "dns: {blocked: []}",
    "dns: {blocked: [nxdomain, 192.0.2.80]}",
    "dns: {blocked: [192.0.2.80, '::1', 192.0.2.81]}",
    "colour: red",
    "unparsable: allow",
    "unknown-context: tag",
    "unparsable: [block]",
    "timezone: ' '",
    "timezone: [UTC]",
    "mode: on",
    "mode: BLOCK",
    "mode:",
    "block-page: []",
    "default: allow",
    "default: tag",
    "default: {action: block, otherwise: pass}",
    "default: {during: s}\nschedules: {s: {days: mon}}",
    "categories: [hrn://a.example]",
    "categories: {socials: block}",
    "categories: {hrn://a.example/: block}",
    "categories: {hrn://-/a: block}",
    "categories: {hrn://a_b.example/c: block}",
    "categories: {hrn://a.example/b: {action: off}}",
    "categories: {hrn://a.example/b: {otherwise: block}}",
    "safe-search: on",
    "safe-search: [altavista]",
    "safe-search: {google: moderate}",
    "safe-search: {altavista: strict}",
    "unblock: maybe",
    "unblock: {codes: off}",
    "unblock: {passphrase: secret}",
    "unblock: {scopes: [domain]}",
    "unblock: {scopes: host}",
    "unblock: {minutes: [0]}",
    "unblock: {minutes: [1441]}",
    "unblock: {minutes: [1.5]}",
    "unblock: {minutes: 30}",
    "on-failure: maybe",
    "on-failure: [open]",
    "on-failure: {reload: open}",
    "on-failure: {error: {}}",
    "pass-through: bank.example",
    "pass-through: {failed-handshakes: report}",
    "pass-through: {hosts: [bank.example], failed-handshakes: ignore}",
    "pass-through: ['*.bank.example']",
    "pass-through: [bank.example/login]",
    "pass-through: ['bank.example/login:25']",
    "pass-through: [{}]",
    "decrypt: some",
    "relayed: on",
    "quotas: [60]",
    "quotas: {gamez: 60}",
    "quotas: {hrn://a.example: 0}",
    "quotas: {hrn://a.example: 1441}",
    "quotas: {hrn://a.example: []}",
    "quotas: {hrn://a.example: {per: day}}",
    "decrypt: on",
    "always-decrypt: cdn.example",
    "always-decrypt: {}",
    "always-decrypt: {categories: [cdn]}",
    "always-decrypt: ['*.cdn.example']",
    "log: maybe",
    "log: [all]",
    "log: {what: everything}",
    "log: {clients: hash}",
    "log: {size: 10 MiBi}",
    "log: {size: 1}",
    "log: {files: 0}",
    "log: {days: 3651}",
    "log: {rows: 10000001}",
    "log: {gzip: maybe}",
    "log: {also: stderr}",
    "log: {also: 7}",
    "log: {also: 'syslog:dev/log'}",
    "log: {also: 'syslog+tcp://logs.example'}",
    "log: {also: 'syslog+udp://logs.example:65536'}",
    "log: {also: 'syslog+udp://logs.example:0'}",
    "log: {also: [stdout, stdout]}",
    "log: {also: ['syslog:/a', 'syslog:/b', 'syslog:/c', 'syslog:/d', 'syslog:/e']}",
    "live: maybe",
    "live: [10.0.0.0/8]",
    "live: {clients: []}",
    "live: {clients: 10.0.0.7}",
    "live: {clients: [printer]}",
    "live: {users: []}",
    "live: {users: ['']}",
    "live: {ports: [80]}",
    "groups: {kids: []}",
    "groups: [kids]",
    "groups: [{name: kids}]",
    "groups: [{users: [anna]}]",
    "groups: [{name: default, users: [anna]}]",
    "groups: [{name: a, clients: 10.0.0.7}]",
    "groups: [{name: a, clients: [10.0.0.256]}]",
    "groups: [{name: a, clients: [10.0.0.0/33]}]",
    "groups: [{name: a, clients: ['fd00::/129']}]",
    "groups: [{name: a, clients: [printer]}]",
    "groups: [{name: a, users: ['']}]",
    "groups: [{name: a, ports: [65536]}]",
    "groups: [{name: a, ports: [http]}]",
    "groups: [{name: a, users: [b], log: on}]",
    "schedules: [lessons]",
    "schedules: {'1': {days: mon}}",
    "schedules: {'a,b': {days: mon}}",
    "schedules: {s: []}",
    "schedules: {s: {}}",
    "schedules: {s: {except: 2026-12-24}}",
    "schedules: {s: {days: mo}}",
    "schedules: {s: {days: mon-wed-fri}}",
    "schedules: {s: {days: 'mon,'}}",
    "schedules: {s: {days: []}}",
    "schedules: {s: {dates: 24.12.2026}}",
    "schedules: {s: {dates: 2026-13-01}}",
    "schedules: {s: {dates: 2026-12-24-2026-12-26}}",
    "schedules: {s: {times: 08:00}}",
    "schedules: {s: {times: 24:00-08:00}}",
    "schedules: {s: {times: 8-12}}",
    "schedules: {s: {times: 08:00-12:60}}",
    "schedules: {s: {days: mon, until: 2026-12-24}}",
]
WRONG_LAYERS = [
    "{}",
    "",
    "[overrides]",
    "[{lists: [list.yaml]}]",
    "[{name: default}]",
    "[{name: ''}]",
    "[{name: a, list: list.yaml}]",
    "[{name: a, lists: list.yaml}]",
    "[{name: a, lists: [{format: domains}]}]",
    "[{name: a, lists: [{file: list.txt, format: text}]}]",
    "[{name: a, lists: [{file: list.txt, format: domains, prefix-length: 4}]}]",
    "[{name: a, lists: [{file: list.txt, format: safebrowsing-raw}]}]",
    "[{name: a, lists: [{file: list.txt, format: safebrowsing-raw, prefix-length: 3}]}]",
    "[{name: a, lists: [{file: list.txt, format: domains, action: stop}]}]",
    "[{name: a, lists: [{file: list.txt, format: domains, category: socials}]}]",
    "[{name: a, lists: [{file: list.txt, format: domains, variant: x}]}]",
    "[{name: a, lists: [{url: 'https://a.example/l', file: list.txt, optional: true}]}]",
    "[{name: a, lists: [{file: list.txt, every: 12h}]}]",
    "[{name: a, lists: [{url: 'https://a.example/l', signature: 'https://a.example/s', optional: true}]}]",
    "[{name: a, lists: [{url: 'https://a.example/l', optional: maybe}]}]",
    "[{name: a, checks: [rare-ipv4]}]",
    "[{name: a, checks: {rare-ipv6: block}}]",
    "[{name: a, checks: {rare-ipv4: warn}}]",
    "[{name: a, checks: {rare-ipv4: {action: block, ports: [81]}}}]",
    "[{name: a, checks: {well-known-port: {ports: [81]}}}]",
]
WRONG_LISTS = [
    "{}",
    "[a.example]",
    "rules:",
    "rules: {a.example: block}",
    "{rules: [], colour: red}",
    "{rules: [], action: stop}",
    "{rules: [], name: games}",
    "{rules: [], title: []}",
    "rules: [[a.example]]",
    "rules: ['']",
    "rules: ['a b.example']",
    "rules: ['*.a.example']",
    "rules: ['||a.example^']",
    "rules: [{}]",
    "rules: [{reason: x}]",
    "rules: [{expression: a.example, sha256: 0badf00d}]",
    "rules: [{expression: a.example, action: stop}]",
    "rules: [{expression: a.example, expires: 31.12.2030}]",
    "rules: [{expression: a.example, category: gamez}]",
    "rules: [{expression: a.example, days: mon}]",
    "rules: [{expression: 'http://a.example/', match: exact}]",
    "rules: [{expression: a.example/b, match: simple}]",
    "rules: [{expression: 'ftp://a.example/', match: scheme}]",
    "rules: [{expression: 'http://me@a.example/', match: scheme}]",
    "rules: [{expression: 'http://a.example/?b#c', match: scheme}]",
    "rules: [{sha256: 0badf00d, match: simple}]",
    f"rules: [{{uri: 'hashed:sha1={'0a' * 20}', match: syntax}}]",
    "rules: [{address: 192.0.2.7, match: scheme}]",
    "rules: [{sha256: 0badf0}]",
    "rules: [{sha256: 0badf00dd}]",
    "rules: [{sha256: 0badf00g}]",
    "rules: [{sha256: 0badf00d, action: allow}]",
    "rules: [{address: a.example}]",
    "rules: [{address: 192.0.2.0/33}]",
    "rules: ['hashed:sha1']",
    "rules: [{uri: 'http://a.example/'}]",
    "rules: [{uri: 'hashed:sha1=xyz'}]",
]


def policy_of(text: str) -> str:
    return f"{text}\nlayers: []\n"


GOOD = [
    *(("policy", policy_of(text)) for text in GOOD_POLICIES),
    *(("policy", f"layers: {text}\n") for text in GOOD_LAYERS),
    *(("list", text) for text in GOOD_LISTS),
]
WRONG = [
    ("policy", "unparsable: block"),
    ("policy", "[]"),
    *(("policy", policy_of(text)) for text in WRONG_POLICIES),
    *(("policy", f"layers: {text}\n") for text in WRONG_LAYERS),
    *(("list", text) for text in WRONG_LISTS),
]


@pytest.mark.slow
@each_row(("schema", "text"), GOOD)
def test_schema_and_loader_both_accept_what_is_good(tmp_path: Path, schema: str, text: str) -> None:
    told_by = map(partial(complaints, schema, text), (Yaml11, Yaml12))
    assert [LOADERS[schema](tmp_path, text), *told_by] == [[], [], []]


@pytest.mark.slow
@each_row(("schema", "text"), WRONG)
def test_schema_and_loader_both_refuse_what_is_wrong(tmp_path: Path, schema: str, text: str) -> None:
    assert LOADERS[schema](tmp_path, text)
    assert complaints(schema, text, Yaml11)
    assert complaints(schema, text, Yaml12)


@each_row(
    "text",
    [
        "layers: [{name: a}, {name: a}]",
        "layers: [{name: a, during: lessons}]",
        "layers: [{name: a, lists: [none.yaml]}]",
        "layers: []\ntimezone: Europe/Atlantis",
        "layers: []\nblock-page: none.html",
        "layers: []\ngroups: [{name: a, users: [b], layers: [c]}]",
        "layers: []\ngroups: [{name: a, clients: [10.0.0.7/8]}]",
        "layers: []\nschedules: {s: {dates: 2026-02-30}}",
        "layers: []\nschedules: {s: {times: 08:00-08:00}}",
        "layers: []\nschedules: {s: {days: mon, except: s}}",
    ],
)
def test_only_the_loader_sees_what_names_and_numbers_stand_for(tmp_path: Path, text: str) -> None:
    assert errors_of_policy(tmp_path, text)
    assert complaints("policy", text, Yaml12) == []
