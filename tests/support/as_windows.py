"""A plugin of pytest: the unit tests with what a Python of Windows lacks taken away, by ``-p support.as_windows``.

The package takes its branches for Windows; what tests and libraries use stays. It shows that no module but
``core/system/platform`` needs these names; what Windows itself does with files and sockets, it does not show.

Spec: the Python library's documentation, "Availability: Unix" or "not Windows" at each of these names
"""

from __future__ import annotations

import fcntl
import sys
from importlib import import_module
from types import ModuleType, SimpleNamespace
from typing import Any

#: what only other systems have; tests that use one of them have the marker ``posix``
_MISSING = {
    "os": ("chown", "geteuid", "killpg", "pread", "pwrite", "sched_getaffinity", "sysconf", "O_DIRECTORY"),
    "signal": ("SIGHUP",),
    "select": ("poll",),
}
_MODULES = ("resource",)
#: the modules of the package that ask which system this is
_ASKING = (
    "core.system.platform",
    "core.system.memory",
    "core.compile.worker_processes",
    "proxy.local_sockets",
)


def _locking(descriptor: int, mode: int, _: int) -> None:
    """``msvcrt.locking`` by what this system has."""
    assert mode == 2
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise PermissionError(error.errno, error.strerror) from None


def pytest_configure() -> None:
    msvcrt: Any = ModuleType("msvcrt")
    msvcrt.locking, msvcrt.LK_NBLCK = _locking, 2
    sys.modules["msvcrt"] = msvcrt
    windows = SimpleNamespace(**{**vars(sys), "platform": "win32"})
    for name in _ASKING:
        module: Any = import_module(f"hushlist.{name}")
        module.sys = windows
    for module_name, names in _MISSING.items():
        for name in names:
            delattr(import_module(module_name), name)
    for module_name in _MODULES:
        sys.modules[module_name] = None  # type: ignore[assignment]
