"""The commands for who runs a filter: lists, log, overrides, administrators, store and fleet, and the doctor.

In: arguments. Out: text or JSON, and an exit code. Open first: ``update_command``.
"""
