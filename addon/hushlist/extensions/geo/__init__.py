"""Where the server is: the country and the network of an address, by a database that the administrator brings.

In: the addresses of a request. Out: whether one is in a country, or of a network. Open first: ``places``.
"""

from hushlist.core.extension import CheckRow, Extension
from hushlist.core.policy.keys import Key


def _row(sentence: str, code: str, find: str, kind: str, of: str, example: str) -> CheckRow:
    return CheckRow(
        sentence,
        f"{__name__}.places:{find}",
        f"""an address of the server, asked for or looked up, that the database has in one of these {kind}: see
            [Countries and networks](network.md#countries-and-networks)""",
        needs_leads=True,
        may_warn=True,
        keys=(
            Key("in", f"{__name__}.places:{of}", into="places", is_required=True).says(f"the {kind}: `{example}`"),
            Key("database", f"{__name__}.places:DATABASE", is_required=True).says("""the file of a database in MaxMind's
                format, `.mmdb`, relative to the policy's folder"""),
        ),
    )


EXTENSION = Extension(
    "geo",
    request_checks={
        "country": _row(
            "The server is in a country that is not allowed here.",
            "country",
            "find_country",
            "countries",
            "COUNTRIES",
            "[RU, KP]",
        ),
        "asn": _row(
            "The server is in a network that is not allowed here.",
            "asn",
            "find_network",
            "networks",
            "NETWORKS",
            "[64496]",
        ),
    },
)
