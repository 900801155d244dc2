"""``for`` and ``during``, of a layer, a list and a rule."""

from datetime import datetime
from pathlib import Path

from hushlist.core.compile.policy_compiler import compile_policy
from hushlist.core.decide.engine import Engine
from hushlist.core.policy.groups import Client
from hushlist.core.policy.policy_reader import policy_at
from hushlist.tools.audit.findings import policy_findings
from support.policies import read_whole, write_policy
from unit.rows import each_row

POLICY = """
schedules: {night: {times: 20:00-06:00}}
groups:
- {name: children, clients: [10.0.0.1]}
- {name: parents, clients: [10.0.0.2], layers: [lists]}
layers:
- {name: kids, for: children, lists: [kids.yaml]}
- name: lists
  lists:
  - {file: ads.domains, format: domains, for: [children, default], during: night}
  - {file: own.yaml, for: [children]}
"""
FILES = {
    "kids.yaml": "rules: [only.example]",
    "ads.domains": "ads.example\n",
    "own.yaml": """
rules:
- {expression: games.example, during: night}
- {expression: both.example, for: parents}
- {expression: chat.example, for: [parents], action: allow}
- chat.example
- sub.both.example
""",
}
CHILD, PARENT, GUEST = "10.0.0.1", "10.0.0.2", "10.0.0.3"


def compiled(folder: Path) -> Engine:
    found = compile_policy(write_policy(folder, POLICY, FILES))
    return Engine(found.policy, found.index)


@each_row(
    ("client", "hour", "blocked"),
    [
        (CHILD, 12, {"only": "", "chat": "for: children", "sub.both": "for: children"}),
        (
            CHILD,
            23,
            {
                "only": "",
                "ads": "for: children, default; during: night",
                "games": "for: children; during: night",
                "chat": "for: children",
                "sub.both": "for: children",
            },
        ),
        (PARENT, 23, {"both": "for: parents", "sub.both": "for: parents"}),
        (GUEST, 12, {}),
        (GUEST, 23, {"ads": "for: children, default; during: night"}),
    ],
)
def test_rules_count_for_whom_and_when_they_say(
    tmp_path: Path, client: str, hour: int, blocked: dict[str, str]
) -> None:
    engine = compiled(tmp_path)
    now = datetime(2026, 6, 1, hour, tzinfo=engine.policy.zone)
    found = {}
    for name in ("only", "ads", "games", "both", "chat", "sub.both"):
        decision = engine.decide_url(f"http://{name}.example/".encode(), now, Client(client))
        if decision.action == "block":
            assert decision.winner is not None
            found[name] = decision.winner.via or ""
    assert found == blocked


def test_what_is_open_is_asked_again_when_a_list_begins_to_count(tmp_path: Path) -> None:
    view = compiled(tmp_path).view(Client(GUEST), datetime.fromisoformat("2026-06-01T12:00+00:00"))
    assert view.until == datetime.fromisoformat("2026-06-01T20:00+00:00")


def test_rules_for_different_people_are_no_duplicates(tmp_path: Path) -> None:
    result = compile_policy(write_policy(tmp_path, POLICY, FILES))
    assert [row.duplicates for row in result.report.lists] == [0] * 3


@each_row(
    ("before", "after", "error"),
    [
        ("for: children", "for: kids", "7: kids: there is no such group (known: children, parents, default)"),
        ("for: children", "for: []", "7: for: expected some groups"),
        ("for: children", "for: [{}]", "7: for: expected the name of a group, not a mapping"),
        ("during: night}\n  -", "during: day}\n  -", "10: day: there is no such schedule (known: night)"),
        ("layers: [lists]", "layers: [kids]", "5: kids: the layer is for: children"),
    ],
)
def test_an_unknown_name_is_an_error(tmp_path: Path, before: str, after: str, error: str) -> None:
    write_policy(tmp_path, POLICY, FILES)
    assert before in POLICY
    assert read_whole(tmp_path, POLICY.replace(before, after))[1] == [error]


def test_lint_tells_a_layer_that_one_group_names_and_everybody_has(tmp_path: Path) -> None:
    text = """
groups:
- {name: children, clients: [10.0.0.1], layers: [bedtime]}
- {name: parents, clients: [10.0.0.2]}
layers:
- {name: bedtime}
- {name: lists}
"""
    for policy, lines in ((text, [6]), (text.replace("bedtime}", "bedtime, for: children}"), [])):
        found = [*policy_findings(policy_at(write_policy(tmp_path, policy)))]
        assert [finding.line for finding in found] == lines
        assert all("children" in finding.why and "'for'" in finding.why for finding in found)
