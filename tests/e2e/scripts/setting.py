"""A mitmproxy script for the tests: sets the policy at run time, to what a request to "set.test" names in its query.

The answer is 204, or 409 with the error of the option.
"""

from __future__ import annotations

from mitmproxy import ctx, exceptions, http


def requestheaders(flow: http.HTTPFlow) -> None:
    if flow.request.host != "set.test":
        return
    try:
        ctx.options.update(hushlist_policy=flow.request.query["policy"])
    except exceptions.OptionsError as error:
        flow.response = http.Response.make(409, str(error))
    else:
        flow.response = http.Response.make(204, headers={"Policy": ctx.options.hushlist_policy})
