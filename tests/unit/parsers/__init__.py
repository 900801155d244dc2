"""Every parser of the package in one table: how it is called, what it may raise, and real texts for it.

``test_fuzz.py`` gives them what Hypothesis makes of the texts, ``tests/fuzz/fuzz.py`` what atheris does.
"""

from __future__ import annotations

from unit.parsers import (
    audits,
    connections,
    index,
    lines,
    lists,
    names,
    policy,
    policy_keys,
    recordings,
    safebrowsing,
    urls,
    wire,
)
from unit.parsers.table import Parser

PARSERS: dict[str, Parser] = {
    **urls.PARSERS,
    **lists.PARSERS,
    **index.PARSERS,
    **policy.PARSERS,
    **lines.PARSERS,
    **wire.PARSERS,
    **connections.PARSERS,
    **names.PARSERS,
    **policy_keys.PARSERS,
    **recordings.PARSERS,
    **audits.PARSERS,
    **safebrowsing.PARSERS,
}
