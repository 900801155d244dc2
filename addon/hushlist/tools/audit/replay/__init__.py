"""``hushlist audit``: decides recorded requests again, and reports.

In: a policy and sources. Out: an ``AuditReport``, as text, JSON or one HTML page. Open first: ``auditor`` for
how a request is counted, ``audit_report`` for what is reported.
"""
