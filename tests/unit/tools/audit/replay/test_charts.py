"""The charts of a report as files."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from xml.etree import ElementTree

from hushlist.tools.audit.replay.charts import Chart, chart_csv, chart_svg, charts_of
from unit.tools.audit.replay.test_report_page import report_of

_SVG = "{http://www.w3.org/2000/svg}"
_HOSTILE = '=1+1</text><script>\x1b\u202e\udcff,"' + "x" * 100


def texts(chart: Chart) -> list[str]:
    return ["".join(text.itertext()) for text in ElementTree.fromstring(chart_svg(chart)).iter(f"{_SVG}text")]


def test_a_report_has_a_chart_of_each_kind_with_its_numbers(tmp_path: Path) -> None:
    report = report_of(tmp_path)
    charts = {chart.name: chart for chart in charts_of(report)}
    assert charts.keys() == {
        *("actions", "kinds", "breakage", "lists", "overlaps", "categories", "rules", "sites"),
        *("popular-domains", "decryption", "unused-rules"),
    }
    assert dict(charts["actions"].rows) == {name: (number,) for name, number in report.actions.items()}
    assert sum(sum(numbers) for _, numbers in charts["kinds"].rows) == report.records
    lists = {Path(row.key.source).name: row.hits.stopped for row in report.lists}
    assert {name: sum(numbers) for name, numbers in charts["lists"].rows} == lists
    assert [sum(numbers) for _, numbers in charts["rules"].rows] == sorted(
        (row.hits.stopped for row in report.rules if row.hits.stopped), reverse=True
    )


def test_what_is_in_names_is_text_in_every_file() -> None:
    chart = Chart("rules", "Rules", ("stopped", "others"), ((_HOSTILE, (3, 0)), ("b.example", (1, 2))))
    head, first, second = csv.reader(io.StringIO(chart_csv(chart).decode()))
    assert (head, second) == (["name", "stopped", "others"], ["b.example", "1", "2"])
    assert first[0].startswith("'=1+1</text><script>\\x1b\\u202e\\udcff")
    shown = texts(chart)
    assert shown[:3] == ["Rules", "stopped", "others"]
    assert shown[3].startswith("=1+1</text><script>\\x1b")
    assert len(shown[3]) < 60
    assert shown[4:] == ["3 / 0", "b.example", "1 / 2"]


def test_bars_are_in_proportion_and_of_many_the_first_are_drawn() -> None:
    chart = Chart("sites", "Sites", ("stopped",), tuple((f"h{n}.example", (1000 - n,)) for n in range(50)))
    boxes = [*ElementTree.fromstring(chart_svg(chart)).iter(f"{_SVG}rect")][1:]
    widths = [float(box.attrib["width"]) for box in boxes]
    assert len(widths) == 30
    assert abs(widths[20] / widths[0] - 0.98) < 0.001
    assert texts(chart)[-1] == "and 20 more"
    assert len(chart_csv(chart).splitlines()) == 51
