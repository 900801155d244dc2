"""What administrators' blocks and temporary unblocks make of a decision by the rules."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from math import inf

from hushlist.core.decide.decision import STOPPING, Decision, own_categories
from hushlist.core.decide.verdict import Blocks
from hushlist.core.match.checks import Check
from hushlist.core.match.rule import Action, Anything, Ordered, Rule, Terms
from hushlist.core.match.rule_match import Match
from hushlist.extensions.unblock.admin_blocks import AdminBlock, BlockTable
from hushlist.extensions.unblock.grants import Grant

#: the layer of a decision by an administrator's block, and what its rules are called
BLOCKS_LAYER = "blocks"


class UnblockVerdict:
    """The engine's ``Verdict`` by a store of grants and blocks, which gives ``covering``."""

    #: ``Overrides.covering``
    covering: Callable[..., Grant | None]

    def after(
        self, decision: Decision, blocks: Blocks, host: bytes, client_names: Sequence[str], now: float
    ) -> Decision:
        """The decision for one form and one host; it becomes ``allow`` if grants cover every rule that would stop it.

        A grant for a host or a URL covers every rule that stops it. A grant for a category covers only rules of that
        category: a site that is also blocked for another reason stays blocked. A click on a warning covers only
        warnings. A covered warning allows: rules behind it no longer count. Any grant also overrides the policy's
        default action. Before that, an administrator's block stops; only a grant that was made later covers it.

        No grant covers a check, unless that only warns, or a request that cannot be read. These are about how a request
        is made, not where it goes: a person who unblocks a site does not mean to open all its ports, or to let smuggled
        requests through.
        """
        if isinstance(blocks, BlockTable) and blocks.blocks:
            url = decision.url if blocks.has_pages(host) else b""  # what is not needed takes time
            orders = tuple(map(_match_of, blocks.find(client_names, host, url, own_categories(decision), now)))
            if orders:
                decision = decision._replace(
                    action=Action.BLOCK, matches=(*orders, *decision.matches), winner=orders[0]
                )
        if decision.action not in STOPPING:
            return decision
        lifted: Grant | None = None
        for match in decision.matches:
            pattern, terms, _ = match.rule
            if terms.action is Action.TAG:
                continue
            if terms.action is Action.ALLOW or (lifted is not None and isinstance(pattern, Anything)):
                break
            is_warning = terms.action is Action.WARN
            categories = () if terms.category is None else (terms.category,)
            since = pattern.made if isinstance(pattern, Ordered) else -inf
            grant = None
            if is_warning or not isinstance(pattern, Check):
                grant = self.covering(
                    client_names, host, decision.url, categories, now, is_warning=is_warning, since=since
                )
            if grant is None:
                return decision._replace(action=terms.action, winner=match)
            lifted = lifted or grant
            if is_warning:
                break
        return decision if lifted is None else decision._replace(action=Action.ALLOW, grant=lifted)


def _match_of(block: AdminBlock) -> Match:
    """An administrator's block as a match."""
    category = block.target if block.scope == "category" else None
    terms = Terms(Action.BLOCK, "administrators", "overrides.sqlite", category, block.reason, layer=BLOCKS_LAYER)
    until = None if block.until is None else datetime.fromtimestamp(block.until, UTC)
    rule = Rule(Ordered(block.target, block.client, block.made), terms, block.id)
    return Match(rule, block.target.encode("ascii", "replace"), (0, 0), until=until)
