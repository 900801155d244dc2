"""The decision log: one JSON object a line, and the same records in SQLite for questions.

In: a decision and its request. Out: lines, rows, and answers about them. Writing never delays a request, and a failure
here never stops the filter. No line has user information, and no request can forge a line. Open first:
``log_writer``.
"""

from hushlist.core.extension import Extension
from hushlist.core.policy.keys import Key

EXTENSION = Extension(
    "journal",
    policy_keys=(
        Key("log", f"{__name__}.log_keys:LOG").says("""whether decisions are logged, and which parts of them: `off`
            (the default), `on` or a mapping: see [Log](log.md#log)"""),
    ),
    checks=f"{__name__}.log_checks:examine_log",
    part=f"{__name__}.journal:Journal",
    actions=f"{__name__}.actions",
    uses=("databases",),
)
