"""The script, and the package, are gone, broken or replaced under a proxy that runs: nothing passes undecided."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from e2e.origin import Origin
from e2e.policies import replace, simple_policy
from e2e.proxy import CHECKOUT, FILTER, Proxy, eventually, mitmdump
from hushlist.core.system.package_code import OTHER_CODE
from hushlist.proxy.service.script_watch import BROKEN, STAYS

PLAIN = "from hushlist.proxy.addon import Hushlist\n\naddons = [Hushlist()]\n"
LARGER = """
from hushlist.proxy.addon import Hushlist

class Own:
    def responseheaders(self, flow):
        flow.response.headers["own"] = "{own}"

addons = [Own(), Hushlist()]
"""


@pytest.fixture
def script(tmp_path: Path) -> Path:
    folder = tmp_path / "scripts"
    folder.mkdir()
    return folder / "filter.py"


@contextmanager
def proxied(tmp_path: Path, origin: Origin, script: Path, **more: Any) -> Iterator[Proxy]:
    policy = simple_policy(tmp_path, "ads.test/")
    (tmp_path / "mitmproxy").mkdir()
    with mitmdump(tmp_path / "mitmproxy", origin, policy=policy, script=script, **more) as proxy:
        yield proxy


#: seconds between two rounds of a client
PACE = 0.03


class Load:
    """Clients that ask all the time for what is blocked, each over a connection of its own, and for what is not."""

    def __init__(self, proxy: Proxy, origin: Origin) -> None:
        self._proxy, self._origin = proxy, origin
        self._is_over = threading.Event()
        #: how many requests for what is blocked were answered, and what came of others
        self.blocked, self.others = 0, set[int | None]()
        self._threads = [threading.Thread(target=self._ask) for _ in range(2)]

    def _ask(self) -> None:
        while not self._is_over.wait(PACE):
            with self._proxy.client() as client:
                for scheme, host in (("http", "ads.test"), ("https", "ads.test"), ("http", "good.test")):
                    try:
                        status: int | None = client.get(f"{scheme}://{host}/").status_code
                    except httpx.TransportError:
                        status = None
                    if host == "ads.test" and status == 403:
                        self.blocked += 1
                    elif host == "ads.test":
                        self.others.add(status)

    def __enter__(self) -> Load:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        for thread in self._threads:
            thread.join()

    def goes_on(self) -> bool:
        """Whether another ten requests for what is blocked are refused."""
        before = self.blocked
        return eventually(lambda: self.blocked > before + 10)


def still_decides(proxy: Proxy, origin: Origin) -> bool:
    with origin.watch() as arrived:
        answers = [proxy.get(f"{scheme}://ads.test/").status_code for scheme in ("http", "https")]
    return (
        answers == [403, 403]
        and "ads.test" not in str(arrived.requests)
        and proxy.get("http://good.test/").status_code == 200
    )


def _back(path: Path) -> None:
    Path(f"{path.parent}-old").rename(path.parent)


@pytest.mark.parametrize(
    ("change", "back"),
    [
        (lambda path: path.parent.rename(f"{path.parent}-old"), _back),
        (lambda path: path.write_text("def (\n"), lambda path: path.write_text(PLAIN)),
    ],
    ids=["folder moved", "a mistake"],
)
def test_what_was_in_force_stays(
    tmp_path: Path,
    origin: Origin,
    script: Path,
    change: Callable[[Path], Any],
    back: Callable[[Path], Any],
) -> None:
    script.write_text(PLAIN)
    with proxied(tmp_path, origin, script) as proxy:
        change(script)
        proxy.log.wait_for(STAYS)
        assert still_decides(proxy, origin)
        back(script)
        proxy.log.wait_for("it is again as it was loaded")
        script.write_text(LARGER.format(own="b"))
        proxy.log.wait_for("loaded again")
        assert still_decides(proxy, origin)
        assert proxy.get("http://good.test/").headers["own"] == "b"


@pytest.mark.thorough
def test_an_upgrade_of_a_larger_script_under_load(tmp_path: Path, origin: Origin, script: Path) -> None:
    """Releases behind a link that is changed, as many deploy."""
    releases = [tmp_path / f"release{number}" for number in range(4)]
    for number, release in enumerate(releases):
        release.mkdir()
        (release / "filter.py").write_text(LARGER.format(own=number))
    current = tmp_path / "current"
    current.symlink_to(releases[0])
    with (
        proxied(tmp_path, origin, current / "filter.py") as proxy,
        origin.watch() as arrived,
        Load(proxy, origin) as load,
    ):
        for number, release in enumerate(releases[1:], 1):
            start = len(proxy.log)
            (tmp_path / "next").symlink_to(release)
            (tmp_path / "next").rename(current)
            proxy.log.wait_for("loaded again", start)
            assert proxy.get("http://good.test/").headers["own"] == str(number)
            assert load.goes_on()
    assert load.others == set()
    assert "ads.test" not in str(arrived.requests)


@pytest.mark.thorough
@pytest.mark.parametrize("kind", ["replaced", "removed", "broken"])
def test_the_package_is_changed_under_load(
    tmp_path: Path, origin: Origin, script: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As ``pip install -U`` and ``git pull`` do, or somebody who moves the folder away."""
    site, rules = tmp_path / "site", tmp_path / "rules.yaml"
    shutil.copytree(FILTER.parent / "hushlist", site / "hushlist")  # with its bytecode: to compile all takes seconds
    shutil.copytree(CHECKOUT / "rules", site / "hushlist" / "rules")
    script.write_text(PLAIN)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join((str(site), os.environ.get("PYTHONPATH", ""))))
    with (
        proxied(tmp_path, origin, script, command=("env",)) as proxy,
        origin.watch() as arrived,
        Load(proxy, origin) as load,
    ):
        assert load.goes_on()
        moved = tmp_path / "hushlist-old"
        (site / "hushlist").rename(moved)
        if kind != "removed":
            shutil.copytree(moved, site / "hushlist", ignore=shutil.ignore_patterns("__pycache__"))
            for path in (site / "hushlist").rglob("*.py"):
                path.write_text(
                    "raise SystemExit(7)\n" if kind == "broken" else f"{path.read_text()}\n# of another version\n"
                )
        proxy.log.wait_for("is another than the one that runs")
        script.write_text(LARGER.format(own="b"))
        proxy.log.wait_for(STAYS if kind == "removed" else "loaded again")
        assert load.goes_on()
        if kind != "removed":  # else there is the package of this checkout, which is the one that runs
            start = len(proxy.log)
            replace(rules, "rules:\n- ads.test/\n- more.test/\n")
            proxy.log.wait_for(f"the change is not used, the last good rules stay:\n.*{OTHER_CODE}", start)
            assert proxy.get("http://more.test/").status_code == 200  # as before
        assert still_decides(proxy, origin)
        warnings = proxy.get("http://hushlist.internal/readyz").json().get("warnings", [])
        assert OTHER_CODE in warnings
        if kind == "replaced":
            script.write_text(PLAIN.replace("Hushlist\n", "Hushlist, New\n", 1))  # which the new package may have
            proxy.log.wait_for("if the package was replaced, too, start mitmproxy again")
            answer = proxy.get("http://hushlist.internal/readyz").json()
            assert answer["reason"].endswith(f"is not used: {OTHER_CODE}")
            assert f"{BROKEN}: {STAYS}" in answer["warnings"]
        assert load.goes_on()
    assert load.others == set()
    assert "ads.test" not in str(arrived.requests)
