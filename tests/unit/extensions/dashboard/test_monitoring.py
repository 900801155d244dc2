"""What is made of the metrics in ``examples/fleet``: alerts that Prometheus tries, and a dashboard for Grafana."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator

import pytest
import yaml

from documentation import ROOT
from hushlist.extensions.dashboard.metrics import metrics
from hushlist.proxy.runtime import Runtime
from hushlist.proxy.service.policy_watch import PolicyWatch

FLEET = ROOT / "examples" / "fleet"
DASHBOARD = json.loads((FLEET / "dashboard.json").read_text(encoding="utf-8"))
ALERTS = yaml.safe_load((FLEET / "alerts.yml").read_text(encoding="utf-8"))
PROMTOOL = shutil.which("promtool")
needs_promtool = pytest.mark.skipif(not PROMTOOL, reason="there is no promtool on PATH (Debian's package prometheus)")

_METRIC = re.compile(r"\b(?:hushlist|process)_[a-z_]+")


def panels() -> Iterator[tuple[str, str]]:
    for panel in DASHBOARD["panels"]:
        for target in panel["targets"]:
            yield panel["title"], target["expr"]


@pytest.fixture(scope="module")
def metric_names(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """The names of everything that a proxy with a policy tells."""
    folder = tmp_path_factory.mktemp("policy")
    (folder / "list.yaml").write_text("rules: [blocked.example]\n")
    (folder / "policy.yaml").write_text("layers: [{name: lists, lists: [list.yaml]}]\n")
    runtime = Runtime()
    PolicyWatch(runtime).load(folder / "policy.yaml")
    families = re.findall(r"^# TYPE (\S+) (\S+)$", metrics(runtime), re.MULTILINE)
    runtime.close()
    ends = {"histogram": ("_bucket", "_sum", "_count")}
    return {name + end for name, kind in families for end in ends.get(kind, ("",))}


@pytest.mark.slow
def test_every_metric_of_the_dashboard_exists(metric_names: set[str]) -> None:
    for title, expression in panels():
        named = set(_METRIC.findall(expression)) - {"hushlist_"}
        assert named or expression.startswith("sum(up{"), title
        assert named <= metric_names, title
    (_, workers) = DASHBOARD["templating"]["list"]
    assert set(_METRIC.findall(workers["query"])) <= metric_names


def test_every_metric_of_the_alerts_exists(metric_names: set[str]) -> None:
    for rule in ALERTS["groups"][0]["rules"]:
        named = set(_METRIC.findall(rule["expr"]))
        assert named <= metric_names, rule["alert"]
        assert named or rule["expr"].startswith("up{"), rule["alert"]


def test_every_alert_has_a_test() -> None:
    tests = yaml.safe_load((FLEET / "alerts_test.yml").read_text(encoding="utf-8"))["tests"]
    fired = {one["alertname"] for test in tests for one in test["alert_rule_test"] if one["exp_alerts"]}
    assert fired == {rule["alert"] for rule in ALERTS["groups"][0]["rules"]}


def test_the_panels_lie_beside_each_other() -> None:
    places = [panel["gridPos"] for panel in DASHBOARD["panels"]]
    cells = [
        (x, y)
        for place in places
        for x in range(place["x"], place["x"] + place["w"])
        for y in range(place["y"], place["y"] + place["h"])
    ]
    assert len(cells) == len(set(cells))
    assert max(x for x, _ in cells) < 24
    assert len({panel["id"] for panel in DASHBOARD["panels"]}) == len(places)


@pytest.mark.slow
@needs_promtool
@pytest.mark.parametrize(
    "arguments",
    [("check", "rules", "alerts.yml"), ("test", "rules", "alerts_test.yml"), ("check", "config", "prometheus.yml")],
)
def test_prometheus_takes_them(arguments: tuple[str, ...]) -> None:
    done = subprocess.run([str(PROMTOOL), *arguments], cwd=FLEET, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
@needs_promtool
def test_the_dashboard_asks_what_prometheus_understands(tmp_path_factory: pytest.TempPathFactory) -> None:
    rules = [
        {"record": f"panel{number}", "expr": expression.replace("$worker", ".*")}
        for number, (_, expression) in enumerate(panels())
    ]
    file = tmp_path_factory.mktemp("rules") / "panels.yml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "panels", "rules": rules}]}))
    done = subprocess.run([str(PROMTOOL), "check", "rules", file], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
