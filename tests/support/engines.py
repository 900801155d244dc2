"""Rules, engines and decisions."""

from __future__ import annotations

from collections.abc import Iterable
from io import BytesIO
from itertools import groupby

from hushlist.core.decide.decision import Decision, Judgement
from hushlist.core.decide.engine import Engine
from hushlist.core.lists.list_source import ListDefaults, ProblemReport
from hushlist.core.lists.yaml_rules import read_yaml
from hushlist.core.match.index import Index
from hushlist.core.match.index_writer import assemble, merge_all
from hushlist.core.match.rule import Action, Rule
from hushlist.core.match.rule_collector import RunCollector
from hushlist.core.policy.groups import NOBODY, GroupSettings
from hushlist.core.policy.policy_file import Layer, Policy
from hushlist.core.url.request import Request
from support.readings import read_list


def rules_of(text: str, source: str = "list.yaml", layer: str = "") -> tuple[Rule, ...]:
    """The rules of a YAML list that has no errors."""
    rules, errors, _ = read_list(read_yaml, text, ListDefaults(layer=layer), source)
    assert errors == []
    return tuple(rules)


def rules_in(layer: Layer) -> list[Rule]:
    """The rules of a policy's layer, read from its files."""
    texts = ((file, file.path.read_bytes(), ProblemReport(str(file.path))) for file in layer.lists)
    return [rule for file, text, report in texts for rule in file.format.read(text, file.defaults, report)]


def index_of(rules: Iterable[Rule]) -> Index:
    """An index in memory, for a few rules."""
    parts = []
    for number, (layer, rules_of_layer) in enumerate(groupby(rules, lambda rule: rule.terms.layer)):
        collector = RunCollector(number, layer)
        collector.add(rules_of_layer)
        parts.append(collector.finish())
    file = BytesIO()
    assemble(file, parts, merge_all(parts))
    return Index(file.getvalue())


def engine_of(*layers: str, unparsable: Action = Action.BLOCK) -> Engine:
    """An engine of YAML lists, each a layer: ``first``, ``second`` and so on."""
    named = tuple(zip(("first", "second", "third"), layers, strict=False))
    rules = [rule for name, text in named for rule in rules_of(text, f"{name}.yaml", name)]
    policy = Policy("policy.yaml", tuple(Layer(name) for name, _ in named), unparsable)
    return Engine(policy, index_of(rules))


def judgement_of(decision: Decision, mode: str = "block", reference: str | None = None) -> Judgement:
    """A decision as the proxy carries it on."""
    request = decision.request if isinstance(decision.request, Request) else Request(b"http", (b"h.example",), 80, b"/")
    return Judgement(request, NOBODY, GroupSettings(mode=mode), decision, 1000, reference)
