"""``hushlist admin token``: what programs sign in with."""

from __future__ import annotations

import json
import time
from pathlib import Path

from hushlist.extensions.dashboard.admin_store import AdminStore
from unit.cli.running import Run


def test_a_token_is_made_listed_without_itself_and_revoked(run: Run, tmp_path: Path) -> None:
    store = ["--store", str(tmp_path / "admin.sqlite")]
    code, out, _ = run("admin", "token", "make", "school", "--role", "approve", "--for", "90d", *store)
    assert code == 0
    token = out.strip()
    with AdminStore(tmp_path / "admin.sqlite", time.time) as opened:
        account = opened.bearer(token, "192.0.2.7")
    assert account is not None
    assert (account.name, account.role) == ("token:school", "approve")
    code, out, _ = run("admin", "token", "list", *store)
    assert code == 0
    assert out.startswith("school  approve  until ")
    assert token not in out
    (line,) = run("admin", "token", "list", "--json", *store)[1].splitlines()
    assert json.loads(line)["name"] == "school"
    assert run("admin", "token", "make", "school", "--role", "view", *store)[0] == 2
    assert run("admin", "token", "revoke", "school", "nobody", *store)[:2] == (2, "revoked school\n")
    with AdminStore(tmp_path / "admin.sqlite", time.time) as opened:
        assert opened.bearer(token, "192.0.2.7") is None
