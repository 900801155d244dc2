"""Keys of sealed lists, and what they make of expressions."""

import pickle

import pytest

from hushlist.core.match.seal import SealKey
from unit.rows import each_row


@pytest.mark.parametrize(
    ("key", "text", "expected"),
    [
        # RFC 4231, 4.2 to 4.4: test cases 1 to 3
        (b"\x0b" * 20, b"Hi There", "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7"),
        (b"Jefe", b"what do ya want for nothing?", "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"),
        (b"\xaa" * 20, b"\xdd" * 50, "773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe"),
    ],
)
def test_a_seal_is_hmac_sha_256(key: bytes, text: bytes, expected: str) -> None:
    assert SealKey(key).sealer()(text).hex() == expected


def test_keys_differ_and_are_read_back_from_files_and_processes() -> None:
    one, other = SealKey.generate(), SealKey.generate()
    assert one.fingerprint != other.fingerprint
    for text in (one.text, one.text.replace("\n", "\r\n"), f"\n  {one.octets.hex().upper()}  "):
        assert SealKey.parse(text) == one
    assert pickle.loads(pickle.dumps(one)) == one


@each_row("text", ["", "# no key", "00" * 31, "00" * 33, "zz" * 32, "00" * 32 + "\n" + "00" * 32])
def test_what_is_no_key_is_refused_and_not_quoted(text: str) -> None:
    with pytest.raises(ValueError, match="it is no key of sealed lists, 64 hexadecimal digits") as caught:
        SealKey.parse(text)
    assert "00" not in str(caught.value)


def test_a_key_shows_only_its_fingerprint() -> None:
    key = SealKey.generate()
    assert repr(key) == f"SealKey({key.fingerprint})"
    assert key.octets.hex() not in repr({"seals": key})
