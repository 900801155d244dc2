"""A real mitmdump whose files can be spoiled, and what becomes of requests then; the origin's log is the judge."""

from __future__ import annotations

import io
import re
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, redirect_stdout
from pathlib import Path

import httpx
import yaml

from e2e.origin import Origin
from e2e.policies import replace
from e2e.proxy import FILTER, PATIENCE, Proxy, mitmdump
from support.environment import environment

#: what becomes of two requests, one for what is blocked and one for what is not
DECIDES, REFUSES, PASSES, LEAKS = "decides", "refuses", "passes", "leaks"
#: mitmdump does not start, or does not go on
ENDS = "ends"
#: seconds that a client waits where nobody answers
UNANSWERED = 1.5
_LIST = "".join(["rules:\n- ads.test/\n", *(f"- other{number}.test/\n" for number in range(1500))])


class Lab:
    """One choice of ``on-failure``, with a folder, an origin and, where it was started, a proxy."""

    def __init__(
        self, folder: Path, origin: Origin, choice: str = "closed", settings: Mapping[str, object] | None = None
    ) -> None:
        """``settings`` are more keys of the policy, or others."""
        self._settings = settings or {}
        self.folder, self.origin, self.choice = folder, origin, choice
        self.list, self.policy = folder / "rules.yaml", folder / "policy.yaml"
        self.script = folder / "script" / "filter.py"
        self.caches, self.state, self.temporary = folder / "caches", folder / "state", folder / "temporary"
        self.log = folder / "log"
        #: what a mitmdump printed that did not start
        self.said = ""
        #: what runs mitmdump; with any, it and what compiles for it are started as commands
        self.command: tuple[str, ...] = ()
        self._proxy: Proxy | None = None
        folder.mkdir(parents=True)
        self.temporary.mkdir()
        self.script.parent.mkdir()
        self.script.write_text(FILTER.read_text())
        self.mend()

    @property
    def cache(self) -> Path:
        """The folder of the index files."""
        return self.caches / "hushlist"

    @property
    def store(self) -> Path:
        """The file of temporary unblocks."""
        return self.state / "hushlist" / "overrides.sqlite"

    @property
    def proxy(self) -> Proxy:
        """The one that runs."""
        assert self._proxy is not None
        return self._proxy

    # -- files -----------------------------------------------------------------------------------------------------

    def mend(self) -> None:
        """Write policy and list as they are to be."""
        replace(self.list, _LIST)
        policy = {
            "on-failure": self.choice,
            "unblock": "on",
            "log": {"folder": "log", "what": "all"},
            "layers": [{"name": "lists", "lists": ["rules.yaml"]}],
            **self._settings,
        }
        replace(self.policy, yaml.safe_dump(policy, sort_keys=False))

    def restore(self) -> None:
        """Mend, and wait until that is in force."""
        start = len(self.proxy.log)
        self.mend()
        self.wait_for(" rules of ", start)

    def break_list(self) -> None:
        """Write a list that is wrong in its second line."""
        replace(self.list, "rules:\n  - 'mailto:x'\n")

    def index(self) -> Path:
        """The one index file."""
        (found,) = self.cache.glob("*.index")
        return found

    # -- the proxy -------------------------------------------------------------------------------------------------

    @contextmanager
    def running(self) -> Iterator[Proxy | None]:
        """A mitmdump, or ``None`` where it does not start; ``said`` is what it printed then."""
        with ExitStack() as stack:
            stack.enter_context(redirect_stdout(io.StringIO()))
            (self.folder / "mitmdump").mkdir(exist_ok=True)
            try:
                self._proxy = stack.enter_context(self._start())
            except AssertionError as error:
                self.said = str(error)
                yield None
                return
            try:
                yield self._proxy
            finally:
                self._proxy = None

    @contextmanager
    def _start(self) -> Iterator[Proxy]:
        """A mitmdump with the folders of this lab, and none of the user's."""
        folders = {"XDG_CACHE_HOME": self.caches, "XDG_STATE_HOME": self.state, "TMPDIR": self.temporary}
        with ExitStack() as stack:
            with environment(folders):
                folder, scripts = self.folder / "mitmdump", ["failing.py"]
                more = {"policy": self.policy, "script": self.script}
                started = mitmdump(folder, self.origin, scripts=scripts, command=self.command, **more)
                proxy = stack.enter_context(started)
            yield proxy

    # -- what becomes of requests ----------------------------------------------------------------------------------

    def seen(self, path: str = "/", patience: float = PATIENCE, sends: bytes = b"") -> str:
        """What becomes of a request for what is blocked, and of one for what is not, by clients of some patience.

        ``sends``: both upload this file.
        """
        if self.proxy.process.poll() is not None:
            return ENDS
        arrived = [self._arrives(host, path, patience, sends) for host in ("ads.test", "good.test")]
        if self.proxy.process.poll() is not None:
            return ENDS
        return {(False, True): DECIDES, (False, False): REFUSES, (True, True): PASSES}.get((*arrived,), LEAKS)

    def _arrives(self, host: str, path: str, patience: float, sends: bytes) -> bool:
        with self.origin.watch() as arrived:
            try:
                with self.proxy.client(timeout=patience) as client:
                    typed = {"Content-Type": "application/x"} if sends else {}
                    client.request("PUT" if sends else "GET", f"http://{host}{path}", content=sends, headers=typed)
            except httpx.TransportError:
                pass  # no answer is one of the things that may come of it
        return bool(arrived.requests)

    def eventually(self, outcome: str) -> str:
        """What becomes of requests, once it is this, or at last."""
        end = time.monotonic() + PATIENCE
        while (seen := self.seen(patience=UNANSWERED)) != outcome and seen != ENDS and time.monotonic() < end:
            time.sleep(0.1)
        return seen

    def wait_for(self, words: str, start: int) -> None:
        """Wait for words in the log of mitmdump, from a line on."""
        self.proxy.log.wait_for(re.escape(words), start)
