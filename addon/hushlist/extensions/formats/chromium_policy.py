"""Chromium's policy as JSON: ``URLBlocklist``, and ``URLAllowlist``, whose entries are exceptions from it.

Its filters are read as in the format ``chromium``.

Spec: https://chromeenterprise.google/policies/#URLBlocklist; https://support.google.com/chrome/a/answer/9942583
"""

from __future__ import annotations

from collections.abc import Iterator

from hushlist.core.lists.yaml_nodes import YamlNode
from hushlist.core.match.rule import Rule
from hushlist.extensions.adblock.filter_lists import chromium_expressions
from hushlist.extensions.formats.json_shape import read_json, text_of
from hushlist.extensions.formats.rule_maker import RuleMaker


def _blocked(maker: RuleMaker, node: YamlNode) -> Iterator[Rule]:
    return (
        Rule(expression, maker.terms, node.line)
        for expression in chromium_expressions(text_of(node), node.line, maker.report)
    )


def _allowed(maker: RuleMaker, node: YamlNode) -> Iterator[Rule]:
    return maker.exception(_blocked(maker, node), text_of(node), node.line)


read_chromium_policy = read_json({"URLBlocklist/*": _blocked, "URLAllowlist/*": _allowed})
