"""What mitmdump loads as ``hushlist proxy`` starts it: Hushlist, from this package, as ``addon/filter.py``."""

from hushlist.proxy.addon import Hushlist

addons = [Hushlist()]
# as in addon/filter.py
requestheaders = request = responseheaders = response = update = None
