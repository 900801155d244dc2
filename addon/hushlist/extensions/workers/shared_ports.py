"""The ports that all workers serve: for each address a socket for each worker, bound once, and kept to the end.

By SO_REUSEPORT the kernel gives each new connection to one of the sockets, by a hash of both ends. Since all sockets
stay open here, whatever becomes of the workers, no connection that waits at one is lost.
"""

from __future__ import annotations

import errno
import socket
import sys
from contextlib import suppress


class SharedPorts:
    def __init__(self, number: int) -> None:
        """``number``: of workers."""
        self._number = number
        self._bound: dict[tuple[str, int], list[socket.socket]] = {}

    def of(self, host: str, port: int) -> list[socket.socket]:
        """The sockets of a host and port, address by address, bound when they are first wanted.

        Port 0 is a free one, each time again that one.

        Raises:
            OSError: it cannot be bound: another program has it.
        """
        if (host, port) not in self._bound:
            self._bound[host, port] = _bind(host, port, self._number)
        return self._bound[host, port]

    def close(self) -> None:
        for sockets in self._bound.values():
            for each in sockets:
                each.close()


def _bind(host: str, port: int, number: int) -> list[socket.socket]:
    bound = list[socket.socket]()
    try:
        for family, address in _addresses(host, port):
            if port == 0 and bound:
                address = (address[0], bound[0].getsockname()[1], *address[2:])
            if (first := _first(family, address)) is not None:
                bound.append(first)
                bound += [_listener(family, first.getsockname()) for _ in range(number - 1)]
    except BaseException:
        for each in bound:
            each.close()
        raise
    return bound


def _addresses(host: str, port: int) -> list[tuple[int, tuple[object, ...]]]:
    """The addresses of a host; of all of this machine's, where there is none."""
    infos = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    return list(dict.fromkeys((int(family), address) for family, _, _, _, address in infos))


def _first(family: int, address: tuple[object, ...]) -> socket.socket | None:
    """The first socket of an address; ``None`` where the machine has no such family of addresses.

    Raises:
        OSError: another program has the port, be it another set of workers.
    """
    try:
        # alone at first: a port that is shared could be bound, although another program shares it
        _listener(family, address, is_shared=False).close()
        return _listener(family, address)
    except OSError as error:
        if error.errno in (errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL) and family == socket.AF_INET6:
            return None
        raise


def _listener(family: int, address: tuple[object, ...], *, is_shared: bool = True) -> socket.socket:
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if is_shared and sys.platform == "linux":
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        if family == socket.AF_INET6:
            with suppress(AttributeError, OSError):
                listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        listener.bind(address)
        listener.listen()
    except BaseException:
        listener.close()
        raise
    return listener
