"""Formats of lists that other programs have: RPZ, CSV and squidGuard's expressions.

In: a list's octets. Out: rules that know their file and line. Open first: ``rpz``.
"""
