"""People who sign in to the live page, and act there: a policy that names them, and their browsers."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from mitmproxy import exceptions, http
from mitmproxy.test import taddons, tflow

from hushlist.core.extension import ALL_BUILT_IN
from hushlist.core.routes import WITH_BODY
from hushlist.extensions.dashboard.admin_api import rows_of
from hushlist.extensions.dashboard.api_description import BASE, openapi
from hushlist.extensions.dashboard.dashboard_server import HOST
from hushlist.extensions.subscriptions.list_store import ListStore
from hushlist.extensions.unblock import credentials
from hushlist.extensions.unblock.access_requests import AccessRequest
from hushlist.extensions.unblock.unblock_handler import overrides_of
from hushlist.proxy.addon import Hushlist

PEOPLE = {"vera": "view", "anna": "approve", "max": "manage"}
PASSPHRASE = "correct horse"
LIST = "https://lists.example/a.domains"
#: whatever stands in it must stay text
MARKUP = "<img src=x onerror=alert(1)>"
#: the interface of the extensions that come with Hushlist
ACTIONS = rows_of((ALL_BUILT_IN,)).actions
DOCUMENT = openapi(ACTIONS, f"http://{HOST}")


def validator(operation: dict[str, Any], status: int) -> Draft202012Validator:
    """Of what an operation answers with a status."""
    schema = operation["responses"][str(status)]["content"]["application/json"]["schema"]
    return Draft202012Validator({**schema, "components": DOCUMENT["components"]})


@pytest.fixture
def use(
    context: taddons.context, hushlist: Hushlist, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Path]:
    """Put a policy in force, whose own rules are in a file; returns that."""
    monkeypatch.setattr(credentials, "SCRYPT_N", 2)
    stored = credentials.hash_passphrase(PASSPHRASE)

    def use(more: str = "", people: dict[str, str] | None = None, lists: str = "ads.yaml") -> Path:
        named = PEOPLE if people is None else people
        lines = [f"- {{name: {name}, passphrase: '{stored}', role: {role}}}" for name, role in named.items()]
        admin = "\n".join(["admin:", *lines]) if lines else ""
        (tmp_path / "ads.yaml").write_text("rules: [{expression: blocked.example, category: 'hrn://c.example/ads'}]\n")
        overrides = tmp_path / "own.yaml"
        if not overrides.exists():
            overrides.write_text("# mine\nrules:\n  - mine.example  # keep\n\n# the end\n")
        layers = "- {name: overrides, lists: [own.yaml]}\n"
        layers += f"- {{name: lists, lists: [{lists}]}}\n"
        live = "live: {clients: [0.0.0.0/0, '::/0']}"
        (tmp_path / "policy.yaml").write_text(f"{live}\n{admin}\n{more}\nlayers:\n{layers}")
        if context.options.hushlist_policy:  # it is read again
            context.configure(hushlist, hushlist_policy="")
        context.configure(hushlist, hushlist_policy=str(tmp_path / "policy.yaml"), hushlist_mode="block")
        return overrides

    return use


class Browser:
    """A client of the page, which keeps cookies as browsers do."""

    def __init__(self, hushlist: Hushlist, address: str = "127.0.0.1", scheme: str = "http") -> None:
        self.hushlist, self.address, self.scheme = hushlist, address, scheme
        self.cookies: dict[str, str] = {}
        self.token = ""

    async def _requestheaders(self, flow: http.HTTPFlow) -> None:
        if (awaited := self.hushlist.requestheaders(flow)) is not None:
            await awaited

    def send(self, method: str, path: str, body: object = None, **headers: str) -> http.Response:
        """What is answered; a header with an empty value is left out."""
        content = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
        flow = tflow.tflow(req=http.Request.make(method, f"{self.scheme}://{HOST}{path}", content))
        fields = {"X-Hushlist": "live", "X-Hushlist-Token": self.token}
        if method in WITH_BODY:
            fields["Content-Type"] = "application/json"
        if self.cookies:
            fields["Cookie"] = "; ".join(f"{name}={value}" for name, value in self.cookies.items())
        fields |= {name.replace("_", "-"): value for name, value in headers.items()}
        flow.request.headers.update({name: value for name, value in fields.items() if value})
        flow.client_conn.peername = (self.address, 50000)
        flow.client_conn.sni = HOST if self.scheme == "https" else None

        async def whole() -> None:
            with pytest.raises(exceptions.AddonHalt):
                await self._requestheaders(flow)
            assert flow.response is not None  # nothing goes on to an origin while the body arrives
            with pytest.raises(exceptions.AddonHalt):
                await self._request(flow)

        asyncio.run(whole())
        assert flow.response is not None
        assert flow.response.headers["content-security-policy"] if path.startswith(BASE) else True
        for line in flow.response.headers.get_all("set-cookie"):
            name, _, value = line.partition(";")[0].partition("=")
            self.cookies[name] = value
        return flow.response

    async def _request(self, flow: http.HTTPFlow) -> None:
        later = self.hushlist.request(flow)
        if later is not None:
            await later

    def call(self, method: str, path: str, body: object = None, **headers: str) -> tuple[int, dict[str, Any]]:
        """What is answered, which has to be as it is described."""
        response = self.send(method, BASE + path, body, **headers)
        plain = json.loads(response.content or b"{}")
        fitting = [
            action for action in ACTIONS if action.method == method and action.match(path.partition("?")[0]) is not None
        ]
        for action in fitting[-1:]:
            described = validator(DOCUMENT["paths"][action.path][method.lower()], response.status_code)
            assert [error.message for error in described.iter_errors(plain)] == []
        return response.status_code, plain

    def recorded(self) -> list[str]:
        """What was done, the newest first."""
        return [entry["what"] for entry in self.call("GET", "/record")[1]["record"]]

    def sign_in(self, name: str, passphrase: str = PASSPHRASE) -> int:
        status, plain = self.call("POST", "/session", {"name": name, "passphrase": passphrase})
        self.token = plain.get("token") or ""
        return status


@pytest.fixture
def browser(hushlist: Hushlist) -> Browser:
    return Browser(hushlist)


@pytest.fixture
def manager(browser: Browser, use: Callable[..., Path]) -> Browser:
    use()
    assert browser.sign_in("max") == 200
    return browser


GRANT = {"scope": "host", "target": "blocked.example", "minutes": 5, "client": "everybody"}


def decided(hushlist: Hushlist, url: str, client: str = "10.0.0.7") -> int | None:
    """The status of an answer in the place of the origin's; ``None``: it passes."""
    flow = tflow.tflow(req=http.Request.make("GET", url))
    flow.client_conn.peername = (client, 50000)
    hushlist.requestheaders(flow)
    return None if flow.response is None else flow.response.status_code


def ask(hushlist: Hushlist, host: str) -> int:
    """Ask for access as the form of a block page does; the request's number."""
    assert overrides_of(hushlist.runtime) is not None
    url = f"http://{host}/page"
    wanted = AccessRequest(0, "10.0.0.7", "10.0.0.7", "default", host, url, None, MARKUP, asked=0.0, until=0.0)
    return overrides_of(hushlist.runtime).ask(wanted).id


@pytest.fixture
def store(hushlist: Hushlist, use: Callable[..., Path], browser: Browser) -> ListStore:
    """The store of a list that is fetched, of which a version is in force, and another one held back."""
    use(lists=f"{{url: '{LIST}', format: domains, optional: true}}")
    assert browser.sign_in("max") == 200
    assert hushlist.runtime.engine is not None
    (subscription,) = hushlist.runtime.engine.policy.subscribed
    with subscription.store.locked():
        subscription.store.use(subscription.store.keep(b"a.example\n# note\nb.example\n"))
        subscription.store.hold_back(subscription.store.keep(f"b.example\n{MARKUP}\n".encode()), ["it is odd"])
    return subscription.store
