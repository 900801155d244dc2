"""squidGuard and ufdbGuard: sources, destinations, times and access, decided as they would."""

from pathlib import Path

import pytest

from hushlist.core.errors import SourceError
from hushlist.tools.importing.squidguard import read_squidguard
from unit.rows import each_row
from unit.tools.importing.deciding import Written

CONF = """\
# as in squidGuard's documentation
dbhome db
logdir /var/log/squidguard

time workhours {
    weekly mtwhf 08:00 - 16:30   # the days' letters
    date 2026.12.26 09:00-11:00
    date *-*-01 08:00-16:30
}
rewrite search {
    s@(.*google.*/search.*)@\\1\\&safe=active@i
}
src admin within workhours {
    ip    10.0.0.5 10.0.0.16/28
    user  root foo
}
source office {
    ip 172.16.2.32-172.16.2.100 172.16.2.200
}
src branch {
    ip 172.16.4.0/26
    domain foo.bar
}
src kids { iplist kids.ips }

dest good { domainlist good/domains }
dest adult {
    domainlist     adult/domains
    urllist        adult/urls
    expressionlist adult/expressions
    redirect       302:http://proxy.example/cgi?clientaddr=%a&url=%u#x
    log anonymous  adult.log
}
dest games within workhours { domainlist games/domains }
destination missing {
    domainlist missing/domains
}
acl {
    admin { pass any }
    office outside workhours {
        pass !games good !in-addr !adult all
    } else {
        pass !adult good none
    }
    kids { pass good none }
    branch { pass all }
    default {
        pass good !adult !games !missing !nonsense all
        redirect http://proxy.example/cgi?url=%u
        rewrite search
    }
}
"""
FILES = {
    "kids.ips": "10.9.0.1-10.9.0.3\n",
    "good/domains": "good.adult.example\n",
    "adult/domains": "adult.example http://elsewhere.example/\n",
    "adult/urls": "site.example/bad\n",
    "adult/expressions": "(^|[-.])sex\nfoo\n",
    "games/domains": "games.example\n",
}
WORK, EVENING = "2026-11-23T12:00", "2026-11-23T20:00"


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Written:
    folder = tmp_path_factory.mktemp("squidguard")
    return Written(read_squidguard(configured(folder, CONF)), folder / "out")


def configured(folder: Path, conf: str) -> Path:
    for name, text in FILES.items():
        (folder / "db" / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / "db" / name).write_text(text)
    path = folder / "squidGuard.conf"
    path.write_text(conf)
    return path


@each_row(
    ("url", "client", "at", "action"),
    [
        # default: in the order of its names, games while there is work
        ("good.adult.example", "", WORK, "allow"),
        ("adult.example", "", WORK, "block"),
        ("www.adult.example", "", EVENING, "block"),
        ("site.example/bad", "", WORK, "block"),
        ("site.example/good", "", WORK, "pass"),
        ("games.example", "", WORK, "block"),
        ("games.example", "", EVENING, "pass"),
        ("games.example", "", "2026-12-26T10:00", "block"),
        ("other.example", "10.1.1.1", WORK, "pass"),
        # the kids' addresses: nothing but what is good, at any time
        ("good.adult.example", "10.9.0.3", EVENING, "allow"),
        ("other.example", "10.9.0.3", EVENING, "block"),
        ("other.example", "10.9.0.4", EVENING, "pass"),
        # the office: two sets of rules
        ("other.example", "172.16.2.50", WORK, "block"),
        ("adult.example", "172.16.2.50", WORK, "block"),
        ("good.adult.example", "172.16.2.50", WORK, "block"),
        ("other.example", "172.16.2.50", EVENING, "pass"),
        ("192.0.2.1", "172.16.2.50", EVENING, "block"),
        ("192.0.2.1", "172.16.2.101", EVENING, "pass"),
        ("games.example", "172.16.2.50", EVENING, "pass"),
        # a source that is left out gets what holds for everybody
        ("adult.example", "172.16.4.1", WORK, "block"),
    ],
)
def test_decisions_are_those_of_squidguard(written: Written, url: str, client: str, at: str, action: str) -> None:
    assert written(url, client, at) == action


def test_a_source_has_addresses_of_both_kinds(tmp_path: Path) -> None:
    conf = "src a {\n ip 10.0.0.0/8\n ipv4 172.16.5.0/24\n ipv6 2001:db8::/64\n}\n"
    conf += "acl {\n a { pass none }\n default { pass all }\n}\n"
    decided = Written(read_squidguard(configured(tmp_path, conf)), tmp_path / "out")
    clients = {"10.1.1.1": "block", "172.16.5.9": "block", "2001:db8::9": "block", "2001:db9::9": "pass"}
    assert {client: decided("other.example", client) for client in clients} == clients


def test_a_source_needs_address_and_user_and_is_nobody_at_other_times(written: Written) -> None:
    assert written("adult.example", "10.0.0.5", WORK, "root") == "pass"
    assert written("adult.example", "10.0.0.5", WORK, "other") == "block"
    assert written("adult.example", "10.0.0.5", EVENING, "root") == "block"


@each_row(
    "words",
    [
        ("squidGuard.conf:5:", "timezone"),
        ("squidGuard.conf:8:", "date *-*-01"),
        ("squidGuard.conf:10:", "search", "rewriting"),
        ("squidGuard.conf:22:", "domain foo.bar", "whole source is left out"),
        ("squidGuard.conf:27:", "the page and the folder are rules"),
        ("squidGuard.conf:30:", "adult/expressions", "there are 2 in it"),
        ("squidGuard.conf:31:", "redirect", "page of Hushlist"),
        ("squidGuard.conf:36:", "missing/domains", "there is no such file"),
        ("squidGuard.conf:48:", "!nonsense", "there is no such destination"),
        ("squidGuard.conf:50:", "rewrite search"),
    ],
)
def test_what_is_left_out_is_named_with_its_line(written: Written, words: tuple[str, ...]) -> None:
    assert written.messages_with(*words)


def test_lists_are_copied_and_what_is_taken_over_is_not_named(written: Written) -> None:
    assert (written.folder / "lists/adult/urls").read_text() == "site.example/bad\n"
    assert not written.messages_with("good")


def test_a_group_passes_what_the_default_blocks(tmp_path: Path) -> None:
    conf = (
        "dbhome db\nsrc staff { ip 10.0.0.0/8 }\ndest many { domainlist games/domains }\nacl {\n staff { pass all }\n"
    )
    written = Written(read_squidguard(configured(tmp_path, conf + " default { pass many none }\n}\n")), tmp_path / "o")
    assert (written("x.example", "10.0.0.1"), written("x.example"), written("games.example")) == (
        "pass",
        "block",
        "allow",
    )


@each_row(
    ("rest", "action"),
    [("all", "pass"), ("any", "pass"), ("!none", "pass"), ("none", "block"), ("!all", "block"), ("!any", "block")],
)
def test_a_line_ends_with_what_is_done_with_the_rest(tmp_path: Path, rest: str, action: str) -> None:
    policy = read_squidguard(configured(tmp_path, f"acl {{\n default {{ pass {rest} !in-addr }}\n}}\n"))
    assert policy.everybody.settings.get("default", "pass") == action
    assert policy.everybody.layers == []


def test_the_rest_is_blocked_by_time(tmp_path: Path) -> None:
    conf = "time t { weekly * 08:00-12:00 }\nacl {\n default within t { pass none } else { pass any }\n}\n"
    written = Written(read_squidguard(configured(tmp_path, conf)), tmp_path / "o")
    assert (written("x.example", at="2026-11-22T09:00"), written("x.example", at=EVENING)) == ("block", "pass")


def test_a_source_is_one_at_its_own_times_and_says_who_is_in_a_file(tmp_path: Path) -> None:
    conf = (
        "dbhome db\ntime t { weekly * 08:00-12:00 }\nsrc late {\n ip 10.8.0.1\n within t\n logfile late.log\n}\n"
        "src staff { userlist staff.users }\n"
        "acl {\n late { pass none }\n staff { pass none }\n default { pass any }\n}\n"
    )
    path = configured(tmp_path, conf)
    (tmp_path / "db" / "staff.users").write_text("root:x\nfoo\n")
    written = Written(read_squidguard(path), tmp_path / "o")
    assert [written("x.example", user=name) for name in ("root", "foo", "root:x")] == ["block", "block", "pass"]
    actions = [written("x.example", "10.8.0.1", at=at) for at in ("2026-11-22T09:00", EVENING)]
    assert actions == ["block", "pass"]
    assert written.messages_with("logfile") == []


def test_ufdbguard_says_category_and_quotes_names(tmp_path: Path) -> None:
    conf = (
        'dbhome "db"\nsafe-search on\ncategory "adult" {\n  domainlist "adult/domains"\n  option x on\n}\n'
        'source "all" { ip 10.0.0.0/8 }\nacl {\n  "all" { pass !"adult" any }\n  default { pass none }\n}\n'
    )
    written = Written(read_squidguard(configured(tmp_path, conf)), tmp_path / "o")
    assert (written("adult.example", "10.0.0.1"), written("x.example", "10.0.0.1")) == ("block", "pass")
    assert written("x.example") == "block"
    assert written.engine.policy.settings.of("safe-search")["google"] == "strict"
    assert written.messages_with("squidGuard.conf:5:", "option x on")


@pytest.mark.parametrize(("conf", "why"), [("acl {\n", "a '}' is missing"), ("}\n", ":1: "), ("dest a {\n{\n", ":2: ")])
def test_braces_have_to_match(tmp_path: Path, conf: str, why: str) -> None:
    with pytest.raises(SourceError, match=why):
        read_squidguard(configured(tmp_path, conf))


def test_a_time_that_no_clock_shows_is_left_out(tmp_path: Path) -> None:
    conf = "time t {\n weekly * 24:30-25:00\n date 2026-02-30\n}\nacl {\n default within t { pass none }\n}\n"
    written = Written(read_squidguard(configured(tmp_path, conf)), tmp_path / "o")
    assert written("x.example") == "pass"
    assert written.messages_with("squidGuard.conf:1:", "24:30-25:00")
    assert written.messages_with("squidGuard.conf:1:", "2026-02-30")


def test_braces_may_stand_in_lines_of_their_own(tmp_path: Path) -> None:
    conf = (
        "dbhome db\ndest adult\n{\ndomainlist adult/domains\nlog adult.log }\nacl\n{\ndefault\n{\npass !adult\n}\n}\n"
    )
    written = Written(read_squidguard(configured(tmp_path, conf)), tmp_path / "o")
    assert (written("adult.example"), written.messages) == ("block", [])


def test_a_time_that_is_not_there_is_said(tmp_path: Path) -> None:
    policy = read_squidguard(configured(tmp_path, "dest a within b {\n}\n"))
    assert [str(problem) for problem in policy.warnings] == [
        "squidGuard.conf:1: within b: left out: there is no such time; what it says is taken to hold always"
    ]
