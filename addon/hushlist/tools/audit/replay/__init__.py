"""``hushlist audit``: decides recorded requests again, and reports.

In: a policy and sources. Out: an ``AuditReport``, as text, JSON, one HTML page or charts. Open first: ``auditor`` for
how a request is counted, ``audit_report`` for what is reported.
"""
