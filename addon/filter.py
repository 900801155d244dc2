"""What ``mitmdump -s addon/filter.py`` loads: Hushlist, from the checkout that this file is in."""

from hushlist.proxy.addon import Hushlist

addons = [Hushlist()]
# mitmproxy looks for each hook in this module, too: ten thousand instructions where a name is missing, else few.
requestheaders = request = responseheaders = response = update = None
