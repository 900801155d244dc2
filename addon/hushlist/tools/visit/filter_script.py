"""What the filters of a visit load beside Hushlist: it records, plays a recording, and tells what was asked.

A program on this machine asks it, on a port of loopback, one JSON object a line; the first line has to be the token of
``HUSHLIST_VISIT``, so that no page can ask. It imports nothing of mitmproxy: its hooks get what they need.
"""

from __future__ import annotations

import asyncio
import json
import os
from contextlib import suppress
from hmac import compare_digest
from pathlib import Path
from typing import Any

from hushlist.core.compile.stat_cache import load_engine

#: octets of a line that asks
_LONGEST = 1 << 16
#: most requests of a page that are kept
_MOST = 20_000


class VisitedRequests:
    """The requests since the last recording was put in, with their decisions."""

    def __init__(self) -> None:
        self._token, _, self._place = os.environ.get("HUSHLIST_VISIT", "").partition(":")
        self._requests: list[dict[str, Any]] = []
        self._master: Any = None
        #: the recording that is played
        self._played = ""
        self._server: asyncio.Server | None = None

    def load(self, loader: Any) -> None:
        """mitmproxy's hook. What the filter has answered is not answered once more from the recording."""
        self._master = loader.master
        playback = loader.master.addons.get("serverplayback")
        play = playback.request
        playback.request = lambda flow: play(flow) if flow.response is None else None

    async def running(self) -> None:
        """mitmproxy's hook: listen, and say where; without a token, nobody may ask."""
        if not self._token:
            return
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, limit=_LONGEST)
        port = self._server.sockets[0].getsockname()[1]
        (address, *_) = self._master.addons.get("proxyserver").listen_addrs()
        place = Path(self._place)
        part = place.with_suffix(".part")
        part.write_text(json.dumps({"control": port, "proxy": address[1]}), encoding="ascii")
        part.replace(place)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError, ValueError, asyncio.IncompleteReadError):
            if compare_digest((await reader.readline()).strip(), self._token.encode()):
                while line := await reader.readline():
                    writer.write(json.dumps(await self._answer(json.loads(line))).encode() + b"\n")
                    await writer.drain()
        writer.close()

    async def _answer(self, order: dict[str, str]) -> object:
        options = self._master.options
        try:
            if "play" in order:
                self._requests = []
                if order["play"] != self._played:
                    self._master.addons.get("serverplayback").load_file(order["play"])
                self._played = order["play"]
            elif "record" in order:
                self._requests = []
                options.update(save_stream_file=order["record"] or None)
            elif "policy" in order:
                await self._use(Path(order["policy"]))
        except Exception as error:  # of mitmproxy's many kinds: whoever asked has to know
            return {"error": str(error)}
        return {"requests": self._requests}

    async def _use(self, policy: Path) -> None:
        """Decide by another policy, as soon as it is compiled; the proxy's own watch looks only every few seconds."""
        runtime = self._master.addons.get("hushlist").runtime
        runtime.use(await asyncio.to_thread(load_engine, policy), runtime.template)

    def response(self, flow: Any) -> None:
        """mitmproxy's hook."""
        self._keep(flow)

    def error(self, flow: Any) -> None:
        """mitmproxy's hook."""
        self._keep(flow)

    def _keep(self, flow: Any) -> None:
        if len(self._requests) >= _MOST or not hasattr(flow, "request"):
            return
        request, response = flow.request, flow.response
        decision = flow.metadata.get("hushlist") or {}
        stopped = decision.get("action") in ("block", "warn") and not decision.get("would_block")
        # what is not in the recording, mitmproxy answers with this status and no more
        is_played = flow.is_replay == "response"
        missing = is_played and response.status_code == 404 and len(response.headers) <= 1 and not response.raw_content
        self._requests.append(
            {
                "url": request.pretty_url,
                "method": request.method,
                "kind": request.headers.get("sec-fetch-dest", ""),
                "mode": request.headers.get("sec-fetch-mode", ""),
                "page": request.headers.get("referer", ""),
                "status": response.status_code if response else 0,
                "octets": 0 if stopped or not response else len(response.raw_content or b""),
                "cookies": len(response.headers.get_all("set-cookie")) if response and not stopped else 0,
                "stopped": stopped,
                "missing": missing,
                "rules": [decision["winner"]] if stopped and decision.get("winner") else [],
                "fault": decision.get("fault") or "",
                "error": flow.error.msg if flow.error else "",
            }
        )


addons = [VisitedRequests()]
