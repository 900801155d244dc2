"""PhishTank's feed of phishing sites in JSON: the ``url`` of each.

Spec: https://phishtank.org/developer_info.php, Downloadable databases
"""

from hushlist.extensions.formats.json_shape import read_json, read_url

read_phishtank = read_json({"*/url": read_url})
