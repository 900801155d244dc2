"""Writes a decision onto a flow, for mitmproxy's filters, files and interfaces.

``~meta hushlist``, ``~marker`` and ``~comment`` find it. Metadata has plain types only, so that saved flows load again.
"""

from __future__ import annotations

from mitmproxy.flow import Flow

from hushlist.decide.decision import STOPPING, Judgement
from hushlist.match.rule import Action

KEY = "hushlist"
#: key for the changes of safe search
SAFE_SEARCH = "hushlist_safe_search"
_COMMENT = "hushlist: "
BLOCKED = ":no_entry:"
WOULD_BLOCK = ":warning:"
TAGGED = ":label:"
_MARKERS = (BLOCKED, WOULD_BLOCK, TAGGED)


def annotate(flow: Flow, judgement: Judgement) -> None:
    """Write a decision in place of an earlier one; a decision without match or fault writes nothing.

    A person's own marker and comment stay.
    """
    decision, would_block = judgement.decision, judgement.would_block
    flow.metadata.pop(KEY, None)
    if flow.marked and flow.marked in _MARKERS:
        flow.marked = ""
    if flow.comment and flow.comment.startswith(_COMMENT):
        flow.comment = ""
    if decision.action is Action.PASS and decision.fault is None:
        return
    flow.metadata[KEY] = {**decision.as_dict(), "would_block": would_block}
    flow.marked = flow.marked or _marker(judgement)
    if not flow.comment:
        verb = "would block" if would_block else decision.action.value
        flow.comment = f"{_COMMENT}{verb} {decision}"


def _marker(judgement: Judgement) -> str:
    if judgement.decision.action in STOPPING:
        return WOULD_BLOCK if judgement.would_block else BLOCKED
    return TAGGED if judgement.decision.tags else ""
