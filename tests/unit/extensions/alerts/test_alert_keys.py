"""The policy's ``alerts``: what is read, and what is refused."""

from __future__ import annotations

from pathlib import Path

from hushlist.core.match.rule import Action
from hushlist.extensions.alerts.alert_keys import Alert, Conditions, Escalation
from support.policies import read_whole
from unit.rows import each_row

POLICY = """\
schedules: {nights: {times: 21:00-06:00}}
notify: [{name: phone, command: [/bin/tell]}, {name: both, command: [/bin/other]}]
groups: [{name: kids, clients: [10.0.0.0/8]}]
layers: []
alerts:
- """


def test_an_alert_has_all_that_the_policy_says(tmp_path: Path) -> None:
    item = (
        "{name: self-harm, when: {category: [tiktok, 'hrn://a.example/x'], action: block, list: Mine, search: on, "
        "around: [vpn]}, for: [kids, 'user:jo'], times: 3, within: 1h, to: phone, quiet: nights, "
        "escalate: {after: 15m, to: both, times: 4}}"
    )
    policy, errors = read_whole(tmp_path, POLICY + item)
    (alert,) = policy.of("alerts")
    tiktok = "hrn://hushlist.example/services/video/tiktok"
    when = Conditions((tiktok, "hrn://a.example/x"), (Action.BLOCK,), ("Mine",), True, ("vpn",))
    assert errors == []
    assert alert.quiet.name == "nights"
    escalation = Escalation(900.0, ("both",), 4)
    whom = ("kids", "user:jo")
    assert alert == Alert("self-harm", when, whom, 3, 3600.0, ("phone",), alert.quiet, escalation)


def test_an_alert_needs_no_more_than_a_name_and_what_it_is_about(tmp_path: Path) -> None:
    policy, errors = read_whole(tmp_path, f"{POLICY}{{name: new, when: {{event: new-device}}}}")
    assert (policy.of("alerts"), errors) == ((Alert("new", Conditions(event=("new-device",))),), [])


@each_row(
    ("item", "error"),
    [
        ("{when: {search: on}}", "alerts: it has no name"),
        ("{name: a}", "alerts: it has no when"),
        ("{name: a b, when: {search: on}}", "name: a b: expected a name of letters, digits, - and _"),
        ("{name: a, when: {}}", "when: it is about nothing: expected at least one condition"),
        ("{name: a, when: {search: off}}", "when: it is about nothing: expected at least one condition"),
        ("{name: a, when: {category: tiktik}}", "did you mean 'tiktok'?"),
        ("{name: a, when: {category: []}}", "category: expected at least one, not an empty list"),
        ("{name: a, when: {action: blok}}", "action: blok: expected one of block, warn, allow, tag"),
        ("{name: a, when: {around: tor}}", "around: tor: expected one of doh, vpn, translators"),
        ("{name: a, when: {event: new-devices}}", "did you mean 'new-device'?"),
        ("{name: a, when: {event: new-device, action: block}}", "when: an event is no request: it has no other"),
        (
            "{name: a, when: {search: on}, to: fone}",
            "no such channel; did you mean 'phone'? (known: phone, both)",
        ),
        (
            "{name: a, when: {search: on}, for: kid}",
            "no such group; did you mean 'kids'? (known: kids, default)",
        ),
        ("{name: a, when: {search: on}, quiet: night}", "night: there is no such schedule; did you mean 'nights'?"),
        ("{name: a, when: {search: on}, within: soon}", "within: expected a time such as 10m"),
        ("{name: a, when: {search: on}, within: 8d}", "within: expected a time such as 10m"),
        ("{name: a, when: {search: on}, escalate: {to: both}}", "escalate: it has no after"),
        ("{name: a, when: {search: on}, escalate: {after: 1m, to: all}}", "to: all: there is no such channel"),
        (
            "{name: a, when: {search: on}}\n- {name: a, when: {search: on}}",
            "a: more than one alert has this name",
        ),
    ],
)
def test_what_is_wrong_is_refused_with_its_reason(tmp_path: Path, item: str, error: str) -> None:
    _, errors = read_whole(tmp_path, POLICY + item)
    assert any(error in told for told in errors), errors


def test_an_alert_that_nobody_would_get_is_refused(tmp_path: Path) -> None:
    _, errors = read_whole(tmp_path, "layers: []\nalerts: [{name: a, when: {search: on}}]\n")
    assert errors == ["2: alerts: the policy has no 'notify': nobody would be told"]
