"""The decision log: one JSON object a line, and the same records in SQLite for questions.

In: a decision and its request. Out: lines, rows, and answers about them. Writing never delays a request, and a failure
here never stops the filter. No line has user information, and no request can forge a line. Open first:
``log_writer``.
"""

from hushlist.core.extension import Extension

EXTENSION = Extension("journal")
