"""Spamhaus's DROP lists as JSON lines: the ``cidr`` of each; lists of networks by their numbers (ASN) have none.

Spec: https://www.spamhaus.org/faqs/do-not-route-or-peer-drop/
"""

from hushlist.extensions.formats.json_shape import read_address, read_json

read_spamhaus = read_json({"cidr": read_address})
