"""What the benchmarks of the proxy start: nginx, mitmdump, wrk; all on loopback, on free ports, and ended again."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import sysconfig
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import ours
from data import ROOT
from workbench import Skipped

LOOPBACK = "127.0.0.1"
MITMDUMP = Path(sysconfig.get_path("scripts")) / "mitmdump"
#: leads every name to the origin, with and without the filter
UPSTREAM = ROOT / "tests" / "e2e" / "scripts" / "upstream.py"
#: one that no list has; its expressions are as many as a name of a real site has
HOST = "www.static.news.example"
#: seconds in which a server has to listen; an index may have to be made first
PATIENCE = 600.0
#: seconds in which one has to end; what valgrind runs is slow
ENDING = 120.0

#: octets of what is answered to every path, and at most where a range is asked for
SMALL, LARGEST = 1024, 64 << 20
#: the path of the largest file, over TLS
LARGE_PATH = "/large"

_NGINX = """
daemon off; {user} worker_processes 1; worker_rlimit_nofile 16384; pid {folder}/nginx.pid; error_log stderr crit;
events {{ worker_connections 16000; }}
http {{
  access_log off; keepalive_requests 1000000000; default_type text/plain;
  client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy; fastcgi_temp_path {folder}/fastcgi;
  uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;
  server {{ listen 127.0.0.1:{port}; root {folder}; location / {{ try_files /small.txt =500; }} }}
  {more}
}}
"""
_NGINX_TLS = """
  client_max_body_size 0; large_client_header_buffers 4 64k;
  server {{
    listen 127.0.0.1:{port} ssl http2; ssl_certificate {certificate}; ssl_certificate_key {certificate};
    root {folder}; location / {{ try_files /small.txt =500; }} error_page 405 =200 $uri;
    location /large {{ try_files /large.bin =500; }} if ($http_range) {{ rewrite ^ /large last; }}
  }}
"""

_WRK = """
-- The requests of a client of a proxy, or over TLS of a server, for the URLs of a file, in order, over and over.
local requests, at = {}, 0
function init(arguments)
  for url in io.lines(arguments[1]) do
    local scheme, host, path = url:match("^(%w+)://([^/]+)(.*)")
    local target = scheme == "http" and url or path
    requests[#requests + 1] = "GET " .. target .. " HTTP/1.1\\r\\nHost: " .. host .. "\\r\\n\\r\\n"
  end
end
function request()
  at = at % #requests + 1
  return requests[at]
end
function done(summary)
  local e = summary.errors
  local failed = e.connect + e.read + e.write + e.timeout + e.status
  print(string.format('{"requests": %d, "seconds": %f, "failed": %d}',
    summary.requests, summary.duration / 1e6, failed))
end
"""


@dataclass(frozen=True, slots=True)
class Server:
    """A process that listens on a port of loopback."""

    port: int
    process: int
    #: where it listens for TLS too, if it does
    tls_port: int = 0


@dataclass(frozen=True, slots=True)
class Answered:
    """Requests that were answered, and in how many seconds."""

    requests: int
    seconds: float


@contextmanager
def nginx(folder: Path, certificate: Path | None = None) -> Iterator[Server]:
    """An origin that answers every path with the same small file; with a certificate and its key, over TLS too."""
    folder = folder.absolute()
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o755)
    port = _free_port()
    configuration = folder / "nginx.conf"
    tls_port = _free_port() if certificate else 0
    more = _NGINX_TLS.format(folder=folder, port=tls_port, certificate=certificate) if certificate else ""
    # as root, it would read the files as another user, to whom a temporary folder is closed
    user = "user root root;" if os.geteuid() == 0 else ""
    configuration.write_text(_NGINX.format(folder=folder, port=port, user=user, more=more))
    (folder / "small.txt").write_text("0123456789abcdef" * (SMALL // 16))
    with (folder / "large.bin").open("wb") as large:
        large.truncate(LARGEST)
    with _running(
        ["nginx", "-p", str(folder), "-c", str(configuration)], port, folder / "nginx.log", signal.SIGTERM
    ) as server:
        yield replace(server, tls_port=tls_port)


@contextmanager
def mitmdump(
    folder: Path,
    origin: Server,
    policy: Path | None = None,
    options: Mapping[str, object] | None = None,
    runner: Sequence[str] = (),
    scripts: Sequence[Path] = (),
    workers: int = 0,
) -> Iterator[Server]:
    """A quiet mitmdump whose every name leads to the origin, with the filter where a policy is given.

    With options of its own, it says in its log what they leave it. A runner is a command that runs Python; scripts are
    mitmproxy's. With ``workers``, so many serve by ``hushlist proxy``, with options and a policy.
    """
    if not MITMDUMP.is_file():
        raise Skipped(f"there is no {MITMDUMP}")
    folder.mkdir(parents=True, exist_ok=True)
    port = _free_port()
    settings: dict[str, object] = {"confdir": folder, "connection_strategy": "lazy", "rawtcp": "false"}
    settings["upstream_hurries"] = "false"
    settings |= {
        "upstream_http": origin.port,
        "upstream_https": origin.tls_port,
        **(options or {}),
        **(ours.proxy_options(policy) if policy else {}),
    }
    program = [sys.executable, str(MITMDUMP), *(("-s", str(ours.FILTER)) if policy else ())]
    if workers:
        program = ours.command("proxy", "--workers", str(workers), "--")
    command = [
        *(*runner, *program, *(() if options else ("-q",)), "--listen-host", LOOPBACK, "--listen-port", str(port)),
        *(part for script in (UPSTREAM, *scripts) for part in ("-s", str(script))),
        *(part for name, value in settings.items() for part in ("--set", f"{name}={value}")),
    ]
    environment = {**(ours.environment(policy) if policy else os.environ), "HOME": str(folder)}
    log = mitmdump_log(folder, port)
    with _running(command, port, log, signal.SIGINT, environment) as server:
        end = time.monotonic() + PATIENCE
        while (said := log.read_text(errors="replace")).count(f"listening at {LOOPBACK}:{port}") < workers:
            if time.monotonic() > end or not Path(f"/proc/{server.process}/fd").exists() or "not start" in said:
                raise RuntimeError(f"{command} does not listen:\n{said[-4000:]}")
            time.sleep(0.05)
        yield server


def mitmdump_log(folder: Path, port: int) -> Path:
    """What the mitmdump that listened there wrote, and its runner."""
    return folder / f"mitmdump-{port}.log"


@contextmanager
def plain_relay(folder: Path, origin: Server) -> Iterator[Server]:
    """A proxy in asyncio that relays every CONNECT to the origin's TLS."""
    port = _free_port()
    script = str(Path(__file__).with_name("plain_relay.py"))
    command = [sys.executable, script, str(port), str(origin.tls_port)]
    with _running(command, port, folder / "plain_relay.log", signal.SIGINT) as server:
        yield server


def wrk(folder: Path, proxy: Server, urls: Sequence[str], seconds: float, base: str = f"http://{LOOPBACK}") -> Answered:
    """What a proxy answers to as many requests as it can take; ``base`` is how it is reached, without its port.

    Raises: RuntimeError if one fails.
    """
    script, file = folder / "proxy.lua", folder / "urls.txt"
    script.write_text(_WRK)
    file.write_text("".join(f"{url}\n" for url in urls))
    options = ["-t1", "-c8", f"-d{max(1, round(seconds))}s", "-s", str(script)]
    command = ["wrk", *options, f"{base}:{proxy.port}", "--", str(file)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    summary = json.loads(done.stdout.splitlines()[-1])
    if summary["failed"]:
        raise RuntimeError(f"{summary['failed']} of {summary['requests']} requests failed:\n{done.stdout}")
    return Answered(summary["requests"], summary["seconds"])


@contextmanager
def _running(
    command: Sequence[str], port: int, log: Path, ending: signal.Signals, environment: Mapping[str, str] | None = None
) -> Iterator[Server]:
    """A process that listens on a port, until the block ends."""
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, env=environment
        )
    try:
        _wait_for(process, port, log)
        yield Server(port, process.pid)
    finally:
        process.send_signal(ending)
        try:
            process.wait(ENDING)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _wait_for(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end and process.poll() is None:
        try:
            socket.create_connection((LOOPBACK, port), timeout=1).close()
        except OSError:
            time.sleep(0.05)
        else:
            return
    raise RuntimeError(f"{process.args} does not listen:\n{log.read_text(errors='replace')[-4000:]}")


def _free_port() -> int:
    with socket.socket() as free:
        free.bind((LOOPBACK, 0))
        return free.getsockname()[1]
