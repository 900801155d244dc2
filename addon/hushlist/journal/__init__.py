"""The decision log: what was decided, of whom, and why, one JSON object a line, and in SQLite for asking questions.

Writing never delays a request, and nothing that fails here stops the filter. No line holds user information; whoever
writes the request cannot forge a line.
"""
