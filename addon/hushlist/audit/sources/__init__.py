"""Readers of recorded browsing, one a format."""
