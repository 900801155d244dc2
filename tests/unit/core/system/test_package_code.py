"""Code that is kept: what an import gives while the package on the disk is another one."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import hushlist

_STEPS = """
import shutil, sys
from importlib import import_module
from importlib.resources import files
from pathlib import Path

import hushlist
from hushlist.core.system.package_code import KEPT, keep_rooms

package, kind, late = Path(hushlist.__file__).parent, sys.argv[1], "hushlist.extensions.tenants.tenants"
assert keep_rooms(frozenset({"core", "extensions"})) == []
kept = {*KEPT.loaders}
assert late in kept and "hushlist.extensions.tenants" in kept and "hushlist.cli.common" not in kept
assert not kept & {*sys.modules}
if kind == "removed":
    shutil.rmtree(package)
elif kind == "replaced":
    for path in package.rglob("*.py"):
        path.write_text("is_of_another_version = True\\n")
module = import_module(late)
assert not hasattr(module, "is_of_another_version")
assert module.TENANTS.rows
assert module.__file__ == str(package / "extensions" / "tenants" / "tenants.py")
assert late not in KEPT.loaders and not module.__spec__.loader._octets
tables = files("hushlist.extensions.tenants")
assert tables.is_dir() is (kind != "removed")
keep_rooms(frozenset({"core", "extensions"}))
assert sys.meta_path.count(KEPT) == 1 and late not in KEPT.loaders
"""


@pytest.mark.parametrize("kind", ["as it was", "removed", "replaced"])
def test_a_module_that_is_imported_later_is_of_the_version_that_runs(tmp_path: Path, kind: str) -> None:
    ignored = shutil.ignore_patterns("live_page", "texts")  # what is compiled already need not be compiled anew
    shutil.copytree(Path(hushlist.__file__).parent, tmp_path / "hushlist", ignore=ignored)
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    command = [sys.executable, "-c", _STEPS, kind]
    subprocess.run(command, env=environment, check=True, cwd=tmp_path)


def test_what_cannot_be_kept_is_told(tmp_path: Path) -> None:
    package = tmp_path / "hushlist"
    ignored = shutil.ignore_patterns("__pycache__", "extensions", "proxy", "tools", "cli")
    shutil.copytree(Path(hushlist.__file__).parent, package, ignore=ignored)
    (package / "core" / "broken.py").write_text("def\n")
    steps = (
        "from hushlist.core.system.package_code import KEPT, keep_rooms\n"
        "(fault,) = keep_rooms(frozenset({'core'}))\n"
        "assert fault.startswith('hushlist.core.broken: SyntaxError'), fault\n"
        "assert KEPT.loaders\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    subprocess.run([sys.executable, "-c", steps], env=environment, check=True, cwd=tmp_path)
