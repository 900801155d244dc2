"""How much memory this process has, on the platforms that tell."""

from __future__ import annotations

import os
import sys
from pathlib import Path

_STATM = Path("/proc/self/statm")


def resident_octets() -> int | None:
    """Octets that are in memory now; where only the peak is known, that; ``None`` where nothing is.

    Spec: proc_pid_statm(5): "size resident shared text lib data dt", in pages; getrusage(2)
    """
    try:
        return int(_STATM.read_bytes().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, LookupError, AttributeError):
        pass
    if sys.platform == "win32":
        return None
    import resource  # there is none on Windows

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
