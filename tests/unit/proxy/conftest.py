"""What all tests of the addon share."""

import warnings
from collections.abc import Iterable
from pathlib import Path

import pytest
from mitmproxy import ctx

from hushlist.compiling.policy_compiler import compile_policy
from hushlist.match.index import Index
from hushlist.policy.policy_file import Policy

# mitmproxy's test helpers load every addon of mitmproxy, and with these libraries that warn of themselves.
with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    import mitmproxy.test.taddons  # noqa: F401


@pytest.fixture(autouse=True)
def _no_context() -> None:
    """An earlier test may have left mitmproxy's context behind: no test goes by that."""
    for name in ("master", "options"):
        vars(ctx).pop(name, None)


class InProcess:
    """Compiles in this process, which costs a test a tenth of what another process does."""

    def __init__(self, own_ports: Iterable[int] = ()) -> None:
        """As ``Background``."""

    def compile(self, path: Path, *, is_start: bool = False) -> tuple[Policy, Index]:
        """As ``Background``."""
        compiled = compile_policy(path).let_go()
        return compiled.policy, compiled.index

    def stop(self) -> None:
        """There is nothing to stop."""


@pytest.fixture(autouse=True)
def _compiles_in_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hushlist.proxy.service.policy_watch.BackgroundCompiler", InProcess)
