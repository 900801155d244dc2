"""The table of keys of a list in YAML: of its head, and of a rule that is a mapping. ``yaml_rules`` reads them."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from hushlist.core.lists.list_source import ListDefaults
from hushlist.core.lists.yaml_nodes import MappingReader
from hushlist.core.match.rule import RUNGS, Action, Scope
from hushlist.core.policy.key_types import (
    NETWORK,
    TEXT,
    Reading,
    any_text,
    category,
    choice,
    hrn,
    list_of,
    names_of,
    read_rows,
    reason,
    schema_of_rows,
    some_of,
    title,
)
from hushlist.core.policy.keys import Key, Schema, Type
from hushlist.core.policy.usable_keys import table_of
from hushlist.core.url.hashed_uri import VARIANTS

RULE_ACTIONS = (Action.ALLOW, Action.BLOCK, Action.WARN, Action.TAG, Action.PASS)
#: keys that hold for all rules of a list, in the list's head or in the policy
DEFAULTS_KEYS = (
    Key("name", hrn).says("which list it is, an `hrn:` name; a list without one goes by its file's name"),
    Key("title", title).says("what people call it, in at most 200 characters"),
    Key("action", choice(RULE_ACTIONS)).says("""of all rules that do not say otherwise: `block` (the default), `allow`,
        `warn`, `tag` or `pass`"""),
    Key("category", category).says("what all rules are about that do not say otherwise, an `hrn:` name or a short one"),
    Key("reason", reason).says("""what the block page says, in at most 500 characters, where a rule does not say
        otherwise"""),
    Key("variant", choice(VARIANTS)).says("how the author of hashed URIs canonicalized: `n` (the default) or `p`"),
    Key("covers", choice(("hosts",))).says("""`hosts`: all rules are for whole hosts, those that are hashes, too: these
        give no reason to decrypt"""),
)


def read_defaults(fields: MappingReader) -> ListDefaults:
    """The defaults that a mapping gives for all rules of a list."""
    report = fields.report
    return ListDefaults(**read_rows(DEFAULTS_KEYS, fields, Reading(Path(report.source), report)))


def read_groups(fields: MappingReader, key: str, allowed: Collection[str] | None) -> tuple[str, ...]:
    """The groups that a key names, one or a list; ``allowed``: those that there are, ``None``: any."""
    groups = list[str]()
    for item in fields.some(key):
        if not isinstance(item.value, str) or not item.value.strip():
            fields.report.error(item.line, key, f"expected the name of a group, not {item.kind}")
        elif allowed is not None and item.value not in allowed:
            fields.report.error(item.line, item.value, f"there is no such group (known: {', '.join(allowed)})")
        else:
            groups.append(item.value)
    if key in fields and not fields.some(key):
        fields.error(key, "expected some groups")  # otherwise it would be for everybody
    return tuple(groups)


def read_scope(fields: MappingReader, scope_names: tuple[Collection[str], Collection[str]] | None) -> Scope | None:
    """For whom rules count, and when; ``scope_names``: the groups and the schedules that there are, ``None``: any."""
    groups, during = read_groups(fields, "for", None if scope_names is None else scope_names[0]), fields.text("during")
    if scope_names is not None and during is not None and during not in scope_names[1]:
        choices = f"known: {', '.join(scope_names[1])}" if scope_names[1] else "the policy has none"
        fields.error("during", f"there is no such schedule ({choices})", during)
    return Scope(groups, during or "") if groups or during else None


#: those that a policy has, without that of everybody else: what cannot be read leaves none, and not all
NAMED_GROUPS = Type(
    lambda fields, key, reading: read_groups(fields, key, reading.groups[:-1]), lambda: some_of(TEXT, minItems=1)
)
FOR = Type(
    lambda fields, key, reading: read_groups(fields, key, reading.groups), {"$name": "for", **some_of(TEXT, minItems=1)}
)
#: for whom a list or a rule is, and when
SCOPE_KEYS = (
    Key("for", FOR).says("the groups that it is for, one or a list; without it, everybody"),
    Key("during", any_text).says("the schedule during which it counts; without it, always"),
)


def _text(pattern: str, *also: str) -> Type:
    return Type(any_text.read, {"type": ["string", *also] if also else "string", "pattern": pattern})


_HASHED = "^[Hh][Aa][Ss][Hh][Ee][Dd]:"
_URI: Schema = {
    "$name": "uri",
    "type": "string",
    "pattern": _HASHED + r"[A-Za-z0-9.-]+=[0-9A-Fa-f]+(?:\+(?:[Qq][Uu][Ee][Rr][Yy]|[Ff][Rr][Aa][Gg]))*$",
}
EXPRESSION: Schema = {
    "$name": "expression",
    "type": "string",
    "pattern": r"^\s*(?:[A-Za-z][A-Za-z0-9+.-]*://)?(?![0-9]+\s*$)[^/?#*|^\s]+(?:[/?#]\S*)?\s*$",
}
#: digits alone, or with one e among them, are a number to an editor
_HASH = _text("^(?:[0-9A-Fa-f]{2}){4,32}$", "number")
PATTERN_KEYS = (
    Key("expression", Type(any_text.read, EXPRESSION)).says("a rule in the clear, see below"),
    Key("sha256", _HASH).says("""the SHA-256 of an expression in hexadecimal, 64 digits, or a prefix of it of 8 to 62
        digits"""),
    Key("sealed", _HASH).says("""the HMAC-SHA-256 of an expression with the key that the list's `seal` names, in
        hexadecimal, or a prefix of it, as of `sha256`"""),
    Key("address", Type(any_text.read, NETWORK)).says("""an IPv4 or IPv6 address, or a range in CIDR notation; fits the
        address in a URL, never a name. `0.0.0.0` and `::` lead to the proxy's own machine, as `127.0.0.0/8` does"""),
    Key("uri", Type(any_text.read, _URI)).says("a hashed URI, see below"),
)
RULE_KEYS = (
    *PATTERN_KEYS,
    Key("match", choice(RUNGS)).says("""`simple`, `syntax` or `scheme`: the expression is one whole URL, and this says
        which other spellings of it fit; see below"""),
    Key("action", choice(RULE_ACTIONS)).says("`block`, `allow`, `warn`, `tag` or `pass`; without it, the list's"),
    Key("category", category).says("what the rule is about, an `hrn:` name or a short one; without it, the list's"),
    Key("reason", reason).says("what the block page says, in at most 500 characters; without it, the list's"),
    Key("expires", _text("^[0-9]{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12][0-9]|3[01])$")).says("""the last day (UTC) on which
        the rule holds"""),
    *table_of().rows("rule"),
    *SCOPE_KEYS,
)


def _schema_of_rule() -> Schema:
    whole_url = {"expression": {"pattern": "^\\s*[Hh][Tt][Tt][Pp][Ss]?://[^/?#@]+(?:[/?][^#]*)?$"}}
    full = {"type": "string", "pattern": "^[0-9A-Fa-f]{64}$"}
    allows = {"required": ["action"], "properties": {"action": {"const": "allow"}}}
    rule = schema_of_rows(
        RULE_KEYS,
        oneOf=[{"required": [key]} for key in names_of(PATTERN_KEYS)],
        allOf=[
            {"if": {"required": ["match"]}, "then": {"required": ["expression"], "properties": whole_url}},
            {"if": allows, "then": {"properties": {"sha256": full, "sealed": full}}},
        ],
    )
    plain = {"allOf": [EXPRESSION], "not": {"pattern": _HASHED}}
    return {"$name": "rule", "anyOf": [_URI, plain, rule]}


LIST_KEYS = (
    *DEFAULTS_KEYS[:2],
    Key("description", any_text).says("what it is for; nobody reads it but people"),
    Key("version", any_text).says("which version it is: [reports of mistakes](unblocking.md#a-mistake) name it"),
    Key("issues", any_text).says("the URL, or the mailbox, where mistakes of the list are reported"),
    *DEFAULTS_KEYS[2:],
    Key("seal", _text("^[0-9a-f]{16}$", "number")).says("""`sealed` hashes need the key that has this fingerprint, 16
        hexadecimal digits"""),
    Key("rules", Type(any_text.read, lambda: list_of(_schema_of_rule()), RULE_KEYS), is_required=True).says("""the
        rules; an empty list is written `rules: []`"""),
)
