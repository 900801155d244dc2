"""Feodo Tracker's list of servers that command botnets, in JSON: the ``ip_address`` of each.

Spec: https://feodotracker.abuse.ch/blocklist/
"""

from hushlist.extensions.formats.json_shape import read_address, read_json

read_feodo = read_json({"*/ip_address": read_address})
