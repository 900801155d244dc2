"""Machines and the cables between them: network namespaces of Linux, in which the tests' own sockets are, too.

A namespace has no name and no file. It is there as long as a process of ours is in it, which ends when the tests do,
however they end. A thread that is inside makes sockets that stay inside; so servers, clients and judges are those of
all other tests.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from e2e.origin import PATIENCE, Origin
from e2e.proxy import Log
from e2e.resolver import Resolver
from e2e.test_tunnels import ask, tls_over

_CLONE_NEWNET = 0x40000000
_ETH_P_ALL = 3
_UDP = 17


@cache
def why_not(*more_tools: str) -> str | None:
    """Why there are no namespaces here; ``None`` if there are."""
    if sys.platform != "linux" or not hasattr(os, "geteuid") or os.geteuid() != 0:
        return "network namespaces need Linux and root"
    missing = [tool for tool in ("unshare", "nsenter", "ip", "nft", "sysctl", *more_tools) if _path(tool) is None]
    if missing:
        return f"not installed: {', '.join(missing)}"
    tried = "mount -t tmpfs none /mnt && ip link add one0 type veth peer name two0 && nft add table inet one"
    trial = subprocess.run(
        ["unshare", "--net", "--mount", "sh", "-ec", f"PATH=$PATH:/usr/sbin; {tried}"],
        capture_output=True,
        text=True,
        check=False,
    )
    return None if trial.returncode == 0 else f"network namespaces are forbidden: {trial.stderr.strip()}"


def _path(tool: str) -> str | None:
    return shutil.which(tool, path=os.pathsep.join((os.environ.get("PATH", os.defpath), "/usr/sbin")))


_CUT = """table inet cut {
  chain arriving { type filter hook prerouting priority -400; iifname != lo drop; }
  chain leaving { type filter hook output priority -400; oifname != lo drop; }
}
"""


class Machine:
    """A namespace, of network and mounts; use as a context manager."""

    def __init__(self) -> None:
        # the process ends when the pipe to it is closed
        self._process = subprocess.Popen(
            ["unshare", "--net", "--mount", "sh", "-ec", "echo; exec cat"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert self._process.stdout
        if not self._process.stdout.readline():
            raise OSError("no namespace was made")
        self.run("ip", "link", "set", "lo", "up")

    def __enter__(self) -> Machine:
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.close()
        self._process.wait(PATIENCE)
        self._process.stdout.close()

    @property
    def command(self) -> list[str]:
        """What to put before a command so that it runs here, and ends with us."""
        enter = ["nsenter", f"--target={self._process.pid}", "--net", "--mount"]
        return [*enter, "setpriv", "--pdeathsig", "KILL", "--"]

    def run(self, tool: str, *arguments: str, text: str | None = None) -> str:
        """Run a command to its end; ``text`` is what it reads.

        Raises: AssertionError with what it says if it fails.
        """
        command = [*self.command, _path(tool) or tool, *arguments]
        done = subprocess.run(command, input=text, text=True, capture_output=True, timeout=PATIENCE, check=False)
        assert done.returncode == 0, f"{tool} {' '.join(arguments)}: {done.stderr}"
        return done.stdout

    def cable(self, interface: str, other: Machine, others: str) -> None:
        """Lay a cable to another machine, from interface to interface."""
        peer = ["peer", "name", others, "netns", str(other._process.pid)]
        self.run("ip", "link", "add", interface, "type", "veth", *peer)
        self.run("ip", "link", "set", interface, "up")
        other.run("ip", "link", "set", others, "up")

    def address(self, interface: str, *addresses: str) -> None:
        """Give an interface addresses, each with the length of its network's prefix."""
        for address in addresses:
            nodad = ["nodad"] if ":" in address else []  # used at once, without a look whether others have it
            self.run("ip", "address", "add", address, "dev", interface, *nodad)

    def place(self, file: Path, target: str) -> None:
        """Put a file in another's place, here alone."""
        self.run("mount", "--bind", str(file), target)

    @contextmanager
    def cut_off(self) -> Iterator[None]:
        """Nothing arrives here, and nothing leaves, while the block runs; the cables know nothing of it."""
        self.run("nft", "-f", "-", text=_CUT)
        try:
            yield
        finally:
            self.run("nft", "delete", "table", "inet", "cut")

    @contextmanager
    def inside(self) -> Iterator[None]:
        """The sockets that this thread makes in the block are this machine's."""
        with Path("/proc/thread-self/ns/net").open("rb") as home:
            _enter(Path(f"/proc/{self._process.pid}/ns/net"))
            try:
                yield
            finally:
                _set(home.fileno())


def _enter(namespace: Path) -> None:
    with namespace.open("rb") as opened:
        _set(opened.fileno())


def _set(descriptor: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)  # os.setns came with Python 3.12
    if libc.setns(descriptor, _CLONE_NEWNET):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


#: protocol, destination and port of a packet; other protocols than TCP and UDP have no port
Packet = tuple[int, str, int]
_SYN = 2


class Wire:
    """Sees every packet that arrives at a machine's interface; use as a context manager.

    Of a TCP connection, it is the first: a later one may come when whoever made the connection has gone on.
    ``fence`` is a machine that can reach an address there.
    """

    def __init__(self, machine: Machine, interface: str, fence: Machine, address: str) -> None:
        self._fence, self._address, self._port = fence, address, 1024
        with machine.inside():
            self._socket = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, 0)
        self._socket.bind((interface, _ETH_P_ALL))
        self._seen: list[Packet] = []
        self._begun: set[object] = set()
        self._grown = threading.Condition()
        self._is_over = False
        self._thread = threading.Thread(target=self._collect, daemon=True)

    def __enter__(self) -> Wire:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over = True
        while self._thread.is_alive():
            self._send_fence()  # the last that is seen, if nothing else is
            self._thread.join(1)
        self._socket.close()

    @property
    def seen(self) -> set[Packet]:
        """What has arrived since the last watch began."""
        with self._grown:
            return set(self._seen)

    @contextmanager
    def watch(self) -> Iterator[set[Packet]]:
        """What arrives while the block runs; filled in when it ends."""
        self._wait_for_fence()
        with self._grown:
            self._seen.clear()
        seen: set[Packet] = set()
        yield seen
        self._wait_for_fence()
        with self._grown:
            seen |= {packet for packet in self._seen if packet[:2] != (_UDP, self._address)}

    def _wait_for_fence(self) -> None:
        """Packets keep their order: once one of our own is seen, to a port of its own, all before it are."""
        self._port += 1
        fence, end = (_UDP, self._address, self._port), time.monotonic() + PATIENCE
        with self._grown:
            while fence not in self._seen:
                assert time.monotonic() < end, "the wire is cut"
                self._send_fence()
                # one may be lost while the machines do not know each other yet
                self._grown.wait_for(lambda: fence in self._seen, 1)

    def _send_fence(self) -> None:
        with self._fence.inside(), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as fence:
            fence.sendto(b"fence", (self._address, self._port))

    def _collect(self) -> None:
        while not self._is_over:
            octets, (_, _, kind, *_) = self._socket.recvfrom(65535)
            packet = None if kind == socket.PACKET_OUTGOING else self._read(octets)
            if packet is not None:
                with self._grown:
                    self._seen.append(packet)
                    self._grown.notify_all()

    def _read(self, octets: bytes) -> Packet | None:
        """Spec: RFC 791, 3.1; RFC 8200, 3; RFC 9293, 3.1"""
        if octets[0] >> 4 == 4:
            at, protocol, ends = (octets[0] & 15) * 4, octets[9], octets[12:20]
            target = socket.inet_ntop(socket.AF_INET, ends[4:])
        elif octets[0] >> 4 == 6:
            at, protocol, ends = 40, octets[6], octets[8:40]
            target = socket.inet_ntop(socket.AF_INET6, ends[16:])
        else:
            return None  # ARP
        body = octets[at:]
        if protocol not in (socket.IPPROTO_TCP, _UDP) or len(body) < 4:
            return protocol, target, 0
        if protocol == socket.IPPROTO_TCP and len(body) >= 20:
            connection = (ends, body[:4])
            if not body[13] & _SYN and connection in self._begun:
                return None
            self._begun.add(connection)
        return protocol, target, int.from_bytes(body[2:4])


#: the router's name server, in the internet
NAMESERVER = "203.0.113.53"


def lay(device: Machine, router: Machine, internet: Machine, folder: Path) -> None:
    """Lay cables, and give addresses and ways: the internet knows the way back to the device, so that it could answer.

    ``folder`` takes the router's ``resolv.conf``.
    """
    router.cable("inside.1", device, "eth0")
    router.cable("outside", internet, "eth0")
    device.address("eth0", "192.168.77.2/24", "fd77::2/64")
    router.address("inside.1", "192.168.77.1/24", "fd77::1/64")
    router.address("outside", "172.16.7.1/24", "fd07::1/64")
    internet.address("eth0", "172.16.7.254/24", "fd07::fe/64")
    for machine, way, way6 in (
        (device, "192.168.77.1", "fd77::1"),
        (router, "172.16.7.254", "fd07::fe"),
        (internet, "172.16.7.1", "fd07::1"),
    ):
        machine.run("ip", "route", "add", "default", "via", way)
        machine.run("ip", "route", "add", "default", "via", way6)
    for network in ("198.51.100.0/24", "203.0.113.0/24", "2001:db8::/32"):
        internet.run("ip", "route", "add", "local", network, "dev", "lo")  # it answers at each of their addresses
    router.run("sysctl", "-q", "-w", "net.ipv4.ip_forward=1", "net.ipv6.conf.all.forwarding=1")
    for machine in (router, internet):  # one refusal a second would make the tests wait
        machine.run("sysctl", "-q", "-w", "net.ipv4.icmp_ratelimit=0", "net.ipv6.icmp.ratelimit=0")
    (folder / "resolv.conf").write_text(f"nameserver {NAMESERVER}\n", encoding="ascii")
    router.place(folder / "resolv.conf", "/etc/resolv.conf")


@dataclass
class Network:
    """The machines, what is served in the internet, and who watches."""

    device: Machine
    router: Machine
    internet: Machine
    origin: Origin
    resolver: Resolver
    wire: Wire
    log: Log

    def connect(self, address: str, port: int) -> socket.socket:
        """A connection of the device."""
        with self.device.inside():
            return socket.create_connection((address, port), PATIENCE)

    def http(self, address: str, host: str, path: str = "/", port: int = 80) -> bytes:
        return ask(self.connect(address, port), host, path)

    def https(self, address: str, server_name: str | None, host: str, path: str = "/", port: int = 443) -> bytes:
        return ask(tls_over(self.connect(address, port), server_name), host, path)

    def arrived(self, act: Callable[[], object]) -> set[Packet]:
        """What reaches the internet of all that is done, without what machines ask their neighbours."""
        with self.wire.watch() as packets:
            act()
        return {packet for packet in packets if not packet[1].startswith(("ff02:", "fe80:", "fd07:"))}
