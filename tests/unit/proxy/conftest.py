"""What tests of the addon share."""

from unit.proxied import _compiles_in_process, _no_context, context, hushlist, notices, own_cache, own_folders

__all__ = ["_compiles_in_process", "_no_context", "context", "hushlist", "notices", "own_cache", "own_folders"]
