"""What ``mitmdump -s addon/filter.py`` loads: Hushlist, from the checkout that this file is in.

This module is the addon, since mitmproxy looks for each hook in each addon. To look for a name that a module lacks
takes ten thousand instructions, so all names are here.
"""

from mitmproxy.hooks import all_hooks

from hushlist.proxy.addon import Hushlist

addon = Hushlist()
name, runtime, addons = addon.name, addon.runtime, ()
_WARNED_OF = {"add_log"}
globals().update({hook: getattr(addon, hook, None) for hook in all_hooks.keys() - _WARNED_OF})
