"""The years of a proxy: no browser gets a certificate that has ended, and what the system has now is used."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace

import mitmproxy_rs
import pytest
from mitmproxy import certs
from mitmproxy.addons.dns_resolver import DnsResolver
from mitmproxy.addons.tlsconfig import TlsConfig
from mitmproxy.certs import CertStore
from mitmproxy.test import taddons

from hushlist.core.extension import Notice
from hushlist.core.system.authority_file import OTHER_AUTHORITY
from hushlist.core.system.files import cache_folder
from hushlist.proxy.addon import Hushlist
from hushlist.proxy.connections.kept_certificates import KEPT, kept_file
from hushlist.proxy.service import upkeep
from hushlist.proxy.service.health import warnings_of
from hushlist.proxy.service.upkeep import INTERVAL, NOTICES, Upkeep, look_for_name_servers

pytestmark = pytest.mark.usefixtures("own_folders")


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> CertStore:
    return CertStore.from_store(tmp_path_factory.mktemp("authority"), "mitmproxy", 2048)


def test_a_certificate_of_a_host_is_made_anew_each_day(
    context: taddons.context, hushlist: Hushlist, store: CertStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without that, a proxy that runs for a year hands out ended ones, as each is kept until a hundred others came."""
    tls, now = TlsConfig(), datetime(2026, 11, 26, 12, tzinfo=UTC)
    tls.certstore = store
    monkeypatch.setattr(context.master.addons, "get", {"tlsconfig": tls}.get)
    given = store.get_cert("given.example", [])  # stands for one that an administrator gives: it is in no queue
    store.expire_queue.remove(given)
    watch = Upkeep(hushlist.runtime)
    watch.look(now)
    before = store.get_cert("h.example", [])
    for hours, is_new in ((1, False), (11.9, False), (12.1, True), (40, True), (-48, True), (-48, False)):
        watch.look(now + timedelta(hours=hours))
        assert (store.get_cert("h.example", []) is not before) is is_new
        before = store.get_cert("h.example", [])
        assert len(store.expire_queue) == 1
    assert store.get_cert("given.example", []) is given
    store.certs.clear()
    store.expire_queue.clear()


def test_certificates_are_read_at_the_start_and_written_at_the_end(
    context: taddons.context, hushlist: Hushlist, store: CertStore, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    tls, exchanged = TlsConfig(), list[Path]()
    tls.certstore = store
    monkeypatch.setattr(context.master.addons, "get", {"tlsconfig": tls}.get)
    if "confdir" not in context.options:
        context.options.add_option("confdir", str, str(tmp_path), "")
    monkeypatch.setattr(KEPT, "exchange", exchanged.append)

    async def run() -> None:
        watch = Upkeep(hushlist.runtime)
        watch.run()
        watch.look(datetime.now(UTC))
        watch.look(datetime.now(UTC))
        assert len(exchanged) == 1
        watch.close()

    asyncio.run(run())
    assert exchanged == [kept_file(cache_folder(), Path(context.options.confdir).expanduser())] * 2


@pytest.fixture
def look(
    context: taddons.context, hushlist: Hushlist, store: CertStore, monkeypatch: pytest.MonkeyPatch
) -> Callable[[float], None]:
    """Look at the authority so many days before its end."""
    tls = TlsConfig()
    tls.certstore = store
    monkeypatch.setattr(context.master.addons, "get", {"tlsconfig": tls}.get)
    watch = Upkeep(hushlist.runtime)
    return lambda days: watch.look(store.default_ca.notafter - timedelta(days=days))


def test_the_authoritys_end_is_told_in_time_and_again_as_it_comes_nearer(
    look: Callable[[float], None], notices: list[Notice], store: CertStore, caplog: pytest.LogCaptureFixture
) -> None:
    for hour in range(120 * 24, -48, -1):
        look(hour / 24)
    assert len(notices) == len(NOTICES)
    assert str(store.default_ca.notafter.year) in notices[0].title
    assert notices[0].details == {"authority": {"ends": store.default_ca.notafter.isoformat()}}
    assert "mitmproxy-ca" in notices[0].message
    assert caplog.messages[0].endswith(f"ends on {store.default_ca.notafter:%Y-%m-%d}: see hushlist doctor")
    assert len(caplog.messages) == len(NOTICES)


def test_another_authority_than_at_the_last_start_is_told_once_until_it_is_accepted(
    context: taddons.context,
    hushlist: Hushlist,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    store: CertStore,
    tmp_path: Path,
) -> None:
    tls = TlsConfig()
    monkeypatch.setattr(context.master.addons, "get", {"tlsconfig": tls}.get)
    if "confdir" not in context.options:
        context.options.add_option("confdir", str, str(tmp_path), "")

    def warnings_after(own: CertStore) -> list[str]:
        tls.certstore, watch = own, Upkeep(hushlist.runtime)
        caplog.clear()
        for _ in range(2):
            watch.look(datetime.now(UTC))
            watch._keep_up()
        return [text for text in caplog.messages if "another one than before" in text]

    assert (warnings_after(store), hushlist.runtime.has_other_authority) == ([], False)
    (text,) = warnings_after(other := CertStore.from_store(tmp_path / "other", "mitmproxy", 2048))
    assert OTHER_AUTHORITY in list(warnings_of(hushlist.runtime))
    Path(text.rpartition("then remove ")[2]).unlink()
    assert (warnings_after(other), hushlist.runtime.has_other_authority) == ([], False)


def test_the_list_of_what_is_revoked_is_made_anew_each_day(
    look: Callable[[float], None], store: CertStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That of mitmproxy 12, which it makes at its start, is valid for a week; mitmproxy 11 has none."""
    made = list[object]()

    def make(key: object, authority: object) -> bytes:
        assert (key, authority) == (store.default_privatekey, store.default_ca._cert)
        made.append(key)
        return b"%d" % len(made)

    monkeypatch.setattr(store, "default_crl", b"0", raising=False)
    monkeypatch.setattr(certs, "dummy_crl", None, raising=False)
    look(100)
    assert store.default_crl == b"0"
    monkeypatch.setattr(certs, "dummy_crl", make)
    for days in (99, 99, 98):
        look(days)
    assert store.default_crl == b"2"


def test_it_looks_at_once_and_each_minute_until_it_is_closed(
    hushlist: Hushlist, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks, pauses, given = list[datetime](), list[float](), list[None]()
    monkeypatch.setattr(upkeep, "give_back", lambda: given.append(None))

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)
        await asyncio.sleep(0)

    async def some_minutes() -> list[str]:
        own = Upkeep(hushlist.runtime)
        own.close()  # before it began
        monkeypatch.setattr(own, "look", looks.append)
        own.run()
        while len(looks) < 3:
            await asyncio.sleep(0)
        own.close()
        await asyncio.sleep(0)
        return [task.get_name() for task in asyncio.all_tasks()]

    own_asyncio = {"sleep": sleep, "get_running_loop": asyncio.get_running_loop, "to_thread": asyncio.to_thread}
    monkeypatch.setattr(upkeep, "asyncio", SimpleNamespace(**own_asyncio))
    assert "hushlist: upkeep" not in asyncio.run(some_minutes())
    assert pauses == [INTERVAL] * len(pauses)
    assert len(looks) - len(pauses) in (0, 1)
    assert len(looks) - len(given) in (0, 1)  # the last look may have been ended
    assert datetime.now(UTC) - looks[0] < timedelta(minutes=1)


@pytest.fixture
def resolver(context: taddons.context) -> Iterator[DnsResolver]:
    resolver = DnsResolver()
    context.master.addons.add(resolver)
    yield resolver
    resolver.configure({"dns_name_servers"})  # what it knows is kept for all resolvers


def test_the_systems_name_servers_of_today_are_asked(resolver: DnsResolver, monkeypatch: pytest.MonkeyPatch) -> None:
    """There may be none when the proxy starts, and a router may get others."""
    found, asked, kept = [[], ["192.0.2.1"], ["192.0.2.1"], ["192.0.2.2"]], list[list[str]](), list[object]()
    for servers in found:
        monkeypatch.setattr(mitmproxy_rs.dns, "get_system_dns_servers", lambda servers=servers: servers)
        look_for_name_servers(resolver)
        asked.append(resolver.name_servers())
        kept.append(resolver.resolver() if servers else None)
    assert asked == found
    assert kept[1] is kept[2] is not kept[3]
