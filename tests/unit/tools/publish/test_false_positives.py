"""False positives of hash prefixes."""

import gzip
from hashlib import sha256

import pytest

from hushlist.core.match.expressions import expressions
from hushlist.core.url.request import canonical_forms, request_of
from hushlist.tools.publish.false_positives import MILLION, TYPICAL, Prefixes, false_positives
from shared import SHARED


def first_octet(number: int) -> int:
    return sha256(b"%d" % number).digest()[0]


def test_the_formula_foretells_what_a_trial_counts() -> None:
    known = {first_octet(number) for number in range(40)}  # of one octet, so that there is something to count
    hits = sum(first_octet(number) in known for number in range(1_000, 51_000))
    assert hits == pytest.approx(false_positives(len(known), 1, lookups=1) / MILLION * 50_000, rel=0.05)


@pytest.mark.parametrize(("number", "octets", "is_short"), [(500, 4, False), (600, 4, True), (10_000_000, 8, False)])
def test_hashes_are_short_where_they_are_wrong_more_than_once_in_a_million_requests(
    number: int, octets: int, is_short: bool
) -> None:
    assert Prefixes("f", octets, number, 1).is_short is is_short


def test_prefixes_are_told_with_how_often_they_are_wrong() -> None:
    prefixes = Prefixes("ads.txt", 4, 1000, 1)
    often = {"typical": prefixes.typical, "worst": prefixes.worst}
    assert prefixes.as_dict() == {
        "source": "ads.txt",
        "octets": 4,
        "number": 1000,
        "false_positives_per_million_requests": often,
    }


def test_the_typical_number_of_look_ups_is_that_of_real_urls() -> None:
    path = SHARED / "data" / "requests" / "requests.tsv.gz"
    if not path.exists():
        pytest.skip(f"there is no {path}")
    with gzip.open(path) as file:
        urls = [line.split(b"\t", 1)[0] for number, line in enumerate(file) if number % 10 == 0]
    counts = []
    for url in urls:
        request = request_of(url)
        counts.append(len(expressions(canonical_forms(request, request.hosts[0])[0])))
    assert sum(counts) / len(counts) == pytest.approx(TYPICAL, rel=0.03)
