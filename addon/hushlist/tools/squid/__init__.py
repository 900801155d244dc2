"""Squid's helper: one line a request, one line each.

In: lines of Squid. Out: answers to them. Open first: ``helper``.
"""
