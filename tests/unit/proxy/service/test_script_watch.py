"""The script with the filter, as a real master of mitmproxy loads it: what was in force stays."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from mitmproxy import addonmanager, http
from mitmproxy.addons.script import Script
from mitmproxy.options import Options
from mitmproxy.proxy.layers.http import HttpRequestHeadersHook, HttpResponseHook
from mitmproxy.test import tflow
from mitmproxy.tools.dump import DumpMaster

from hushlist.proxy.addon import Hushlist
from hushlist.proxy.service import script_watch
from hushlist.proxy.service.health import is_ready

PLAIN = "from hushlist.proxy.addon import Hushlist\naddons = [Hushlist()]\n"
OTHER_ADDON = """
from hushlist.proxy.addon import Hushlist
from mitmproxy import ctx

class Own:
    def load(self, loader):
        {load}
    def configure(self, updated):
        {configure}
    def response(self, flow):
        flow.response.headers["own"] = "{own}"
    def done(self):
        print("{own} is done")

addons = [{addons}]
"""


def larger(
    header: str, load: str = "pass", configure: str = "pass", addons: str = "Own(), Hushlist()", more: str = ""
) -> str:
    """A larger file of an administrator, in which the filter is one of several addons."""
    return OTHER_ADDON.format(own=header, load=load, configure=configure, addons=addons) + more


SUBCLASS = """
from hushlist.proxy.addon import Hushlist

class Mine(Hushlist):
    def response(self, flow):
        super().response(flow)
        flow.response.headers["own"] = "{own}"

addons = [Mine()]
"""


class Lab:
    """A master of mitmproxy that has loaded the script."""

    def __init__(self, master: DumpMaster, path: Path) -> None:
        self.master, self.path = master, path
        self.hushlist = self.now()

    def now(self) -> Hushlist:
        found = self.master.addons.get("hushlist")
        assert isinstance(found, Hushlist)
        return found

    async def look(self) -> None:
        """What the watch does each second."""
        (script,) = (script for script in addonmanager.traverse(self.master.addons.chain) if isinstance(script, Script))
        self.hushlist = await self.hushlist._script.look(script, self.hushlist)  # type: ignore[assignment]

    async def write(self, text: str) -> None:
        self.path.write_text(text)
        await self.look()

    async def status(self, host: str) -> int | None:
        """What a request gets from the proxy; ``None``: it goes on."""
        flow = tflow.tflow(req=http.Request.make("GET", f"http://{host}/"))
        await self.master.addons.trigger_event(HttpRequestHeadersHook(flow))
        return None if flow.response is None else flow.response.status_code

    async def decides(self) -> bool:
        return (await self.status("ads.test"), await self.status("good.test")) == (403, None)

    async def addon_header(self) -> str | None:
        """What the administrator's addon writes into answers."""
        flow = tflow.tflow(resp=True)
        await self.master.addons.trigger_event(HttpResponseHook(flow))
        assert flow.response is not None
        return flow.response.headers.get("own")


@asynccontextmanager
async def loaded(folder: Path, text: str = PLAIN) -> AsyncIterator[Lab]:
    (folder / "rules.yaml").write_text("rules:\n- ads.test/\n")
    (folder / "policy.yaml").write_text("layers:\n- {name: lists, lists: [rules.yaml]}\n")
    (folder / "scripts").mkdir()
    path = folder / "scripts" / "filter.py"
    path.write_text(text)
    master = DumpMaster(Options(), with_termlog=False, with_dumper=False)
    try:
        master.options.update(server=False, confdir=str(folder / "conf"))
        master.options.set(f"hushlist_policy={folder / 'policy.yaml'}", defer=True)
        master.options.update(scripts=[str(path)])
        async with asyncio.timeout(30):
            while not master.addons.get("hushlist"):
                await asyncio.sleep(0)
            while len(master.addons.chain) and master.addons.chain[0].__class__.__name__ != "_Keeper":
                await asyncio.sleep(0)
        await master.running()
        yield Lab(master, path)
    finally:
        await master.done()
        master.addons.get("errorcheck").finish()


def run(folder: Path, check: Callable[[Lab], Any], text: str = PLAIN) -> None:
    async def whole() -> None:
        async with loaded(folder, text) as lab:
            assert await lab.decides()
            await check(lab)

    asyncio.run(whole())


BROKEN = {
    "empty": "",
    "a mistake": "def (\n",
    "half": PLAIN[: PLAIN.index("addons")],
    "a name that the running package lacks": PLAIN.replace("import Hushlist", "import Hushlist, SomethingNew"),
    "no addons": "addons = []\n",
    "two filters": PLAIN.replace("[Hushlist()]", "[Hushlist(), Hushlist()]"),
    "it raises": "raise ValueError('of the script')\n",
    "it ends": "import sys; sys.exit(1)\n",
    "an addon raises in load": larger("b", load="raise ValueError('of the script')"),
    "an addon behind it raises in load": larger("b", load="1 / 0", addons="Hushlist(), Own()"),
    "an addon raises in configure": larger("b", configure="ctx.options.no_such"),
    "a name twice": larger("b", addons="Own(), Own(), Hushlist()"),
    "a name of mitmproxy's": larger("b", more="Own.name = 'core'\n"),
    "not UTF-8": "addons = '\udcff'",
}


@pytest.mark.slow
@pytest.mark.parametrize("text", [PLAIN, larger("a")], ids=["plain", "larger"])
def test_what_was_in_force_stays_while_the_script_cannot_be_loaded(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, text: str
) -> None:
    async def check(lab: Lab) -> None:
        for name, broken in BROKEN.items():
            await lab.write(text)
            caplog.clear()
            before, addon_header = lab.now(), await lab.addon_header()
            lab.path.write_bytes(broken.encode("utf-8", "surrogateescape"))
            for _ in range(2):
                await lab.look()
            assert await lab.decides(), name
            assert lab.now() is before, name
            assert await lab.addon_header() == addon_header, name
            (record,) = (one for one in caplog.records if one.levelno >= logging.WARNING)
            assert str(lab.path) in record.getMessage()
            assert script_watch.STAYS in record.getMessage(), name
            health = is_ready(lab.hushlist.runtime)
            assert health.is_good, name
            assert any(script_watch.BROKEN in warning for warning in health.warnings), name
            await lab.write(larger("c"))
            assert await lab.decides(), name
            assert await lab.addon_header() == "c", name
            assert not is_ready(lab.hushlist.runtime).warnings, name

    run(tmp_path, check, text)


#: how a script goes, and comes back
GONE: dict[str, tuple[Callable[[Path], Any], Callable[[Path], Any]]] = {
    "removed": (Path.unlink, lambda path: path.write_text(PLAIN)),
    "folder moved": (
        lambda path: path.parent.rename(f"{path.parent}-old"),
        lambda path: Path(f"{path.parent}-old").rename(path.parent),
    ),
    "a pipe": (lambda path: (path.unlink(), os.mkfifo(path)), lambda path: (path.unlink(), path.write_text(PLAIN))),
    "a folder": (lambda path: (path.unlink(), path.mkdir()), lambda path: (path.rmdir(), path.write_text(PLAIN))),
    "a link to itself": (
        lambda path: (path.unlink(), path.symlink_to(path)),
        lambda path: (path.unlink(), path.write_text(PLAIN)),
    ),
}


def test_a_script_that_is_gone_is_read_when_it_is_back(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def check(lab: Lab) -> None:
        for name, (take, back) in GONE.items():
            caplog.clear()
            take(lab.path)
            for _ in range(2):
                await lab.look()
            assert await lab.decides(), name
            assert lab.master.options.scripts == [str(lab.path)]
            (record,) = (one for one in caplog.records if one.levelno >= logging.WARNING)
            assert script_watch.STAYS in record.getMessage(), name
            assert any(script_watch.GONE in warning for warning in is_ready(lab.hushlist.runtime).warnings), name
            back(lab.path)
            await lab.look()
            assert not is_ready(lab.hushlist.runtime).warnings, name
            await lab.write(larger(name))
            assert await lab.decides(), name
            assert await lab.addon_header() == name

    run(tmp_path, check)


@pytest.mark.parametrize("text", [larger("{}"), SUBCLASS], ids=["beside", "subclass"])
def test_new_code_is_in_force_and_the_filter_goes_on(
    tmp_path: Path, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    async def check(lab: Lab) -> None:
        runtime, length = lab.now().runtime, len(lab.master.addons.lookup)
        for version in ("b", "c", "d"):
            await lab.write(text.replace("{own}", version).replace('"{}"', f'"{version}"'))
            assert await lab.addon_header() == version
            assert await lab.decides()
            assert lab.now().runtime is runtime
        assert len(lab.master.addons.lookup) == length + ("class Own" in text)
        assert lab.now().runtime.statistics.total > 0

    run(tmp_path, check)


def test_a_filter_that_is_taken_out_by_another_program_leaves_nothing_that_passes(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def check(lab: Lab) -> None:
        (script,) = (script for script in addonmanager.traverse(lab.master.addons.chain) if isinstance(script, Script))
        lab.master.addons.get("scriptloader").addons.remove(script)
        lab.master.addons.remove(script)
        assert [await lab.status(host) for host in ("ads.test", "good.test")] == [503, 503]
        assert caplog.text.count("everything is refused") == 1

    run(tmp_path, check)
