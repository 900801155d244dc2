"""Which bodies go on while they arrive: all, unless they are decided with their request, or somebody behind the filter
needs them whole.

What is streamed is in no recording, and nobody can change it. mitmproxy's own options that change or replay bodies, or
hold them for a person, have those they need whole. Of scripts, nobody can know: one that reads or changes bodies sets
``stream`` to ``False`` in ``requestheaders`` or ``responseheaders``, or its administrator ``hushlist_stream`` to "off".
"""

from __future__ import annotations

from mitmproxy import ctx, http

from hushlist.core.url.request_bodies import LONGEST_WHOLE_BODY
from hushlist.proxy.flow_request import has_form

#: what the option ``hushlist_stream`` can be
STREAM = ("on", "off")
#: mitmproxy's options that need bodies whole: those of answers, and those of requests
_WHOLE_ANSWERS = ("modify_body", "intercept_active")
_WHOLE_REQUESTS = (*_WHOLE_ANSWERS, "server_replay")
#: methods of requests that usually have no body
USUALLY_WITHOUT = frozenset(("GET", "HEAD", "OPTIONS", "TRACE"))
_NTLM, _NEGOTIATE = "ntlm ", "negotiate "
#: of a number that Python reads in little time
_DIGITS = 20


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


def is_kept_whole(request: http.Request) -> bool:
    """Whether no part of a request goes on before its body has ended: it is decided by the body, too.

    Most requests of these methods have none, which nobody knows before the end where it is chunked, or in HTTP/2. In a
    step of a sign-in, the body says whether the origin's connection can go on.
    """
    if request.method.upper() in USUALLY_WITHOUT or has_form(request):
        return True
    length = request.headers.get("content-length", "") if signs_in(request) else ""
    return length.isdecimal() and len(length) < _DIGITS and int(length) <= LONGEST_WHOLE_BODY


def signs_in(request: http.Request) -> bool:
    """Whether a request is a step of a sign-in by which an origin knows a connection again, rather than a client.

    Of HTTP/2, mitmproxy has each request go on by another connection.
    Spec: RFC 4559, 4 and 6; [MS-NTHT], 1.3: all steps come by one connection
    """
    if request.is_http2 or request.is_http3:
        return False
    authorization: str = request.headers.get("authorization", "")
    return authorization[: len(_NEGOTIATE)].lower().startswith((_NTLM, _NEGOTIATE))
