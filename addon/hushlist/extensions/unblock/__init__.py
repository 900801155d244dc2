"""Temporary unblocks: who may pass a block, with which code or passphrase, and until when; and minutes of use.

In: a grant, a code or a passphrase; a minute. Out: the ``Grant`` that covers a request; how many minutes were used. One
SQLite file, shared by the proxies and the command line, keeps all data. Open first: ``overrides``.
"""

from __future__ import annotations

from pathlib import Path

from hushlist.core.extension import Extension
from hushlist.core.policy.keys import Key
from hushlist.core.system.files import state_folder

EXTENSION = Extension(
    "unblock",
    policy_keys=(
        Key("unblock", f"{__name__}.unblock_keys:UNBLOCK", place="group").says("""whether block pages let somebody
            through for a while, and by what: `off` (the default), `on` or a mapping: see [Temporary
            unblocking](unblocking.md#temporary-unblocking)"""),
        Key(
            "own-address", f"{__name__}.unblock_keys:OWN_ADDRESS"
        ).says("""where phones reach the proxy's own pages, such
            as `http://192.168.1.2:8080`: notices then have buttons: see [One tap](unblocking.md#one-tap)"""),
    ),
    part=f"{__name__}.unblock_handler:UnblockHandler",
    actions=f"{__name__}.actions",
    uses=("databases", "journal"),
)

#: what a block can be for, and a grant
SCOPES = ("host", "url", "category")
#: what a grant can be for besides: a host, and what its pages load from others
SITE = "site"
GRANT_SCOPES = (*SCOPES, SITE)
#: what a grant of an administrator can be for besides: whatever rules stop; and a block: whatever is asked
EVERYTHING = "everything"
#: what everybody may read of a store that fails
STORE_FAILS = "the store cannot be used: nothing can be unblocked, and new blocks and minutes of use are not kept"


def default_path() -> Path:
    """The default file of proxies and the command line."""
    return state_folder() / "overrides.sqlite"
