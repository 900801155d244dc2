"""Lists that have a URL: fetched, verified, compared with the version in force by the gate, kept, and rolled back.

In: a list's address. Out: its good copies, and what became of an update. Open first: ``subscription``, then
``list_update``.
"""

from hushlist.core.extension import Command, Extension
from hushlist.core.policy.keys import Key

_TEXT = "hushlist.core.policy.key_types:any_text"
SUBSCRIPTION_KEYS = (
    Key(
        "every", f"{__name__}.subscription:EVERY", place="list", needs=("url catalogue",)
    ).says("""how often it is checked for updates, from `15m` to `30d`, such as `12h`; without it, as the list's `!
        Expires:` says, or a day"""),
    Key(
        "sha256", f"{__name__}.subscription:SHA256", place="list", needs=("url catalogue",)
    ).says("""the SHA-256 of the only
        content that it may have, in hexadecimal"""),
    Key(
        "key", f"{__name__}.subscription:KEY", place="list", needs=("url catalogue",)
    ).says("""the minisign public key of its
        publisher, or a file with it: a list that it did not sign is never used"""),
    Key("signature", _TEXT, place="list", needs=("url catalogue", "key")).says(
        """the address of its signature; without it, that of the list with `.minisig` after it"""
    ),
    Key(
        "max-age", f"{__name__}.subscription:MAX_AGE", place="list", needs=("url catalogue",)
    ).says("""the longest time since the last successful check for updates, from `15m` to `365d`, such as `3d`,
        after which `/readyz` says no; without it, any"""),
    Key(
        "optional",
        "hushlist.core.policy.key_types:flag",
        place="list",
        needs=("url catalogue safe-browsing",),
        into="is_optional",
    ).says("`true`: the policy is used without the list until there is a copy"),
)
EXTENSION = Extension(
    "subscriptions",
    policy_keys=(
        Key("gate", f"{__name__}.gate_limits:GATE").says("""how much a list may change before it is held back, and its
            last good copy stays in force: `on` (the default), `off` or a mapping: see [Changes](lists.md#changes)"""),
        Key("url", _TEXT, place="list", files=f"{__name__}.list_sources:fetched_files").says("""the address of a
            list to download, instead of `file`: `https://`, or `http://` where there is a `sha256` or a `key`"""),
        *SUBSCRIPTION_KEYS,
        Key("catalogue", _TEXT, place="list", files=f"{__name__}.list_sources:catalogue_files").says("""the name of
            a list of the [catalogue](lists.md#the-catalogue), instead of `url`: its address, format, title and
            category are taken from there, if the policy gives no others"""),
        Key("gate", f"{__name__}.gate_limits:LIST_GATE", place="list").says("""the same for this list alone: `on`, `off`
            or a mapping: see [Changes](lists.md#changes)"""),
    ),
    part=f"{__name__}.list_watch:ListWatch",
    category_names=f"{__name__}.catalogue:category_names",
    lists=f"{__name__}.list_update",
    checks=f"{__name__}.list_checks:examine_lists",
    gate=f"{__name__}.gate:Gate",
    pointers=f"{__name__}.list_store:pointers",
    list_warnings=f"{__name__}.ordinary_requests:too_much",
    commands=(Command(("update", "lists"), f"{__name__}.update_command", "while the filter runs"),),
    actions=f"{__name__}.actions",
    uses=("adblock", "journal"),
)
