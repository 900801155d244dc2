"""gglsbl at a server: ``SERVER DATABASE``, then a URL a line on standard input, or "update"; it answers in JSON."""

import functools
import json
import sys
import time


def main(server: str, database: str) -> None:
    """Answer each line; imported here, since collecting tests reads this file, too."""
    import gglsbl
    import gglsbl.protocol
    from googleapiclient.discovery import build

    options = {"client_options": {"api_endpoint": server}, "static_discovery": True}
    gglsbl.protocol.build = functools.partial(build, **options)  # it has no option for that
    known = gglsbl.SafeBrowsingList("local", db_path=database, discard_fair_use_policy=True)
    for line in sys.stdin:
        if line.strip() == "update":
            known.update_hash_prefix_cache()
            time.sleep(1.5)  # what it looks up in the same second it takes for safe
            answer = known.storage.get_client_state()
            print(len(answer), flush=True)
        else:
            print(json.dumps([threat.threat_type for threat in known.lookup_url(line.strip()) or ()]), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
