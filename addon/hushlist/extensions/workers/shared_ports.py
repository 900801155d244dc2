"""The ports that all workers serve: a socket for each address, bound once, and kept to the end.

Since the sockets stay open here, whatever becomes of the workers, no connection that waits at one is lost.
"""

from __future__ import annotations

import errno
import socket
from contextlib import suppress


class SharedPorts:
    def __init__(self) -> None:
        self._bound: dict[tuple[str, int], list[socket.socket]] = {}

    def of(self, host: str, port: int) -> list[socket.socket]:
        """The socket of each address of a host and port, bound when they are first wanted.

        Port 0 is a free one, each time again that one.

        Raises:
            OSError: it cannot be bound: another program has it.
        """
        if (host, port) not in self._bound:
            self._bound[host, port] = _bind(host, port)
        return self._bound[host, port]

    def close(self) -> None:
        for sockets in self._bound.values():
            for each in sockets:
                each.close()


def _bind(host: str, port: int) -> list[socket.socket]:
    bound = list[socket.socket]()
    try:
        for family, address in _addresses(host, port):
            if port == 0 and bound:
                address = (address[0], bound[0].getsockname()[1], *address[2:])
            try:
                bound.append(_listener(family, address))
            except OSError as error:  # a machine without IPv6
                if error.errno not in (errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL) or family != socket.AF_INET6:
                    raise
    except BaseException:
        for each in bound:
            each.close()
        raise
    return bound


def _addresses(host: str, port: int) -> list[tuple[int, tuple[object, ...]]]:
    """The addresses of a host; of all of this machine's, where there is none."""
    infos = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    return list(dict.fromkeys((int(family), address) for family, _, _, _, address in infos))


def _listener(family: int, address: tuple[object, ...]) -> socket.socket:
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            with suppress(AttributeError, OSError):
                listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        listener.bind(address)
        listener.listen(socket.SOMAXCONN)
    except BaseException:
        listener.close()
        raise
    return listener
