"""The interface against its OpenAPI document: schemathesis sends what fits the document, and what does not."""

from __future__ import annotations

from datetime import timedelta

import httpx
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from hushlist.core.routes import Action
from hushlist.core.url.request import LONGEST_TARGET
from hushlist.extensions.dashboard.api_description import BASE
from hushlist.extensions.dashboard.api_requests import LONGEST_BODY
from hushlist.extensions.dashboard.dashboard_server import HOST
from support.administrators import ACTIONS, DOCUMENT, Browser, browser, manager, use

schemathesis = pytest.importorskip("schemathesis", reason="the extra openapi is not installed")
requests = pytest.importorskip("requests")
__all__ = ["browser", "manager", "use"]

pytestmark = [pytest.mark.thorough, pytest.mark.usefixtures("own_folders")]

#: without the tokens of programs: who may do what is tested elsewhere
_PATHS = {
    path: {method: {**operation, "security": []} for method, operation in methods.items()}
    for path, methods in DOCUMENT["paths"].items()
}
SCHEMA = schemathesis.openapi.from_dict({**DOCUMENT, "paths": _PATHS})
#: those that take something, but for signing in, where wrong tries are limited
TAKING = [call for call in ACTIONS if call.takes and call.name != "sign_in"]
#: what fits the document may still not be possible
LEFT_OUT = schemathesis.checks.CHECKS.get_by_names(["positive_data_acceptance"])


@pytest.mark.parametrize("mode", schemathesis.GenerationMode)
@pytest.mark.parametrize("call", TAKING, ids=lambda call: f"{call.method} {call.path}")
@settings(max_examples=5, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_whatever_is_sent_is_answered_as_described(
    manager: Browser, call: Action, mode: schemathesis.GenerationMode, data: st.DataObject
) -> None:
    case = data.draw(SCHEMA[call.path][call.method].as_strategy(mode))
    sent = requests.Request(**case.as_transport_kwargs(base_url=f"http://{HOST}{BASE}")).prepare()
    assume(len(sent.path_url) <= LONGEST_TARGET)  # a longer one is blocked, whatever it is for
    assume(len(sent.body or b"") <= LONGEST_BODY)  # the connection of a longer one ends
    response = manager.send(sent.method, sent.path_url, sent.body)
    headers, asked = list(response.headers.items(multi=True)), httpx.Request(sent.method, f"http://{HOST}")
    answer = httpx.Response(response.status_code, headers=headers, content=response.content, request=asked)
    answer.elapsed = timedelta(0)  # of no interest
    case.validate_response(answer, excluded_checks=LEFT_OUT)
