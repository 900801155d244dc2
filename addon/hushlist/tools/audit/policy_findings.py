"""What lint finds in a policy itself: what it says, and is probably not meant."""

from __future__ import annotations

from collections.abc import Iterator

from hushlist.core.policy.groups import uses_of
from hushlist.core.policy.policy_file import Policy
from hushlist.tools.audit.findings import Finding, FindingKind


def policy_findings(policy: Policy) -> Iterator[Finding]:
    """A finding for each layer that a single group names, as if that made it the group's alone."""
    everybody = {layer.name for layer in policy.layers if not layer.groups}
    apart = [group for group in policy.groups if group.layers != uses_of(policy.layers, group.name)]
    for layer in policy.layers:
        naming = [group.name for group in apart if layer.name in {use.name for use in group.layers}]
        if len(naming) == 1 and layer.name in everybody:
            why = f"the group {naming[0]} names it, and it is for everybody, too; if that is not meant, give it 'for'"
            yield Finding(layer.line, FindingKind.SPELLING, f"layer {layer.name}", why)
