"""Capabilities, one folder each, with all that it needs; the core and the proxy work without any of them."""
