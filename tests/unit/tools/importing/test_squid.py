"""Squid: access lists, clients, times and the order of ``http_access``, decided as it would."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from hushlist.core.errors import SourceError
from hushlist.tools.importing.squid import read_squid
from unit.rows import each_row
from unit.tools.importing.deciding import Written

CONF = """\
# as many have it
http_port 3128
acl localnet src 10.0.0.0/8 \\
    172.16.0.5-172.16.0.9
acl kids src "kids.txt"
acl staff src 10.2.0.0/255.255.0.0
acl Safe_ports port 80
acl work time MTWHF 08:00-16:59
acl ads dstdomain .ads.example exact.example
acl ads dstdomain "ads.txt"   # more
acl fine dstdomain .fine.ads.example
acl words url_regex -i casino[0-9]+
acl names dstdom_regex -i ^track[0-9]*\\.
acl cased url_regex Poker
acl nets dst 192.0.2.0/24
acl school dstdomain .school.example
acl games dstdomain .games.example
include conf.d/*.conf
http_access deny !Safe_ports
http_access allow localhost manager
http_access allow staff school
http_access deny kids games work
http_access deny ads !fine
http_access deny words ads
http_access deny !school
http_access deny words
http_access deny names
http_access deny cased
http_access deny nets
http_access deny nothing
http_access allow kids !work school
http_access deny kids
http_access allow localnet
http_reply_access allow all
http_access deny all
"""
FILES = {
    "kids.txt": "# the children\n10.9.0.0/28 # room\nlaptop.example\n",
    "ads.txt": "# more\n\n.more.example\ntwo words\n",
    "conf.d/one.conf": "acl late dstdomain .late.example\nhttp_access deny late\ninclude one.conf\n"
    "acl paths urlpath_regex ^/banner popup[0-9] ^/a|^b\nhttp_access deny paths\n",
}
WORK, EVENING = "2026-11-23T12:00", "2026-11-23T20:00"


def configured(folder: Path, conf: str) -> Path:
    for name, text in {**FILES, "squid.conf": conf}.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder / "squid.conf"


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Written:
    folder = tmp_path_factory.mktemp("squid")
    return Written(read_squid(configured(folder, CONF)), folder / "out")


@each_row(
    ("url", "client", "at", "action"),
    [
        # nobody whom Squid knows
        ("other.example", "", WORK, "block"),
        ("other.example", "192.0.2.7", WORK, "block"),
        # the network
        ("other.example", "10.1.1.1", WORK, "pass"),
        ("other.example", "172.16.0.5", WORK, "pass"),
        ("other.example", "172.16.0.9", WORK, "pass"),
        ("other.example", "172.16.0.10", WORK, "block"),
        ("www.ads.example", "10.1.1.1", WORK, "block"),
        ("exact.example", "10.1.1.1", WORK, "block"),
        ("x.more.example", "10.1.1.1", WORK, "block"),
        ("www.fine.ads.example", "10.1.1.1", WORK, "allow"),
        ("www.fine.ads.example", "192.0.2.7", WORK, "block"),
        ("www.fine.ads.example", "10.9.0.3", WORK, "block"),
        ("site.example/Casino7", "10.1.1.1", WORK, "block"),
        ("site.example/casino", "10.1.1.1", WORK, "pass"),
        ("site.example/Poker", "10.1.1.1", WORK, "block"),
        ("site.example/poker", "10.1.1.1", WORK, "pass"),
        ("site.example/banner/x", "10.1.1.1", WORK, "block"),
        ("site.example/x/banner", "10.1.1.1", WORK, "pass"),
        ("site.example/x?popup7", "10.1.1.1", WORK, "block"),
        ("popup7.example/x", "10.1.1.1", WORK, "pass"),
        ("track7.site.example", "10.1.1.1", WORK, "block"),
        ("no.track7.example", "10.1.1.1", WORK, "pass"),
        ("192.0.2.9", "10.1.1.1", WORK, "block"),
        ("late.example", "10.1.1.1", WORK, "block"),
        ("games.example", "10.1.1.1", WORK, "pass"),
        # what an earlier line allows
        ("track7.school.example", "10.2.1.1", WORK, "allow"),
        ("track7.school.example", "10.1.1.1", WORK, "block"),
        # times
        ("games.example", "10.9.0.3", WORK, "block"),
        ("school.example", "10.9.0.3", EVENING, "allow"),
        ("school.example", "10.9.0.3", WORK, "block"),
        ("school.example", "10.9.0.3", "2026-11-28T12:00", "allow"),
        ("other.example", "10.9.0.3", EVENING, "block"),
        ("other.example", "10.9.0.16", EVENING, "pass"),
    ],
)
def test_decisions_are_those_of_squid(written: Written, url: str, client: str, at: str, action: str) -> None:
    assert written(url, client, at) == action


@each_row(
    "words",
    [
        ("squid.conf:5:", "laptop.example", "no address"),
        ("ads.txt:4:", "two words", "white space"),
        ("squid.conf:9:", "ads", "without a dot"),
        ("one.conf:3:", "too many files"),
        ("squid.conf:19:", "!Safe_ports", "the type port"),
        ("squid.conf:20:", "manager", "the type proto"),
        ("squid.conf:23:", "ads !fine", "not excepted for whom the rest is denied"),
        ("squid.conf:24:", "words ads", "where two lists do"),
        ("squid.conf:25:", "everything but a list"),
        ("squid.conf:30:", "no such access list"),
        ("paths.txt:3:", "a part alone"),
    ],
)
def test_what_is_left_out_is_named_with_its_line(written: Written, words: tuple[str, ...]) -> None:
    assert written.messages_with(*words)


def test_lists_are_files_of_squid_s(written: Written) -> None:
    text = (written.folder / "policy.yaml").read_text()
    assert text.count("format: squid-acl") >= 6
    assert (written.folder / "lists/words.txt").read_text() == "acl words url_regex -i casino[0-9]+\n"


@pytest.mark.parametrize(
    ("lines", "action", "client"),
    [
        ("", "block", "10.1.1.1"),
        ("http_access allow bad", "block", "10.1.1.1"),
        ("http_access deny bad", "pass", "10.1.1.1"),
        ("http_access allow !net", "pass", "192.0.2.1"),
        ("http_access allow !net", "block", "10.1.1.1"),
        ("http_access deny never", "pass", "10.1.1.1"),
        ("http_access deny noon", "block", "10.1.1.1"),
        ("http_access allow noon\nhttp_access deny all", "pass", "10.1.1.1"),
        ("http_access allow !noon\nhttp_access deny all", "block", "10.1.1.1"),
    ],
)
def test_what_no_line_names_gets_the_opposite_of_the_last(tmp_path: Path, lines: str, action: str, client: str) -> None:
    acls = (
        "acl bad dstdomain .bad.example\nacl net src 10.0.0.0/8\nacl noon time 11:00-12:30\nacl never time M 8:00-9:00"
    )
    written = Written(read_squid(configured(tmp_path, f"{acls}\n{lines}\n")), tmp_path / "out")
    assert written("other.example", client) == action


def test_a_file_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(SourceError):
        read_squid(tmp_path / "squid.conf")


SQUID = shutil.which("squid", path=f"{os.environ['PATH']}:/usr/sbin")


@pytest.mark.skipif(SQUID is None, reason="Squid is not installed")
def test_squid_reads_the_lists_that_are_written(written: Written, tmp_path: Path) -> None:
    texts = sorted(path.read_text() for path in (written.folder / "lists").glob("*.txt"))
    (tmp_path / "squid.conf").write_text("http_port 127.0.0.1:3128\nvisible_hostname x\n" + "".join(texts))
    assert SQUID
    done = subprocess.run(
        [SQUID, "-k", "parse", "-f", str(tmp_path / "squid.conf")], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert not [line for line in done.stderr.splitlines() if "FATAL" in line or "ERROR" in line]


def test_what_is_said_of_replies_becomes_rules_for_files(tmp_path: Path) -> None:
    (tmp_path / "squid.conf").write_text(
        "acl films rep_mime_type -i ^video/ +i application/x-shockwave\\-flash$\nacl odd rep_mime_type (a|b)\n"
        "acl kids src 10.9.0.0/24\nhttp_reply_access deny films\nhttp_reply_access deny odd\n"
        "http_reply_access allow all\nreply_body_max_size 10 MB\nreply_body_max_size 1 MB kids\nhttp_access allow all\n"
    )
    written = Written(read_squid(tmp_path / "squid.conf"), tmp_path / "out")
    rules = written.engine.policy.settings.of("files")
    assert [(sorted(rule.types), rule.larger_than, rule.way) for rule in rules] == [
        (["application/x-shockwave-flash", "video/*"], None, "download"),
        ([], 10 << 20, "download"),
    ]
    assert written.messages_with("squid.conf:2:", "(a|b)")
    assert not written.messages_with("squid.conf:1:")
    assert written.messages_with("squid.conf:5:", "only one list of the type rep_mime_type")
    assert written.messages_with("squid.conf:8:", "a size for some clients")
