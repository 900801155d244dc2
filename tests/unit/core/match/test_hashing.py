"""Full hashes, and prefixes of them."""

from hushlist.core.match.expressions import full_hash
from unit.rows import each_row


@each_row(
    ("text", "length", "prefix"),
    [
        # FIPS-180-2, B1 to B3, as Safe Browsing v4 prints them
        (b"abc", 4, "ba7816bf"),
        (b"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", 6, "248d6a61d206"),
        (b"a" * 1_000_000, 12, "cdc76e5c9914fb9281a1c7e2"),
        (b"abc", 32, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"),
        (
            b"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
            32,
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1",
        ),
    ],
)
def test_a_prefix_is_the_most_significant_octets_of_sha_256(text: bytes, length: int, prefix: str) -> None:
    assert full_hash(text)[:length].hex() == prefix
