"""Which errors end mitmproxy at its start."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from mitmproxy.addonmanager import AddonManager
from mitmproxy.addons.errorcheck import ErrorCheck
from mitmproxy.test import tflow

from hushlist.core.errors import logger_of
from hushlist.proxy.addon import Hushlist
from hushlist.proxy.service.start_errors import ENDS_THE_START, count_reasons_alone
from support.mitmproxied import mitmproxied


def addons(**named: object) -> AddonManager:
    """mitmproxy's addons by their names."""
    return cast(AddonManager, SimpleNamespace(get=named.get))


@contextmanager
def checked() -> Iterator[ErrorCheck]:
    """A start that is checked; no fixture, since mitmproxy's handler counts only what is logged in the same phase."""
    check = ErrorCheck()
    try:
        for _ in range(2):  # twice, as when a script is loaded again
            count_reasons_alone(addons(errorcheck=check))
        assert len(check.logger.filters) == 1
        yield check
    finally:
        check.finish()


@pytest.mark.parametrize("name", ["hushlist", "hushlist.extensions.journal.log_writer", "psycopg.pool"])
def test_what_is_tried_again_ends_nothing(name: str) -> None:
    with checked() as check:
        logging.getLogger(name).error("the disk is full")
    assert check.logger.has_errored == []


def test_a_reason_not_to_serve_ends_the_start() -> None:
    with checked() as check:
        logger_of("hushlist.proxy.addon").error("the policy is broken", extra=ENDS_THE_START)
    assert [record.getMessage() for record in check.logger.has_errored] == ["the policy is broken"]


@pytest.mark.parametrize("is_started", [False, True])
def test_who_comes_while_a_start_ends_is_refused(tmp_path: Path, is_started: bool) -> None:
    (tmp_path / "policy.yaml").write_text("odd: 1\n")
    hushlist, client = Hushlist(), tflow.tclient_conn()
    with checked() as check, mitmproxied(hushlist) as context:
        context.master.addons.add(check)
        if is_started:
            check.finish()
        context.configure(hushlist, hushlist_policy=str(tmp_path / "policy.yaml"))
        hushlist.client_connected(client)
        assert client.error == (None if is_started else "the start has failed")
        (tmp_path / "good.yaml").write_text("layers: []\n")
        context.configure(hushlist, hushlist_policy=str(tmp_path / "good.yaml"))
        later = tflow.tclient_conn()
        hushlist.client_connected(later)
    assert later.error is None  # of a program that did not end


@pytest.mark.parametrize("name", ["mitmproxy.addonmanager", "root", "hushlisted"])
def test_what_others_log_ends_it_as_before(name: str) -> None:
    with checked() as check:
        logging.getLogger(None if name == "root" else name).error("Addon error")
    assert len(check.logger.has_errored) == 1
