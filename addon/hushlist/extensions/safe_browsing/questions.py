"""What a proxy asks servers of Safe Browsing, of prefixes that fit its requests."""

from __future__ import annotations

from collections.abc import Iterator

from hushlist.extensions.safe_browsing.confirmations import Confirmations
from hushlist.extensions.safe_browsing.prefix_service import search_hashes
from hushlist.proxy.parts import Part
from hushlist.proxy.runtime import Runtime


class Questions(Part):
    """Has what servers have said; no question goes through the proxy itself."""

    confirmations: Confirmations

    def __init__(self, runtime: Runtime, _: object = None) -> None:
        self._runtime = runtime
        self.confirmations = Confirmations(
            lambda service, prefixes: search_hashes(service, prefixes, runtime.own_ports)
        )

    def states(self) -> Iterator[str]:
        """Which servers give no answer, and why."""
        engine = self._runtime.engine
        for confirmer in () if engine is None else engine.policy.confirmers.values():
            if fault := confirmer.fault(self.confirmations):
                yield f"nothing is confirmed by {fault}"

    def close(self) -> None:
        """Ask no more."""
        self.confirmations.close()
