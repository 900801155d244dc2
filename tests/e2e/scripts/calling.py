"""A mitmproxy script for the tests: runs the command that a request to "call.test" names in its query.

The command gets the flows whose URL has the text of "on" in it, where one is given. The answer is 200 with what the
command returns, or 409 with its error. It also logs to which address, and by which server name, the proxy connects.
"""

from __future__ import annotations

import logging

from mitmproxy import ctx, exceptions, http
from mitmproxy.proxy.server_hooks import ServerConnectionHookData

_flows: list[http.HTTPFlow] = []


def requestheaders(flow: http.HTTPFlow) -> None:
    if flow.request.host != "call.test":
        _flows.append(flow)
        return
    name, on = flow.request.query["name"], flow.request.query.get("on")
    try:
        found = [one for one in _flows if on is not None and on in one.request.pretty_url]
        result = ctx.master.commands.call(name, *([] if on is None else [found]))
    except exceptions.CommandError as error:
        flow.response = http.Response.make(409, str(error))
    else:
        flow.response = http.Response.make(200, str(result))


def server_connected(data: ServerConnectionHookData) -> None:
    logging.info("connected to %s as %s", data.server.address, data.server.sni)
