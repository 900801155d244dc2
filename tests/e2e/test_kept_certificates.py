"""A host's certificate outlasts a restart of the proxy, and clients trust it."""

from __future__ import annotations

import signal
import stat
from pathlib import Path

import pytest

from e2e.origin import Origin
from e2e.policies import simple_policy
from e2e.proxy import end_cleanly, mitmdump

HOSTS = ("good.test", "www.good.test")


def test_a_certificate_outlasts_a_restart(origin: Origin, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the file is damaged, another one is made."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    policy, certificates = simple_policy(tmp_path / "policy"), list[dict[str, bytes]]()
    for _ in range(3):
        with mitmdump(tmp_path, origin, policy=policy) as proxy:
            certificates.append({})
            for host in HOSTS:
                with proxy.tls().wrap_socket(proxy.tunnel(host, 443), server_hostname=host) as tls:
                    certificates[-1][host] = tls.getpeercert(binary_form=True) or b""
            end_cleanly(proxy, signal.SIGTERM)
        (file,) = (tmp_path / "cache" / "hushlist").glob("certificates-*")
        assert not any(host.encode() in file.read_bytes() for host in HOSTS)
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        if len(certificates) == 2:
            file.write_bytes(file.read_bytes()[:-9])
    assert certificates[0] == certificates[1]
    assert {*certificates[1].values()}.isdisjoint(certificates[2].values())
