"""Which bodies go on while they arrive: all, unless somebody behind the filter needs them whole.

What is streamed is in no recording, and nobody can change it. mitmproxy's own options that change or replay bodies, or
hold them for a person, have those they need whole. Of scripts, nobody can know: one that reads or changes bodies sets
``stream`` to ``False`` in ``requestheaders`` or ``responseheaders``, or its administrator ``hushlist_stream`` to "off".
"""

from __future__ import annotations

from mitmproxy import ctx, http

from hushlist.proxy.bounds.framed_http1 import is_kept_whole

#: what the option ``hushlist_stream`` can be
STREAM = ("on", "off")
#: mitmproxy's options that need bodies whole: those of answers, and those of requests
_WHOLE_ANSWERS = ("modify_body", "intercept_active")
_WHOLE_REQUESTS = (*_WHOLE_ANSWERS, "server_replay")


class BodiesFlow:
    """Marks the bodies that are streamed."""

    def __init__(self) -> None:
        self._streams_requests = self._streams_answers = False

    def configure(self) -> None:
        """Read the options; mitmproxy copies a value each time it is read."""
        is_on = ctx.options.hushlist_stream == "on"
        self._streams_answers = is_on and not _has_one_of(_WHOLE_ANSWERS)
        self._streams_requests = is_on and not _has_one_of(_WHOLE_REQUESTS)

    def stream_request(self, flow: http.HTTPFlow) -> None:
        """Have a request's body go on as soon as it is decided, but for the few that are decided with their body."""
        request = flow.request
        if self._streams_requests and flow.is_replay is None and not request.stream and not is_kept_whole(request):
            request.stream = True

    def stream_answer(self, flow: http.HTTPFlow) -> None:
        """Have an origin's answer go on from its head on."""
        response = flow.response
        if self._streams_answers and flow.is_replay is None and response is not None and not response.stream:
            response.stream = True


def _has_one_of(names: tuple[str, ...]) -> bool:
    return any(name in ctx.options and getattr(ctx.options, name) for name in names)
