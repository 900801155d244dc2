"""Names that look like others: labels in which letters of several scripts stand.

In: a host. Out: why it deceives. Open first: ``mixed_scripts``.
"""

from hushlist.core.extension import CheckRow, Extension

EXTENSION = Extension(
    "lookalikes",
    request_checks={
        "mixed-scripts": CheckRow(
            "The name has letters of several scripts in one word, and may only look like another.",
            f"{__name__}.mixed_scripts:find_mixed_scripts",
            """a name with letters of several scripts in one label, such as a Cyrillic letter among Latin ones;
            Latin may stand beside Japanese, Chinese or Korean ones""",
        ),
    },
)
