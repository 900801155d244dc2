"""google-api-python-client, at a server: ``SERVER HOST``; what it got is JSON on standard output."""

import hashlib
import json
import sys
from base64 import b64encode, urlsafe_b64encode


def main(server: str, host: str) -> None:
    """All that it can ask; imported here, since collecting tests reads this file, too."""
    from googleapiclient.discovery import build

    prefix = hashlib.sha256(f"{host}/".encode()).digest()[:4]
    v4, v5 = (
        build(
            "safebrowsing",
            version,
            client_options={"api_endpoint": server},
            static_discovery=True,
            developerKey="local",
        )
        for version in ("v4", "v5")
    )
    lists = v4.threatLists().list().execute()["threatLists"]
    raw = {"constraints": {"supportedCompressions": ["RAW"]}}
    wanted = {"client": {"clientId": "test"}, "listUpdateRequests": [{**lists[0], **raw}]}
    (first,) = v4.threatListUpdates().fetch(body=wanted).execute()["listUpdateResponses"]
    wanted["listUpdateRequests"][0]["state"] = first["newClientState"]
    (second,) = v4.threatListUpdates().fetch(body=wanted).execute()["listUpdateResponses"]
    names = [one["name"] for one in v5.hashLists().list().execute()["hashLists"]]
    batch = v5.hashLists().batchGet(names=names).execute()["hashLists"]
    again = v5.hashLists().batchGet(names=names, version=[one["version"] for one in batch]).execute()["hashLists"]
    info = {"threatTypes": ["MALWARE"], "platformTypes": ["LINUX"], "threatEntryTypes": ["URL"]}
    asked = {"threatInfo": {**info, "threatEntries": [{"hash": b64encode(prefix).decode()}]}}
    print(
        json.dumps(
            {
                "lists": [one["threatType"] for one in lists],
                "v4": [first["responseType"], second["responseType"]],
                "names": names,
                "v5": [one.get("partialUpdate", False) for one in (*batch, *again)],
                "matches": v4.fullHashes().find(body=asked).execute().get("matches", []),
                "hashes": v5.hashes()
                .search(hashPrefixes=urlsafe_b64encode(prefix).decode())
                .execute()
                .get("fullHashes", []),
            }
        )
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
