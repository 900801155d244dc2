"""Code that is kept: what an import gives while the package on the disk is another one."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from py_compile import PycInvalidationMode
from py_compile import compile as compile_file

import pytest

import hushlist
from hushlist.core.system.package_code import _KeptModule

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


def number_kept(path: Path) -> int:
    loader, names = _KeptModule("module", path), dict[str, int]()
    loader.keep()
    exec(loader.get_code("module"), names)
    return names["number"]


@pytest.mark.parametrize("mode", [PycInvalidationMode.TIMESTAMP, PycInvalidationMode.CHECKED_HASH])
def test_what_python_has_compiled_is_kept_only_of_the_file_as_it_is(tmp_path: Path, mode: PycInvalidationMode) -> None:
    path = tmp_path / "module.py"
    for number, moment in ((11, 1000), (12, 1002), (133, 1002)):  # another time, and another size
        path.write_text(f"number = {number}\n")
        os.utime(path, (moment, moment))
        assert number_kept(path) == number
        compiled = compile_file(str(path), doraise=True, invalidation_mode=mode)
        assert compiled is not None
        assert number_kept(path) == number
    octets = Path(compiled).read_bytes()
    Path(compiled).write_bytes(b"\0\0\0\0" + octets[4:])  # of another Python
    assert number_kept(path) == 133


def test_what_python_has_compiled_is_kept_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "module.py"
    path.write_text("number = 1\n")
    compiled = Path(compile_file(str(path), doraise=True) or "")
    status = path.stat()
    path.write_text("number = 2\n")
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert number_kept(path) == 1  # as an import would take it
    compiled.unlink()
    assert number_kept(path) == 2


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
