"""Tells services whose accounts they may let in, on each request that passes."""

from __future__ import annotations

from contextlib import suppress

from mitmproxy import connection, http

from hushlist.core.decide.decision import Judgement
from hushlist.core.errors import UrlError
from hushlist.core.url.request import canonical_host
from hushlist.proxy.flow_outcome import set_header
from hushlist.proxy.parts import Part


class TenantHeaders(Part):
    """Sets the header fields of a policy's ``tenants``; a dry run changes nothing."""

    def passed(
        self,
        used: http.HTTPFlow | connection.Client,
        client: connection.Client,
        judgement: Judgement,
        *,
        goes_on: bool = False,
    ) -> None:
        """Set the fields of a request that passes; whichever of its names is the service's."""
        rules = judgement.settings.of("tenants")
        if not rules or judgement.settings.mode == "tag" or not isinstance(used, http.HTTPFlow):
            return
        for name in judgement.request.hosts:
            with suppress(UrlError):
                host = canonical_host(name)
                for rule in rules:
                    if rule.hosts.covers(host):
                        for field, value in rule.fields:
                            set_header(used.request.headers, field, value)
