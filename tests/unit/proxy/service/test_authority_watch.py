"""The years of mitmproxy's certificates: no browser gets one that has ended, and the authority's end is told."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest
from mitmproxy.addons.tlsconfig import TlsConfig
from mitmproxy.certs import CertStore
from mitmproxy.test import taddons

from hushlist.notify.notifier import Notice
from hushlist.proxy.addon import Hushlist
from hushlist.proxy.service.authority_watch import NOTICES, AuthorityWatch, forget_unfit

pytestmark = pytest.mark.usefixtures("own_folders")


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> CertStore:
    return CertStore.from_store(tmp_path_factory.mktemp("authority"), "mitmproxy", 2048)


@pytest.mark.parametrize(("days", "is_new"), [(0, False), (300, False), (340, True), (4000, True), (-30, True)])
def test_a_certificate_of_a_host_is_made_anew_before_it_ends(store: CertStore, days: int, is_new: bool) -> None:
    """Without that, a proxy that runs for a year hands out ended ones, as each is kept until a hundred others came."""
    given = store.get_cert("given.example", [])  # stands for one that an administrator gives: it is in no queue
    store.expire_queue.remove(given)
    before = store.get_cert("h.example", [])
    forget_unfit(store, datetime.now(UTC) + timedelta(days=days))
    assert (store.get_cert("h.example", []) is not before) is is_new
    assert len(store.expire_queue) == 1
    assert store.get_cert("given.example", []) is given
    store.certs.clear()
    store.expire_queue.clear()


@pytest.fixture
def told(hushlist: Hushlist, monkeypatch: pytest.MonkeyPatch) -> list[Notice]:
    """What the notifier is handed."""
    told: list[Notice] = []
    monkeypatch.setattr(hushlist.runtime.notifier.__class__, "send", lambda _, notice: told.append(notice))
    return told


@pytest.fixture
def look(
    context: taddons.context, hushlist: Hushlist, store: CertStore, monkeypatch: pytest.MonkeyPatch
) -> Callable[[float], None]:
    """Look at the authority so many days before its end."""
    tls = TlsConfig()
    tls.certstore = store
    monkeypatch.setattr(context.master.addons, "get", {"tlsconfig": tls}.get)
    watch = AuthorityWatch(hushlist.runtime)
    return lambda days: watch.look(store.default_ca.notafter - timedelta(days=days))


def test_the_authoritys_end_is_told_in_time_and_again_as_it_comes_nearer(
    look: Callable[[float], None], told: list[Notice], store: CertStore
) -> None:
    for hour in range(120 * 24, -48, -1):
        look(hour / 24)
    assert len(told) == len(NOTICES)
    assert str(store.default_ca.notafter.year) in told[0].title
    assert told[0].details == {"authority": {"ends": store.default_ca.notafter.isoformat()}}
    assert "mitmproxy-ca" in told[0].message


def test_a_proxy_that_starts_late_tells_it_once(look: Callable[[float], None], told: list[Notice]) -> None:
    for days in (45.5, 45.2, 44.8):
        look(days)
    assert len(told) == 1


def test_a_new_authority_is_told_of_again(look: Callable[[float], None], told: list[Notice]) -> None:
    for days in (-1, 3650, -1):
        look(days)
    assert len(told) == 2


def test_another_mitmproxy_stops_nothing(
    look: Callable[[float], None], store: CertStore, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.delattr(store, "expire_queue")
    look(1)
    look(1)
    assert caplog.text.count("the certificates cannot be looked at") == 1
