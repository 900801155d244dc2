"""A change as a line, and as JSON."""

import json
from datetime import date

from hushlist.audit.diff.rule_change import ChangeKind, RuleChange, RuleMeaning, RuleState
from hushlist.match.rule import Action

ADS = RuleMeaning(Action.BLOCK, "hrn://c.example/ads", None, None, "lists", is_clear=True)


def test_all_that_differs_is_told() -> None:
    other = RuleMeaning(Action.WARN, None, "why", date(2027, 1, 31), "own", is_clear=False)
    change = RuleChange(
        ChangeKind.CHANGED, RuleState("old", 1, "a.example/", ADS), RuleState("new", 2, "sha256:00", other)
    )
    assert str(change) == (
        "~ old:1 -> new:2: changed: a.example/ -> sha256:00 (action: block -> warn; category: hrn://c.example/ads -> "
        "none; reason: none -> why; expires: none -> 2027-01-31; layer: lists -> own; now hashed)"
    )


def test_json_has_both_ends() -> None:
    change = RuleChange(ChangeKind.ADDED, None, RuleState("new", 2, "co.uk/", ADS), "it is broad")
    assert str(change) == "+ new:2: co.uk/: broad: it is broad"
    assert json.loads(json.dumps(change.as_dict())) == {
        "kind": "added",
        "old": None,
        "new": {
            "source": "new",
            "line": 2,
            "rule": "co.uk/",
            "action": "block",
            "category": "hrn://c.example/ads",
            "reason": None,
            "expires": None,
            "layer": "lists",
        },
        "how": [],
        "broad": "it is broad",
    }
