"""A decision written on a flow, where mitmproxy's filters, its files and its interfaces show it.

``~meta hushlist``, ``~marker`` and ``~comment`` find it. Metadata is plain types only, so that saved flows load again.
"""

from __future__ import annotations

from mitmproxy.flow import Flow

from hushlist.match.rule import Action
from hushlist.policy.decision import STOPPING, Decision

KEY = "hushlist"
#: what was changed in a request to a search engine
SAFE_SEARCH = "hushlist_safe_search"
_COMMENT = "hushlist: "
BLOCKED = ":no_entry:"
WOULD_BLOCK = ":warning:"
TAGGED = ":label:"
_MARKERS = (BLOCKED, WOULD_BLOCK, TAGGED)


def annotate(flow: Flow, decision: Decision, *, would_block: bool = False) -> None:
    """Note a decision in the place of an earlier one; one without any match or fault leaves no trace.

    What a person noted stays.
    """
    flow.metadata.pop(KEY, None)
    if flow.marked and flow.marked in _MARKERS:
        flow.marked = ""
    if flow.comment and flow.comment.startswith(_COMMENT):
        flow.comment = ""
    if decision.action is Action.PASS and decision.fault is None:
        return
    flow.metadata[KEY] = {**decision.as_dict(), "would_block": would_block}
    flow.marked = flow.marked or _marker(decision, would_block)
    if not flow.comment:
        verb = "would block" if would_block else decision.action.value
        flow.comment = f"{_COMMENT}{verb} {decision}"


def _marker(decision: Decision, would_block: bool) -> str:
    if decision.action in STOPPING:
        return WOULD_BLOCK if would_block else BLOCKED
    return TAGGED if decision.tags else ""
