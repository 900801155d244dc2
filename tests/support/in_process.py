"""A compiler in place of ``BackgroundCompiler``."""

from collections.abc import Iterable
from pathlib import Path

from hushlist.core.compile.policy_compiler import compile_policy
from hushlist.core.lists.list_source import ProblemReport
from hushlist.core.match.index import Index
from hushlist.core.policy.policy_file import Policy
from hushlist.core.policy.policy_reader import read_policy


class InProcess:
    """Compiles in this process, which costs a test a tenth of what another process does.

    Only of lists that are fetched it keeps the good copies: to keep them of all takes a third of the time.
    """

    is_stopped = False

    def __init__(self, own_ports: Iterable[int] = ()) -> None:
        """As ``BackgroundCompiler``."""

    def compile(self, path: Path, *, before: Index | None = None, is_start: bool = False) -> tuple[Policy, Index]:
        """As ``BackgroundCompiler``."""
        report = ProblemReport(str(path))
        policy = read_policy(path, report)
        is_local = policy is not None and not any(file.url for layer in policy.layers for file in layer.lists)
        source = policy if policy is not None and is_local and not report.errors and not report.warnings else path
        compiled = compile_policy(source).let_go()
        return compiled.policy, compiled.index

    def stop(self) -> None:
        """There is nothing to stop."""
