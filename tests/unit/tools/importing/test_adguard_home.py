"""AdGuard Home: rules, services by the clock, clients, rewrites and settings, decided as it would."""

from pathlib import Path

import pytest

from hushlist.core.errors import SourceError
from hushlist.tools.importing.adguard_home import read_adguard_home
from unit.rows import each_row
from unit.tools.importing.deciding import Written

CONF = r"""http:
  address: 0.0.0.0:80
dns:
  bind_hosts:
    - 0.0.0.0
  anonymize_client_ip: true
  allowed_clients: []
  disallowed_clients:
    - 192.168.1.99
    - phone
  blocked_hosts:
    - version.bind
    - id.server
    - hostname.bind
    - '||refused.example^'
    - '@@||not-refused.example^'
querylog:
  interval: 36h
  enabled: true
filters:
  - enabled: true
    url: https://lists.example/filter_1.txt
    name: AdGuard DNS filter
    id: 1
  - enabled: false
    url: https://off.example/hosts.txt
    name: Off
    id: 2
whitelist_filters:
  - enabled: true
    url: /opt/own list.txt
    name: own
    id: 3
user_rules:
  - '! mine'
  - '# mine, too'
  - ''
  - '||ads.example^'
  - '@@||good.ads.example^'
  - '||hard.example^$important'
  - '@@||hard.example^'
  - '@@||x.hard.example^$important'
  - '||tv.example^$client=192.168.1.5'
  - 0.0.0.0 hosts.example
  - 192.0.2.4 nas.example
  - plain.example
  - /^stats?[0-9]*\./
  - '||path.example/path^'
  - '@@|exact.ads.example^'
  - '||paged.example^$document'
  - dead.example
filtering:
  parental_enabled: true
  safebrowsing_enabled: false
  protection_enabled: true
  filtering_enabled: true
  rewrites_enabled: true
  rewrites:
    - domain: nas.home.example
      answer: 192.168.1.3
      enabled: true
    - domain: sunk.example
      answer: 0.0.0.0
      enabled: true
    - domain: notyet.example
      answer: 0.0.0.0
      enabled: false
  safe_search:
    enabled: true
    bing: true
    google: true
    youtube: false
  blocked_services:
    schedule:
      time_zone: Europe/Berlin
      sun:
        start: 9h
        end: 24h
      mon:
        start: 18h30m
        end: 20h
    ids:
      - youtube
clients:
  persistent:
    - name: Mum, at home
      ids:
        - 192.168.1.20
        - aa:bb:cc:dd:ee:ff
      use_global_settings: false
      filtering_enabled: false
      use_global_blocked_services: false
      blocked_services:
        schedule:
          time_zone: Local
        ids:
          - roblox
    - name: Office
      ids:
        - 192.168.0.0/16
      use_global_settings: false
      filtering_enabled: true
      safe_search:
        enabled: true
        youtube: true
      use_global_blocked_services: true
schema_version: 29
"""


def saved(folder: Path, text: str) -> Path:
    path = folder / "AdGuardHome.yaml"
    path.write_text(text)
    return path


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Written:
    folder = tmp_path_factory.mktemp("adguard")
    made = Written(read_adguard_home(saved(folder, CONF)), folder / "out")
    for service in ("youtube", "roblox"):
        (made.folder / f"lists/service-{service}.txt").write_text(f"||{service}.example^\n")
    listed = "||listed.example^\n||good.example^\n||hosts.example^\n0.0.0.0 sunken.example\nbare.example\n"
    listed += "||also.example^\n||deep.example^\n||exact2.example^\n.mov|\n/^adim(age|g)s?[0-9]*[-_.]/\n"
    made.fetched(**{"filter_1.txt": listed})
    allowed = "||good.example^\n@@||also.example^\n@@|exact2.example^\n@@/^x\\.deep\\.example$/\n"
    (made.folder / "lists/subscribed-3.txt").write_text(allowed)
    made.uncomment()
    return made


MON, SUN = "2026-11-23", "2026-11-22"


@each_row(
    ("url", "client", "at", "action"),
    [
        ("ads.example", "", f"{MON}T12:00", "block"),
        ("x.ads.example", "", f"{MON}T12:00", "block"),
        ("good.ads.example", "", f"{MON}T12:00", "allow"),
        # what is important beats an exception, but not an important one
        ("hard.example", "", f"{MON}T12:00", "block"),
        ("x.hard.example", "", f"{MON}T12:00", "allow"),
        ("hosts.example", "", f"{MON}T12:00", "block"),
        ("plain.example", "", f"{MON}T12:00", "block"),
        ("refused.example", "", f"{MON}T12:00", "block"),
        ("not-refused.example", "", f"{MON}T12:00", "pass"),
        ("sunk.example", "", f"{MON}T12:00", "block"),
        ("notyet.example", "", f"{MON}T12:00", "pass"),
        ("nas.home.example", "", f"{MON}T12:00", "pass"),
        ("tv.example", "192.168.1.5", f"{MON}T12:00", "pass"),
        ("path.example/path", "", f"{MON}T12:00", "pass"),
        ("exact.ads.example", "", f"{MON}T12:00", "allow"),
        ("x.exact.ads.example", "", f"{MON}T12:00", "block"),
        ("stats7.shop.example", "", f"{MON}T12:00", "block"),
        ("shop.example/stats7.", "", f"{MON}T12:00", "pass"),
        ("paged.example", "", f"{MON}T12:00", "pass"),
        # subscribed lists
        ("listed.example", "", f"{MON}T12:00", "block"),
        ("sunken.example", "", f"{MON}T12:00", "block"),
        ("bare.example", "", f"{MON}T12:00", "block"),
        ("good.example", "", f"{MON}T12:00", "allow"),
        ("site.mov", "", f"{MON}T12:00", "block"),
        ("site.example/film.mov", "", f"{MON}T12:00", "pass"),
        ("adimg1.site.example", "", f"{MON}T12:00", "block"),
        # an allow list, in either spelling
        ("x.also.example", "", f"{MON}T12:00", "allow"),
        ("exact2.example", "", f"{MON}T12:00", "allow"),
        ("x.exact2.example", "", f"{MON}T12:00", "block"),
        ("deep.example", "", f"{MON}T12:00", "block"),
        ("x.deep.example", "", f"{MON}T12:00", "allow"),
        # services are blocked but for the time of the schedule
        ("youtube.example", "", f"{MON}T18:29", "block"),
        ("youtube.example", "", f"{MON}T18:30", "pass"),
        ("youtube.example", "", f"{MON}T20:00", "block"),
        ("youtube.example", "", f"{SUN}T23:59", "pass"),
        ("roblox.example", "", f"{MON}T12:00", "pass"),
        # clients
        ("other.example", "192.168.1.99", f"{MON}T12:00", "block"),
        ("listed.example", "192.168.1.20", f"{MON}T12:00", "pass"),
        ("refused.example", "192.168.1.20", f"{MON}T12:00", "block"),
        ("youtube.example", "192.168.1.20", f"{MON}T12:00", "pass"),
        ("roblox.example", "192.168.1.20", f"{MON}T19:00", "block"),
        ("listed.example", "192.168.1.21", f"{MON}T12:00", "block"),
        ("youtube.example", "192.168.1.21", f"{MON}T19:00", "pass"),
    ],
)
def test_decisions_are_those_of_adguard_home(written: Written, url: str, client: str, at: str, action: str) -> None:
    assert written(url, client, at) == action


def test_settings_are_taken_over(written: Written) -> None:
    policy = written.engine.policy
    assert str(policy.zone) == "Europe/Berlin"
    assert policy.of("log") is not None
    assert (policy.of("log").what, policy.of("log").days, policy.of("log").clients) == ("all", 2, "drop")
    assert policy.settings.of("safe-search") == {"google": "strict", "bing": "strict"}
    by_name = {group.name: group.settings.of("safe-search") for group in policy.groups}
    assert by_name["Office"] == {"youtube": "strict"}
    assert set(by_name["Mum, at home"].values()) <= {"off"}


def lines_of(word: str) -> int:
    return next(at for at, line in enumerate(CONF.splitlines(), 1) if word in line)


@each_row(
    ("word", "why"),
    [
        ("- phone", "by its address"),
        ("aa:bb", "by its address"),
        ("own list.txt", "the command that fetches it"),
        ("$client", "the groups of a policy"),
        ("192.0.2.4 nas", "gives names no addresses"),
        ("- plain.example", "blocks hosts below it, too"),
        ("path.example", "no name of a host"),
        ("$document", "a name server sees a name"),
        ("parental_enabled", "AdGuard's service"),
        ("- youtube", "the command that fetches its rules"),
    ],
)
def test_what_is_left_out_is_named_with_its_line(written: Written, word: str, why: str) -> None:
    assert any(why in line for line in written.messages_with(f"AdGuardHome.yaml:{lines_of(word)}:"))


def test_a_rewrite_that_leads_somewhere_is_named(written: Written) -> None:
    assert written.messages_with("nas.home.example -> 192.168.1.3", "gives names no addresses")
    assert not written.messages_with("off.example")


def test_commands_quote_what_they_are_given(written: Written) -> None:
    text = (written.folder / "policy.yaml").read_text()
    assert "cp -- '/opt/own list.txt' lists/subscribed-3.txt" in text
    assert """select(.id=="youtube") | .rules[]' > lists/service-youtube.txt""" in text


def test_before_schema_26_what_filters_stands_under_dns(tmp_path: Path) -> None:
    conf = "dns:\n  filtering_enabled: true\n  safesearch_enabled: true\n  protection_enabled: false\n"
    conf += "  blocked_services: [tiktok]\n"
    conf += "  rewrites:\n  - {domain: sunk.example, answer: '::'}\nuser_rules: ['||a.example^']\nschema_version: 12\n"
    policy = read_adguard_home(saved(tmp_path, conf))
    assert policy.everybody.settings["mode"] == "off"
    assert "google" in str(policy.everybody.settings["safe-search"])
    written = Written(policy, tmp_path / "out")
    assert (written("sunk.example"), written("a.example")) == ("block", "block")
    assert written.engine.policy.settings.mode == "off"


def test_filters_that_are_off_are_asked_for_nobody(tmp_path: Path) -> None:
    conf = "dns: {port: 53}\nfiltering: {filtering_enabled: false}\nuser_rules: ['||a.example^']\n"
    assert Written(read_adguard_home(saved(tmp_path, conf)), tmp_path / "out")("a.example") == "pass"


@pytest.mark.parametrize(
    ("text", "why"), [("a: [", "YAML"), ("a: 1\n", "no 'dns'"), ("- 1\n", "no 'dns'"), ("a: &b 1\n", "anchors")]
)
def test_another_file_is_an_error(tmp_path: Path, text: str, why: str) -> None:
    with pytest.raises(SourceError, match=why):
        read_adguard_home(saved(tmp_path, text))


def test_a_time_zone_that_is_none_is_left_out(tmp_path: Path) -> None:
    conf = CONF.replace("Europe/Berlin", "../etc/passwd")
    written = Written(read_adguard_home(saved(tmp_path, conf)), tmp_path / "out")
    assert str(written.engine.policy.zone) == "UTC"
    assert written.messages_with("unknown time zone")
    assert written.messages_with("timezone", "write your own zone")


def test_a_day_without_times_is_named(tmp_path: Path) -> None:
    conf = "dns: {port: 53}\nfiltering:\n  blocked_services:\n    ids: [x]\n    schedule:\n"
    conf += "      mon: {start: 8h1s, end: 9h}\n"
    (told,) = [str(one) for one in read_adguard_home(saved(tmp_path, conf)).warnings if "mon" in str(one)]
    assert told == "AdGuardHome.yaml:6: mon: left out: its start and end are no times of the day"
