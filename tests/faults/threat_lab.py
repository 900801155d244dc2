"""A real mitmdump with lists of Safe Browsing, each of a server of its own that can be made to fail."""

from __future__ import annotations

import ssl
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path

import yaml

from e2e.origin import Origin
from e2e.policies import write_list
from e2e.proxy import Proxy, mitmdump
from e2e.test_subscriptions import make_due
from hushlist.extensions.subscriptions.list_outcome import ListUpdate
from hushlist.extensions.subscriptions.list_update import update_lists
from support.environment import environment
from support.https_origin import write_chain
from support.prefix_server import PrefixServer

#: what ``no-answer`` may say
CHOICES = ("pass", "block")
#: what becomes of a page whose prefix is listed, and that nobody has asked about before the fault
BLOCKED, PASSES = "blocked", "passes"


class ThreatServer(PrefixServer):
    """One with two pages on its list, of which people ask for one before it fails, and for one afterwards."""

    def __init__(self, folder: Path, name: str) -> None:
        folder.mkdir()
        self.listed, self.new = f"known.{name}.test", f"new.{name}.test"
        self.authority, self.context = folder / "authority.pem", ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._folder = folder
        self.context.load_cert_chain(*write_chain(folder, self.authority))
        super().__init__(f"{self.listed}/".encode(), f"{self.new}/".encode(), tls=self.context)

    def show_another_certificate(self) -> None:
        """As somebody on the way would."""
        self.context.load_cert_chain(*write_chain(self._folder, self._folder / "another.pem"))


class ThreatLab:
    """The proxy, and for each name and each choice of ``no-answer`` a server; each page that is known was asked for."""

    def __init__(self, folder: Path, origin: Origin, names: Iterable[str]) -> None:
        self._folder, self._origin, self._names = folder, origin, tuple(names)
        self.policy = folder / "policy.yaml"
        self.servers: dict[tuple[str, str], ThreatServer] = {}
        self._proxy: Proxy | None = None
        folder.mkdir(parents=True)

    @property
    def proxy(self) -> Proxy:
        """The one that runs."""
        assert self._proxy is not None
        return self._proxy

    @contextmanager
    def running(self) -> Iterator[ThreatLab]:
        """Start all of it."""
        with ExitStack() as stack:
            lists: list[object] = ["rules.yaml"]
            write_list(self._folder / "rules.yaml", "ads.test/")
            trusted = b""
            for number, (name, choice) in enumerate((name, choice) for name in self._names for choice in CHOICES):
                server = stack.enter_context(ThreatServer(self._folder / f"server{number}", f"{choice}{number}"))
                self.servers[name, choice] = server
                trusted += server.authority.read_bytes()
                version, of = ((4, "MALWARE"), (5, "mw-4b"))[number % 2]
                asked = {"version": version, "lists": [of], "server": server.url, "no-answer": choice}
                lists.append({"safe-browsing": asked})
            self.policy.write_text(yaml.safe_dump({"layers": [{"name": "lists", "lists": lists}]}))
            (self._folder / "authorities.pem").write_bytes(trusted)
            own = {"XDG_CACHE_HOME": "cache", "XDG_STATE_HOME": "state", "SSL_CERT_FILE": "authorities.pem"}
            stack.enter_context(environment({key: str(self._folder / path) for key, path in own.items()}))
            (self._folder / "mitmdump").mkdir()
            started = mitmdump(self._folder / "mitmdump", self._origin, policy=self.policy)
            self._proxy = stack.enter_context(started)
            known = [server.listed for server in self.servers.values()]
            assert self.seen(*known) == dict.fromkeys(known, BLOCKED)
            yield self

    def seen(self, *hosts: str) -> dict[str, str]:
        """What becomes of requests, all at once, for hosts."""
        with self._origin.watch() as arrived, ThreadPoolExecutor(len(hosts)) as threads:
            pages = list(threads.map(lambda host: self.proxy.get(f"http://{host}/"), hosts))
        come = {request.host for request in arrived.requests}
        named = {(200, True): PASSES, (403, False): BLOCKED}
        seen = ((page.status_code, host in come) for host, page in zip(hosts, pages, strict=True))
        return {host: named.get(one, str(one)) for host, one in zip(hosts, seen, strict=True)}

    def update(self, name: str) -> list[ListUpdate]:
        """Try to update the lists of some servers, as the proxy does when their time has come."""
        due = make_due(self.policy, *(self.servers[name, choice].url for choice in CHOICES))
        return list(update_lists(self.policy, due))
