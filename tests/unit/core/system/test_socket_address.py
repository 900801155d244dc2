"""Where a server listens, as operators write it."""

import pytest

from hushlist.core.system.socket_address import parse_socket_address
from unit.rows import each_row


@each_row(
    ("text", "found"),
    [
        ("127.0.0.1:65535", ("127.0.0.1", 65535)),
        ("[FD00::0:7]:80", ("fd00::7", 80)),
        ("filter.example:0", ("filter.example", 0)),
        ("7.example:80", ("7.example", 80)),
    ],
)
def test_an_address_or_a_name_and_a_port(text: str, found: tuple[str, int]) -> None:
    assert parse_socket_address(text) == found


@each_row(
    "text",
    [
        *("8081", ":8081", "127.0.0.1", "127.0.0.1:", "::1:8081", "[::1]", "[::1]8081", "[127.0.0.1]:80", "[g]:80"),
        *("127.0.0.1:65536", "1.2.3:80", "256.0.0.1:80", "127.0.0.1:٨", "127.0.0.1:80 ", "a b:80", "x:-1", "ä:80"),
    ],
)
def test_what_is_none_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(ValueError, match=r"^expected an address and a port, such as 127\.0\.0\.1:8080 or"):
        parse_socket_address(text)
