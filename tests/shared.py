"""Data that is not copied here: in ``../shared`` beside the checkout, or where HUSHLIST_SHARED says."""

from __future__ import annotations

import os
from pathlib import Path

SHARED = Path(os.environ.get("HUSHLIST_SHARED") or Path(__file__).parents[2] / "shared")
