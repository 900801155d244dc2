"""What each format's reader makes of a few lines; how a format is told; what every reader does with every sample."""

import http.client
import os
import re
import shutil
import socket
import subprocess
from pathlib import Path
from re import _parser as parser  # type: ignore[attr-defined]

import pytest

from hushlist.core.compile.policy_compiler import compile_policy
from hushlist.core.decide.engine import Engine
from hushlist.core.lists.format_detection import format_of
from hushlist.core.lists.list_formats import FORMATS, list_format_of
from hushlist.core.lists.list_source import ListDefaults, ProblemReport
from hushlist.core.match.rule import Action, each_rule
from hushlist.core.policy.policy_file import list_files
from support.readings import read_list, read_rules
from unit.extensions.formats.samples import SAMPLES
from unit.rows import each_row
from unit.test_regular_expressions import LIMIT, LONG, TIMES, seconds, texts, unsafe

#: formats that only a name or a policy tells
NOT_BY_CONTENT = {"yaml", "squidguard-urls", "chromium", "safebrowsing-raw", "searches", "words"}
BY_NAME = [name for name in SAMPLES if name not in NOT_BY_CONTENT]


def test_every_format_has_a_sample() -> None:
    assert set(SAMPLES) | {"safebrowsing-raw"} == set(FORMATS)


@each_row("name", SAMPLES)
def test_a_sample_becomes_these_rules_and_warnings(name: str) -> None:
    sample = SAMPLES[name]
    assert read_rules(FORMATS[name].read_blocks, sample.text) == (sample.rules, sample.warnings)


@each_row("name", BY_NAME)
def test_the_content_tells_the_format(name: str) -> None:
    assert format_of(SAMPLES[name].text.encode()).form == name
    assert format_of(b"\xef\xbb\xbf" + SAMPLES[name].text.replace("\n", "\r\n").encode()).form == name


def test_the_content_of_every_other_format_never_tells_these() -> None:
    told = {format_of(sample.text.encode()).form for name, sample in SAMPLES.items()}
    assert told & NOT_BY_CONTENT == set()


def test_every_reader_takes_every_sample_in_its_stride() -> None:
    """No reader fails on another format's text; what it takes to be rules stands in a line of the text."""
    for name, form in FORMATS.items():
        for other, sample in SAMPLES.items():
            report = ProblemReport("f")
            rules = list(each_rule(form.read_blocks(sample.text.encode(), ListDefaults(prefix_length=4), report)))
            if name != "safebrowsing-raw":
                assert all(1 <= rule.line <= sample.text.count("\n") + 1 for rule in rules), (name, other)
            is_told = rules or report.errors or report.refused or report.warnings
            assert is_told or name in ("pac", "unbound", "privoxy"), (name, other)


#: reader -> the formats whose samples it reads without a loss, for which another one is told all the same
TAKES_WHOLE = {
    "domains": {"address-ports"},
    "urls": {"domains", "squidguard-urls", "chromium", "address-ports"},
    "adblock-hosts": {"domains", "clash-text"},
}


@each_row(("name", "others"), list(TAKES_WHOLE.items()))
def test_of_formats_that_lose_nothing_the_telling_one_is_taken(name: str, others: set[str]) -> None:
    for other in others:
        _, errors, warnings = read_list(FORMATS[name].read_blocks, SAMPLES[other].text)
        assert (errors, warnings) == ([], []), other
        assert format_of(SAMPLES[other].text.encode()).form != name or other in NOT_BY_CONTENT


def test_a_tie_is_an_error_that_names_both() -> None:
    told = format_of(b"||a.example^\n" * 5 + b"domain:b.example\n" * 5)
    assert told.form is None
    both = format_of(b'{"URLBlocklist": ["a.example"], "denied-remote-domains": ["b.example"]}')
    assert both.form is None
    assert "little-snitch and chromium-policy" in both.doubt


@each_row(
    ("file", "text", "form"),
    [
        ("ads.yaml", "payload:\n- a.example\n", "clash"),
        ("ads.yaml", "# Clash\npayload: [a.example]\n", "clash"),
        ("ads.yaml", "rules:\n- a.example\n", "yaml"),
        ("ads.lsrules", '{"denied-remote-domains": ["a.example"]}', "little-snitch"),
        ("ads.json", '{"rules": [{"domain": ["a.example"]}]}', "sing-box"),
        ("unbound.conf", "server:\n", "unbound"),
        ("proxy.pac", "", "pac"),
        ("user.action", "", "privoxy"),
        ("ads.rsc", "", "mikrotik"),
        ("ads.tsv", "a\tb\n", "tsv"),
    ],
)
def test_the_name_of_a_file_is_a_hint(tmp_path: Path, file: str, text: str, form: str) -> None:
    (tmp_path / file).write_text(text)
    [found] = list_files(tmp_path / file, list_format_of(Path(file)), ListDefaults())
    assert found.format == FORMATS[form]


@pytest.mark.slow
@each_row(
    ("name", "blocked", "passed"),
    [
        ("unbound", ["a.example", "x.b.example"], ["c.a.example", "d.example"]),
        ("smartdns", ["x.b.example", "d.example"], ["c.a.example", "e.example"]),
        ("dnscrypt", ["x.a.example", "ads.test", "mytracker.test", "ads7.c.example"], ["myads.test", "d.example"]),
        ("pihole-regex", ["x.a.example", "adsystem7.test", "x.ads.example"], ["xa.example", "x.y.ads.example"]),
        ("blocky", ["x.b.example", "ads12.test", "banner.test", "on-track.test"], ["myads1.test"]),
        ("mikrotik", ["a.example", "ads1.test", "192.0.2.77"], ["nas.example", "192.0.3.1"]),
        ("squid-acl", ["x.a.example", "192.0.2.3", "h.test/banner/x"], ["c.example", "h.test/x/banner/"]),
        ("privoxy", ["x.a.example", "ads7.b.example", "c.example/banners/x", "h.test/x/adserver/"], ["good.a.example"]),
        ("privoxy", [], ["d.example", "x.ads7.b.example", "c.example/", "h.test/adserver/"]),
        (
            "pac",
            ["x.a.example", "ads7.b.example", "h.test/x/banner/y"],
            ["10.0.0.1", "myads.b.example", "h.test/banners"],
        ),
        ("clash", ["x.a.example", "mytracker.test", "192.0.2.3"], ["c.example"]),
        ("surge", ["a.example", "x.b.example", "mytracker.test", "192.0.2.3"], ["c.example"]),
        ("quantumult", ["a.example", "mytracker.test"], ["c.example"]),
        ("v2fly", ["x.a.example", "mytracker.test", "ads7.test", "c.example"], ["others", "myads7.test"]),
        ("sing-box", ["a.example", "x.b.example", "mytracker.test", "ads7.test", "192.0.2.3"], ["c.example"]),
        ("control-d", ["a.example", "x.b.example"], ["c.a.example", "d.example"]),
        ("chromium-policy", ["a.example", "b.example/x/y"], ["c.a.example", "b.example/"]),
        ("threatfox", ["a.example", "192.0.2.1"], ["b.example"]),
        ("stix", ["a.example/x", "b.example", "192.0.2.9"], ["a.example/"]),
        ("little-snitch", ["x.a.example", "c.example", "192.0.2.1"], ["d.example"]),
    ],
)
def test_requests_are_decided_as_the_other_program_means_it(
    tmp_path: Path, name: str, blocked: list[str], passed: list[str]
) -> None:
    (tmp_path / "list").write_text(SAMPLES[name].text)
    (tmp_path / "policy.yaml").write_text(f"layers: [{{name: l, lists: [{{file: list, format: {name}}}]}}]")
    compiled = compile_policy(tmp_path / "policy.yaml")
    engine = Engine(compiled.policy, compiled.index)
    for urls, action in ((blocked, Action.BLOCK), (passed, Action.PASS)):
        for url in urls:
            decided = engine.decide_url(f"http://{url if '/' in url else url + '/'}".encode()).action
            assert decided is action or (action is Action.PASS and decided is Action.ALLOW), url
    compiled.let_go()


PRIVOXY = shutil.which("privoxy", path=f"{os.environ['PATH']}:/usr/sbin")
PATTERNS = """\
{+block{more}}
ad[0-9]?.c.
.d.
.e.example/(.*/)?banner[0-9]+\\.gif$
/x/y
f.example
{ -block }
fine.d.example/ok
"""
PARTS = ("x.{}", "{}", "{}/x/y/z", "{}/banners/x", "{}/x/adserver/", "{}/a/banner7.gif", "{}/banner7.gif?a", "{}/ok")
HOSTS = (
    "a.example",
    "good.a.example",
    "ads7.b.example",
    "c.example",
    "ad1.c.example",
    "ad12.c.test",
    "adx.c",
    "d.example",
)
MORE_HOSTS = ("fine.d.example", "www.d.test", "ed.example", "e.example", "www.e.example", "f.example", "h.test")
#: URLs whose decision is not Privoxy's -> whether Privoxy blocks them
DIFFERENT = {
    # a host without a dot in front stands for the hosts below it, too
    "x.good.a.example": True,
    "ad1.c.example/banners/x": False,
    "x.f.example": False,
    # an exception holds whatever a later section blocks
    "good.a.example/x/y/z": True,
}


@pytest.mark.slow
@pytest.mark.skipif(PRIVOXY is None, reason="Privoxy is not installed")
def test_privoxy_decides_alike(tmp_path: Path) -> None:
    text = SAMPLES["privoxy"].text + PATTERNS
    (tmp_path / "list.action").write_text(text)
    (tmp_path / "policy.yaml").write_text("layers: [{name: l, lists: [list.action]}]")
    compiled = compile_policy(tmp_path / "policy.yaml")
    engine = Engine(compiled.policy, compiled.index)
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    # what it does not block goes where nothing listens
    config = f"confdir {tmp_path}\nlisten-address 127.0.0.1:{port}\nactionsfile {tmp_path}/list.action\ndebug 4096\n"
    (tmp_path / "config").write_text(f"{config}templdir /etc/privoxy/templates\nforward / 127.0.0.1:1\n")
    assert PRIVOXY
    others = dict[str, bool]()
    command = [PRIVOXY, "--no-daemon", str(tmp_path / "config")]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as privoxy:
        try:
            assert privoxy.stderr
            assert any("Listening on port" in line for line in privoxy.stderr)
            for url in (part.format(host) for host in (*HOSTS, *MORE_HOSTS) for part in PARTS):
                own = f"http://{url if '/' in url else url + '/'}"
                client = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
                client.request("GET", own)
                is_blocked = client.getresponse().status == 403
                client.close()
                if (engine.decide_url(own.encode()).action is Action.BLOCK) is not is_blocked:
                    others[url] = is_blocked
        finally:
            privoxy.kill()
    compiled.let_go()
    assert others == DIFFERENT


@pytest.mark.slow
def test_what_tells_a_format_is_done_in_time_with_whatever_is_long() -> None:
    """What the rows say is no pattern of a module, which ``test_regular_expressions`` would find."""
    compiled = {name: re.compile(form.entry) for name, form in FORMATS.items() if form.entry and not form.counter}
    heads = {name: re.compile(form.head) for name, form in FORMATS.items() if form.head}
    for name, pattern, method in (
        *((name, own, "fullmatch") for name, own in compiled.items()),
        *((name, own, "match") for name, own in heads.items()),
    ):
        assert not list(unsafe(list(parser.parse(pattern.pattern, pattern.flags)))), name
        for short, long in zip(texts(LONG // TIMES), texts(LONG), strict=True):
            if seconds(pattern, method, short) > LIMIT / TIMES**2:
                assert seconds(pattern, method, long) < LIMIT, (name, long[:20])
