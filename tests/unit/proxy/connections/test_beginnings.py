"""What a connection carries, by its first octets."""

from hushlist.proxy.connections.beginnings import begins_http
from unit.rows import each_row


@each_row(
    ("data", "is_http"),
    [
        (b"GET / HTTP/1.1\r\n", True),
        (b"\r\n\r\nGET / HTTP/1.1\r\nHost: x\r\n", True),
        (b" GET\t/ x  HTTP/1.0 \n", True),
        (b"M-SEARCH * HTTP/1.1\r\n", True),
        (b"GET /\r\n", True),  # HTTP/0.9
        (b"GET http://x/\n", True),
        (b"GET key\r\n", False),
        (b"get /\r\n", False),
        (b"OPTIONS rtsp://x/ RTSP/1.0\r\n", False),
        (b"PRI * HTTP/2.0\r\n", False),
        (b"HTTP/1.1\r\n", False),
        (b"<GET / HTTP/1.1\r\n", False),
        (b"EHLO x\r\n", False),
        (b"SSH-2.0-OpenSSH_9.6\r\n", False),
        (b"\x00", False),
        (b"GET\x00", False),
        (b"", None),
        (b"\r\n", None),
        (b"G", None),
        (b"GET /a b", None),
        (b"hello", None),
        (b"GET /" + bytes(4096), True),
        (b"G" * 4096, True),
    ],
)
def test_http_is_known_by_its_first_line(data: bytes, is_http: bool | None) -> None:
    assert begins_http(data) is is_http
