"""URLhaus's lists of URLs of malware in JSON: the dumps, and the answers of its API.

Spec: https://urlhaus.abuse.ch/api/ and https://urlhaus-api.abuse.ch/
"""

from hushlist.extensions.formats.json_shape import read_json, read_url

read_urlhaus = read_json({"*/*/url": read_url})
