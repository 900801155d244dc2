"""Names that deceive: those that mix scripts, look like protected ones, or are new.

In: a host. Out: why it deceives. Open first: ``looks_like``, ``mixed_scripts``, ``new_names``.
"""

from hushlist.core.extension import CheckRow, Extension
from hushlist.core.policy.keys import Key

EXTENSION = Extension(
    "lookalikes",
    request_checks={
        "mixed-scripts": CheckRow(
            "The name has letters of several scripts in one word, and may only look like another.",
            f"{__name__}.mixed_scripts:find_mixed_scripts",
            """a name with letters of several scripts in one label, such as a Cyrillic letter among Latin ones;
            Latin may stand beside Japanese, Chinese or Korean ones""",
        ),
        "looks-like": CheckRow(
            "The name looks like that of another site.",
            f"{__name__}.looks_like:find_look_alike",
            """a name that looks like a protected one of `names` or `file`: by letters of other scripts, digits for
            letters, or one letter more, less, or another: see [Names that deceive](policy.md#names-that-deceive)""",
            may_warn=True,
            keys=(
                Key("names", f"{__name__}.looks_like:NAMES").says("the protected names, such as `bank.example`"),
                Key("file", f"{__name__}.looks_like:FILE").says("""a file of such names, one a line; or of the SHA-256
                    of `bank.example/`, so that it does not tell them; or of their sealed hashes"""),
                Key("seal", f"{__name__}.looks_like:SEAL").says("the file of the key with which the hashes are sealed"),
            ),
        ),
        "new-name": CheckRow(
            "The name of the site is new.",
            f"{__name__}.new_names:find_new_name",
            """a name that `file` says is younger than `days`: see [Names that
            deceive](policy.md#names-that-deceive)""",
            may_warn=True,
            keys=(
                Key("file", f"{__name__}.new_names:FILE", is_required=True).says("""a file of registrable domains, one a
                    line, with the date of their registration after a tab, a comma or a space: `shop.example
                    2026-11-28`"""),
                Key("days", f"{__name__}.new_names:DAYS").says("for so many days a name is new (default: 30)"),
            ),
        ),
    },
)
