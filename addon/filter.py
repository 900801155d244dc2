"""What ``mitmdump -s addon/filter.py`` loads: Hushlist, from the checkout that this file is in."""

from hushlist.proxy.addon import Hushlist

addons = [Hushlist()]
