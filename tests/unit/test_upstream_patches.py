"""The patches that are offered to mitmproxy fit the one that is installed, and it works with them."""

import shutil
import subprocess
import sys
from pathlib import Path

import mitmproxy
import pytest

from unit.sources import PACKAGE

PATCHES = sorted((PACKAGE.parents[1] / "examples" / "upstream").glob("*.patch"))

_USE = """
from mitmproxy import http, options
from mitmproxy.addonmanager import AddonManager
from mitmproxy.hooks import UpdateHook
from mitmproxy.master import Master
from mitmproxy.optmanager import _Option
import asyncio, logging, types

headers = http.Headers([(b"Host", b"a"), (b"HOST", b"b")])
assert headers.get("host") == headers[b"hOst"] == "a, b" and "host" in headers and "no" not in headers
assert headers.get("no", 7) == 7
try:
    http.Request.make("GET", "http://h.example/").data.__class__(*[None] * 12)
except TypeError:
    option, called = _Option("x", list, [], "", None), []
    option.current().append(1)
    assert option.current() == [] and _Option("x", int, 7, "", None).current() == 7

    async def whole():
        master = Master(options.Options())
        addons = master.addons
        addons.chain = [object(), types.SimpleNamespace(addons=[types.SimpleNamespace(update=called.append)])]
        await addons.trigger_event(UpdateHook([1]))
        logging.warning("nobody hears it")
        addons.chain.append(types.SimpleNamespace(add_log=lambda entry: called.append(entry.msg[-5:])))
        logging.warning("heard")
        await asyncio.sleep(0)

    asyncio.run(whole())
    assert called == [[1], "heard"]
    print("whole")
"""


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("patch"), reason="there is no patch")
@pytest.mark.thorough
def test_each_patch_fits_and_mitmproxy_works_with_all_of_them(tmp_path: Path) -> None:
    assert len(PATCHES) == 4
    installed = Path(mitmproxy.__file__).parent
    shutil.copytree(installed, tmp_path / "mitmproxy", ignore=shutil.ignore_patterns("__pycache__", "tools"))
    for patch in PATCHES:
        subprocess.run(["patch", "-p1", "--fuzz=0", "-i", str(patch)], cwd=tmp_path, check=True, capture_output=True)
    told = subprocess.run([sys.executable, "-c", _USE], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert told.stdout == "whole\n"
