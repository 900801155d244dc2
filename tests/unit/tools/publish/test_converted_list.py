"""``hushlist convert``: what is written, that it means the same where it is read, and what other programs say of it."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from hushlist.core.compile.policy_compiler import compile_policy
from hushlist.core.decide.engine import Engine
from hushlist.core.lists.format_detection import format_of
from hushlist.core.lists.list_formats import FORMATS
from hushlist.core.match.rule import Action
from hushlist.tools.publish.converted_list import TARGETS, YAML, Converted, convert
from support.readings import read_list
from unit.rows import each_row

NAMES = """! Title: AdGuard DNS filter
||a.example^
||x.a.example^
@@||ok.a.example^
||deep.ok.a.example^
/^ads[0-9]+\\./
tracker
192.0.2.7
"""
RULES = """rules:
- a.example
- b.example/live/
- b.example/page
- {expression: ok.a.example, action: allow}
- {expression: deep.ok.a.example}
- {address: 192.0.2.0/24}
- {address: 2001:db8::/32}
- {expression: warned.example, action: warn, reason: why}
- {sha256: 00112233}
- xn--bcher-kva.example
"""
SOURCES = {"adblock-dns": NAMES, "yaml": RULES, "dnsmasq": "address=/a.example/\nserver=/ok.a.example/#\n"}
#: a host or a URL, which is blocked by the list in YAML or by that of names
URLS = (
    *("a.example", "x.a.example", "ok.a.example", "deep.ok.a.example", "b.example/live/x", "b.example/page?q=1"),
    *("b.example", "b.example/page/x", "ads7.example", "mytracker.example", "192.0.2.7", "xn--bcher-kva.example"),
)


def converted(source: str, form: str) -> Converted:
    rules, errors, _ = read_list(FORMATS[source].read_blocks, SOURCES[source])
    assert errors == []
    return convert(rules, form)


def blocked(folder: Path, form: str, text: str) -> list[bool]:
    (folder / "list").write_text(text)
    (folder / "policy.yaml").write_text(f"layers: [{{name: l, lists: [{{file: list, format: {form}}}]}}]")
    compiled = compile_policy(folder / "policy.yaml")
    engine = Engine(compiled.policy, compiled.index)
    urls = (f"http://{url if '/' in url else url + '/'}".encode() for url in URLS)
    found = [engine.decide_url(url).action is Action.BLOCK for url in urls]
    compiled.let_go()
    return found


@pytest.mark.slow
@each_row("form", [*TARGETS, YAML])
@each_row("source", SOURCES)
def test_what_is_written_blocks_what_the_list_does_but_for_what_is_left_out(
    tmp_path: Path, source: str, form: str
) -> None:
    found = converted(source, form)
    before, after = blocked(tmp_path, source, SOURCES[source]), blocked(tmp_path, form, found.text)
    # without exceptions, more may be blocked, and without patterns less: both are named
    different = [url for url, was, is_ in zip(URLS, before, after, strict=True) if was is not is_]
    assert bool(found.left_out) or not different, different
    assert found.left_out == len(found.problems)
    names = {"ok.a.example", "deep.ok.a.example"} if "exceptions" in "".join(map(str, found.problems)) else set()
    assert {url for url in different if after[URLS.index(url)]} <= names


@each_row(
    ("form", "text", "left_out"),
    [
        ("hosts", "0.0.0.0 a.example\n0.0.0.0 x.a.example\n", 5),
        ("domains", "a.example\nx.a.example\n192.0.2.7\n", 4),
        ("dnsmasq", "address=/a.example/\naddress=/x.a.example/\nserver=/ok.a.example/#\n", 4),
        (
            "clash",
            "payload:\n  - DOMAIN-SUFFIX,a.example\n  - DOMAIN-SUFFIX,x.a.example\n  - 'DOMAIN-REGEX,^ads[0-9]+\\.'\n"
            "  - 'DOMAIN-KEYWORD,tracker'\n  - IP-CIDR,192.0.2.7/32\n",
            2,
        ),
        (
            "squid-acl",
            "acl hushlist dstdomain .a.example\nacl hushlist-allowed dstdomain .ok.a.example\n"
            "acl hushlist-names dstdom_regex -i ^ads[0-9]+\\.\nacl hushlist-names dstdom_regex -i tracker\n"
            "acl hushlist-addresses dst 192.0.2.7/32\nhttp_access deny hushlist !hushlist-allowed\n"
            "http_access deny hushlist-addresses !hushlist-allowed\n"
            "http_access deny hushlist-names !hushlist-allowed\n",
            1,
        ),
    ],
)
def test_a_list_of_names_is_written_so(form: str, text: str, left_out: int) -> None:
    found = converted("adblock-dns", form)
    assert (found.text, found.left_out) == (text, left_out)


def test_yaml_keeps_all_terms_and_what_it_cannot_say_is_named() -> None:
    found = converted("yaml", "yaml")
    assert yaml.safe_load(found.text)["rules"][7] == {
        "expression": "warned.example/",
        "action": "warn",
        "reason": "why",
    }
    assert found.left_out == 0
    assert [str(own) for own in converted("dnsmasq", "yaml").problems] == [
        "f:2: @@||ok.a.example^: left out: yaml: it has no patterns and no exceptions as Adblock lists have them"
    ]


@each_row("form", [form for form in TARGETS if form not in ("hosts", "domains")])
def test_the_format_that_is_written_is_told_by_its_content(form: str) -> None:
    assert format_of(converted("adblock-dns", form).text.encode()).form == form


@each_row("form", [*TARGETS, YAML])
def test_no_rule_at_all_is_a_list_all_the_same(form: str) -> None:
    _, errors, _ = read_list(FORMATS[form].read_blocks, convert([], form).text)
    assert errors == [] or form == "sing-box"


#: format -> what tests it, and what stands around the list
TOOLS = {
    "unbound": (["unbound-checkconf", "{}"], "", ""),
    "rpz": (["named-checkzone", "rpz.example", "{}"], "", ""),
    "dnsmasq": (["dnsmasq", "--test", "--conf-file={}"], "", ""),
    "squid-acl": (["squid", "-k", "parse", "-f", "{}"], "http_port 3128\n", "http_access allow all\n"),
}


@pytest.mark.slow
@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("form", TOOLS)
def test_the_program_that_reads_a_format_takes_what_is_written(tmp_path: Path, form: str, source: str) -> None:
    command, before, behind = TOOLS[form]
    path = f"{os.environ['PATH']}:/usr/sbin"
    tool = shutil.which(command[0], path=path)
    if tool is None:
        pytest.skip(f"{command[0]} is not installed")
    file = tmp_path / "list.conf"
    file.write_text(before + converted(source, form).text + behind)
    done = subprocess.run(
        [tool, *(part.format(file) for part in command[1:])], capture_output=True, text=True, check=False, cwd=tmp_path
    )
    said = done.stdout + done.stderr
    assert done.returncode == 0, said
    assert not [line for line in said.splitlines() if "ERROR" in line or "FATAL" in line], said
