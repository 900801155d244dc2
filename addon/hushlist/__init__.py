"""Hushlist: a web filter for mitmproxy whose block lists need not reveal what they block."""

__version__ = "0.2.0"
