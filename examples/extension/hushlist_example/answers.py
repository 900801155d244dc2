"""A check of answers: those of some media types end as soon as their head has arrived."""

from mitmproxy import http

from hushlist.proxy.flow_request import SelfConnections
from hushlist.proxy.parts import Part
from hushlist.proxy.runtime import Runtime


class RefusedTypes(Part):
    """Ends answers of the types in ``refuse-types``."""

    def __init__(self, runtime: Runtime, loops: SelfConnections) -> None:
        super().__init__(runtime, loops)
        self._runtime = runtime

    def responseheaders(self, flow: http.HTTPFlow) -> None:
        """End the flow if its answer has such a type."""
        engine, response = self._runtime.engine, flow.response
        kind = "" if response is None else response.headers.get("content-type", "").partition(";")[0].strip().lower()
        if engine is not None and kind in engine.policy.of("refuse-types"):
            flow.kill()  # type: ignore[no-untyped-call]
