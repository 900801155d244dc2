"""The policy's ``files``: which files may be downloaded and uploaded. The first rule that fits decides.

>>> rule = FileRule("policy.yaml", 7, Action.BLOCK, content=frozenset({"program"}))
>>> facts = FileFacts(names=("holiday.png",), media_types=("image/png",), kinds=frozenset({"program"}))
>>> print(rule.evidence(facts))
program
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime
from math import inf
from typing import ClassVar, NamedTuple

from mitmproxy.utils.human import parse_size

from hushlist.core.decide.decision import STOPPING, Judgement
from hushlist.core.extension import DecryptedNeed
from hushlist.core.lists.yaml_nodes import MappingReader, YamlNode
from hushlist.core.match.rule import Action, FilterPattern, Rule, Terms
from hushlist.core.match.rule_match import Match, SeenFile
from hushlist.core.policy.groups import GroupSettings
from hushlist.core.policy.key_types import (
    TEXT,
    Reading,
    any_text,
    category,
    choice,
    converted,
    flag,
    hrn,
    list_of,
    names_of,
    of_node,
    read_rows,
    reason,
    schema_of_rows,
)
from hushlist.core.policy.keys import Key, Schema, Type
from hushlist.core.policy.recurrence import Schedule
from hushlist.core.policy.scheduled_action import read_during
from hushlist.extensions.files.content_kinds import KINDS
from hushlist.extensions.files.file_names import UNREAD, endings_of
from hushlist.extensions.files.member_scanner import MOST_SHOWN, NO_MEMBERS, Members
from hushlist.extensions.files.rule_sites import SITES, are_on, hosts_of, is_about

#: which way files go
WAYS = ("download", "upload", "both")
_ACTIONS = (Action.BLOCK, Action.WARN, Action.ALLOW, Action.TAG)
#: claim of a media type or an ending -> the kinds that fit it; what is text has no kind
_CLAIMS: dict[str, frozenset[str]] = {
    **dict.fromkeys(("image/", "png", "jpg", "jpeg", "gif", "webp", "avif", "heic", "bmp", "ico", "tiff", "tif"),
                    frozenset({"image"})),
    **dict.fromkeys(("audio/", "video/", "mp3", "m4a", "ogg", "oga", "ogv", "opus", "wav", "flac", "mp4", "m4v", "webm",
                     "mkv", "mov", "avi", "mpg", "mpeg"), frozenset({"audio", "video"})),
    **dict.fromkeys(("application/pdf", "pdf", "rtf", "docx", "xlsx", "pptx", "odt", "ods", "odp"),
                    frozenset({"document"})),
    **dict.fromkeys(("doc", "xls", "ppt", "docm", "xlsm", "pptm"), frozenset({"document", "macros"})),
    **dict.fromkeys(("text/", "txt", "csv", "html", "htm", "css", "json", "xml", "md"), frozenset()),
}  # fmt: skip
#: kinds that say that nobody knows what it is
_UNSEEN = frozenset({"part", "unknown"})
#: no match of another kind is compared with one of these
_SPECIFICITY = (0, 0)


class FileFacts(NamedTuple):
    """What is seen of a file."""

    is_upload: bool = False
    #: all that are stated
    media_types: tuple[str, ...] = ()
    #: every name that a client may give it, and ``UNREAD`` if there may be more
    names: tuple[str, ...] = ()
    #: how long it is, or has become; ``None``: it does not tell
    octets: int | None = None
    #: by ``kinds_of``; ``None``: nothing of its content has come yet
    kinds: frozenset[str] | None = None
    #: what lists say of its hashes, a match or none; ``None``: they are not known yet
    listed: tuple[Match, ...] | None = None
    #: what is seen of its members, if it is an archive; ``None``: not all of it has come yet
    members: Members | None = None
    #: what a scanner has found in it; empty: nothing; ``None``: nobody was asked yet
    infection: str | None = None
    #: whether more of it may come, so that it is longer than its octets
    is_part: bool = False

    @property
    def seen(self) -> SeenFile:
        """What is told of it; its name is the first that it has."""
        name = next((name for name in self.names if name != UNREAD), "")
        kinds = (self.kinds or frozenset()) | (self.members or NO_MEMBERS).kinds
        return SeenFile(name, ", ".join(self.media_types), tuple(sorted(kinds)), None if self.is_part else self.octets)

    def is_disguised(self) -> bool:
        """Whether it is of another kind than its media type or a name says."""
        seen = (self.kinds or frozenset()) - _UNSEEN
        types = (claim for each in self.media_types for claim in (each, each.partition("/")[0] + "/"))
        claims = (*types, *(endings[-1] for name in self.names if (endings := endings_of(name))))
        is_other = any(claim in _CLAIMS and not seen <= _CLAIMS[claim] for claim in claims)
        return bool(seen) and (is_other or UNREAD in self.names)


@dataclass(frozen=True)
class FilePattern(FilterPattern):
    """The pattern of a rule for files, as people read it."""

    extension: ClassVar[str] = "files"
    is_exception: bool = field(default=False, init=False)
    words: str

    def __str__(self) -> str:
        return self.words


@dataclass(frozen=True, slots=True)
class FileRule:
    """A rule; all of its conditions have to hold, and of each of them one value."""

    #: its place in the policy
    source: str
    line: int
    action: Action
    way: str = "both"
    #: canonical expressions, and the category of a rule that fits the address
    sites: tuple[bytes, ...] = ()
    sites_category: str | None = None
    types: frozenset[str] = frozenset()
    endings: frozenset[str] = frozenset()
    content: frozenset[str] = frozenset()
    #: octets
    larger_than: int | None = None
    disguised: bool = False
    #: whether endings and kinds count that members of an archive have
    members: bool = False
    #: whether a list has its hash
    listed: bool = False
    #: whether a scanner finds something in it
    infected: bool = False
    reason: str | None = None
    category: str | None = None
    during: Schedule | None = None

    @property
    def needs_content(self) -> bool:
        return bool(self.content) or self.disguised or self.members

    def may_look_into(self, facts: FileFacts) -> bool:
        """Whether the members of a file count, as far as the rest of it is seen."""
        return self.members and self.evidence(facts) is not None

    def waits_for_members(self, facts: FileFacts) -> bool:
        """Whether it fits a file if its members do, which are not seen yet."""
        is_open = facts.members is None and self.may_look_into(facts)
        return is_open and replace(self, members=False).evidence(facts) is None

    def applies(self, *, is_upload: bool, now: datetime) -> bool:
        """Whether it is about files that go this way, now."""
        if self.way == ("download" if is_upload else "upload"):
            return False
        return self.during is None or self.during.is_on(now)

    def evidence(self, facts: FileFacts) -> str | None:
        """What of a file fits; ``None`` if it does not fit. What would need its content fits until that is seen."""
        words: list[str] = []
        for _, _, word in self.conditions(facts):
            if word is None:
                return None
            words.append(word)
        return ", ".join(words) or "any file"

    def conditions(self, facts: FileFacts) -> Iterator[tuple[str, str, str | None]]:
        """Each condition of which something is seen, what the file has for it, and what fits; ``None``: nothing."""
        members = (facts.members if self.members else None) or NO_MEMBERS
        is_open = self.members and facts.members is None
        if self.types:
            fitting = [each for each in facts.media_types if self.types & {each, each.partition("/")[0] + "/*"}]
            # what is allowed may be of no other type
            is_other = self.action is Action.ALLOW and len(fitting) < len(facts.media_types)
            yield "types", ", ".join(facts.media_types), fitting[0] if fitting and not is_other else None
        if self.endings:
            names = (name for name in facts.names if not self.endings.isdisjoint(endings_of(name)))
            name = next(names, None)
            if UNREAD in facts.names:
                name = None if self.action is Action.ALLOW else name or "a name that is not read"
            within = (each for each in members.names if not self.endings.isdisjoint(endings_of(each)))
            name = name or next((f"member {each}" for each in within), None)
            if name is not None or not is_open:
                yield "endings", ", ".join((*facts.names, *members.names[:MOST_SHOWN])), name
        if self.larger_than is not None:
            octets = facts.octets
            size = "" if octets is None else f"{octets:,} octets"
            if octets is None and facts.is_upload:
                yield "larger-than", size, "of untold length"
            else:
                yield "larger-than", size, size if octets is not None and octets > self.larger_than else None
        if (self.content or self.disguised) and facts.kinds is not None:
            seen = facts.kinds | members.kinds
            kinds = seen & self.content if self.content else facts.kinds
            fits = kinds and (not self.disguised or facts.is_disguised())
            what = "content" if self.content else "disguised"
            if fits or not is_open:
                yield what, " ".join(sorted(seen)) or "text", " ".join(sorted(kinds)) if fits else None
        if self.listed and facts.listed is not None:
            yield "listed", "in no list that stops it", "listed" if facts.listed else None
        if self.infected and facts.infection is not None:
            yield "infected", "nothing is found in it", facts.infection or None

    def match(self, evidence: str, facts: FileFacts | None = None) -> Match:
        """The match, as decisions have them: of what is listed, that of the list, with this rule's action."""
        if self.listed and facts is not None and facts.listed:
            (match,) = facts.listed
            terms = match.rule.terms._replace(action=self.action, reason=self.reason or match.rule.terms.reason)
            return match._replace(rule=match.rule._replace(terms=terms), file=facts.seen)
        reason = self.reason
        if self.infected and facts is not None and facts.infection:
            reason = ": ".join(filter(None, (reason, facts.infection)))
        terms = Terms(self.action, "policy", self.source, self.category, reason, layer="files")
        made = Match(Rule(FilePattern(self.words), terms, self.line), evidence.encode(), _SPECIFICITY)
        return made if facts is None else made._replace(file=facts.seen)

    @property
    def words(self) -> str:
        """Its conditions, as people read them."""
        conditions = (
            *(("types", each) for each in sorted(self.types)),
            *(("ending", each) for each in sorted(self.endings)),
            *(("content", each) for each in sorted(self.content)),
        )
        words = [f"{name} {value}" for name, value in conditions]
        words += [f"larger than {self.larger_than:,} octets"] if self.larger_than is not None else []
        words += ["disguised"] if self.disguised else []
        words += ["with members"] if self.members else []
        words += ["listed"] if self.listed else []
        words += ["infected"] if self.infected else []
        words += [f"on {site.decode()}" for site in self.sites]
        words += [f"on {self.sites_category}"] if self.sites_category else []
        return f"file: {', '.join(words)}"


def rules_about(rules: Iterable[FileRule], judgement: Judgement) -> tuple[FileRule, ...]:
    """The rules that are about the address of a request."""
    return tuple(
        rule
        for rule in rules
        if is_about(judgement, rule.sites, rule.sites_category, lets_pass=rule.action not in STOPPING)
    )


def file_rules_of(judgement: Judgement) -> tuple[FileRule, ...]:
    """The rules for files of a client's group that are about a request."""
    return rules_about(judgement.settings.of("files"), judgement)


def why_decrypt(host: bytes, settings: GroupSettings) -> str | None:
    """Why connections to a canonical host have to be decrypted, for people: rules for files name it."""
    return "there are rules for files of" if any(are_on(rule.sites, host) for rule in settings.of("files")) else None


def needs_decrypted(settings: GroupSettings) -> Iterator[DecryptedNeed]:
    """The hosts of rules, whose files nobody sees otherwise."""
    for rule in settings.of("files"):
        yield DecryptedNeed("files", rule.source, rule.line, hosts_of(rule.sites), "nobody looks at files of")


def kinds_wanted(rules: Iterable[FileRule]) -> frozenset[str]:
    """The kinds that rules ask for."""
    rules = [rule for rule in rules if rule.needs_content]
    return frozenset(KINDS if any(rule.disguised for rule in rules) else (kind for r in rules for kind in r.content))


def endings_wanted(rules: Iterable[FileRule]) -> frozenset[str] | None:
    """The endings of members that rules ask for; ``None``: no rule is about members."""
    rules = [rule for rule in rules if rule.members]
    return frozenset(ending for rule in rules for ending in rule.endings) if rules else None


class FileVerdict(NamedTuple):
    """What rules say of a file."""

    #: the rule that decides, with its evidence; ``None``: none does
    match: Match | None = None
    #: whether a rule needs to see the content first, the hash of the whole, or what a scanner says
    needs_content: bool = False
    needs_whole: bool = False
    needs_scan: bool = False

    @property
    def needs_end(self) -> bool:
        return self.needs_whole or self.needs_scan

    @property
    def is_open(self) -> bool:
        """Whether more of a file has to be seen than its head."""
        return self.needs_content or self.needs_end


def judge_file(rules: Iterable[FileRule], facts: FileFacts, now: datetime) -> FileVerdict:
    """The first rule that fits; one that needs the content asks for it, if the rest of it fits.

    A rule that needs all of the file waits for that, while those behind it may decide.
    """
    fitting = ((rule, rule.evidence(facts)) for rule in rules if rule.applies(is_upload=facts.is_upload, now=now))
    needs_whole = needs_scan = False
    verdict = FileVerdict()
    for rule, evidence in fitting:
        if evidence is None:
            continue
        waits = rule.waits_for_members(facts)
        asks_lists = (rule.listed and facts.listed is None) or (waits and facts.kinds is not None)
        asks_scanner = rule.infected and facts.infection is None
        if asks_lists or asks_scanner:
            needs_whole = needs_whole or (asks_lists and verdict.match is None)
            needs_scan = needs_scan or (asks_scanner and verdict.match is None)
        elif verdict.match is None and not verdict.needs_content:
            is_open = (bool(rule.content) or rule.disguised or waits) and facts.kinds is None
            verdict = FileVerdict(needs_content=True) if is_open else FileVerdict(rule.match(evidence, facts))
    return verdict._replace(needs_whole=needs_whole, needs_scan=needs_scan)


# -- reading -----------------------------------------------------------------------------------------------------------


def _texts(what: str) -> Type:
    def read(fields: MappingReader, key: str, _: Reading) -> frozenset[str] | None:
        items = [item.value for item in fields.some(key)]
        texts = [text.strip().casefold() for text in items if isinstance(text, str) and text.strip()]
        if not texts or len(texts) < len(items):
            fields.error(key, f"expected {what}, or a list of them")
        return frozenset(texts)

    return Type(read, {"anyOf": [TEXT, list_of(TEXT, minItems=1)]})


def _kinds(fields: MappingReader, key: str, reading: Reading) -> frozenset[str]:
    kinds: frozenset[str] = _texts("a kind of content").read(fields, key, reading)
    for kind in sorted(kinds - KINDS.keys()):
        fields.error(key, f"expected one of {', '.join(KINDS)}", f"{key}: {kind}")
    return kinds & KINDS.keys()


def read_size(text: str, most: float = inf) -> int | None:
    """The octets of a size such as ``100m``; ``None`` if it is none, or a larger one."""
    octets = parse_size(text) if text[:1].isdigit() else None
    return octets if octets is not None and 0 <= octets <= most else None


_KINDS_SCHEMA: Schema = {"anyOf": [{"enum": [*KINDS]}, list_of({"enum": [*KINDS]}, minItems=1)]}


def _checked(what: str, form: re.Pattern[str]) -> Type:
    texts = _texts(what)

    def read(fields: MappingReader, key: str, reading: Reading) -> frozenset[str]:
        values = frozenset(text.removeprefix(".") for text in texts.read(fields, key, reading))
        for value in sorted(values):
            if not form.fullmatch(value):
                fields.error(key, f"expected {what}", f"{key}: {value}")
        return values

    return Type(read, texts.schema)


def _only_true(fields: MappingReader, key: str, reading: Reading) -> bool:
    if flag.read(fields, key, reading) is False:
        fields.error(key, "expected true; without the key, it makes no difference")
    return True


#: a condition that is there or not
ONLY_TRUE = Type(_only_true, flag.schema)


#: the kinds of media types that are registered (RFC 6838, 4.2); and the endings that files have
_TYPE = re.compile(
    r"(application|audio|font|image|message|model|multipart|text|video|x-[a-z0-9-]+)/(\*|[!#$&^_.+a-z0-9-]+)"
)
_ENDING = re.compile(r"[^\s,;/\\.*?]+(?:\.[^\s,;/\\.*?]+)*")
_CONDITIONS = (
    Key("types", _checked("a media type such as image/png or video/*", _TYPE)).says("""media types as the server states
        them, such as `video/*`"""),
    Key(
        "endings", _checked("an ending such as exe or tar.gz", _ENDING)
    ).says("""what a name ends with, such as `exe`: of the address, and of each name in
        `Content-Disposition`"""),
    Key("content", Type(_kinds, _KINDS_SCHEMA)).says("""what it is by its first bytes: see
        [Files](files.md#content)"""),
    Key("larger-than", converted(read_size, "expected a size such as 100m")).says("""bytes, such as `100m`; an upload
        that does not state its length counts as larger"""),
    Key(
        "disguised", ONLY_TRUE
    ).says("""`true`: it is of another kind than its media type or a name says, such as a program
        that is named as a picture"""),
    Key("members", ONLY_TRUE).says("""`true`: `endings` and `content` look into archives, too: see
        [Members](files.md#members)"""),
    Key("listed", ONLY_TRUE).says("""`true`: a list of the layers has its hash: see
        [Hashes](files.md#hashes)"""),
    Key("infected", ONLY_TRUE).says("""`true`: the `scanner` finds something in it: see
        [A scanner](files.md#a-scanner)"""),
    Key("sites", SITES).says("expressions, each with what is below it, of the address: `drive.example/upload`"),
    Key("sites-category", category, into="sites_category").says("""what a rule that fits the address is about, also
        one that only tags: see [Uploads](files.md#uploads)"""),
)
_KEYS = (
    *_CONDITIONS,
    Key("for", choice(WAYS), into="way").says("""`download`, `upload` or `both` (the default, but
        `download` with `members`, `listed` and `infected`)"""),
    Key("action", choice(_ACTIONS)).says(
        "`block` (the default), `warn`, `allow` or `tag`; the first rule that matches decides"
    ),
    Key("reason", reason).says("what the block page says"),
    Key("category", hrn).says("what it is about, an `hrn:` name"),
    Key("during", any_text).says("the schedule during which it applies; without one, it always does"),
)


def _read(node: YamlNode, reading: Reading) -> tuple[FileRule, ...]:
    rules: list[FileRule] = []
    for entry in node.items:
        fields = MappingReader(entry, names_of(_KEYS), reading.report)
        values = read_rows([key for key in _KEYS if key.name != "during"], fields, reading)
        values["during"] = read_during(fields, reading.schedules)
        if not any(key.name in fields for key in _CONDITIONS):
            reading.report.error(entry.line, "files", f"a rule needs one of {', '.join(names_of(_CONDITIONS))}")
        is_about_end = "listed" in fields or "infected" in fields
        if "members" in fields and (is_about_end or not ("endings" in fields or "content" in fields)):
            fields.error("members", "expected endings or content beside it, and neither listed nor infected")
        if is_about_end or "members" in fields:
            values.setdefault("way", "download")
            if values.get("action") in (Action.ALLOW, Action.WARN):
                fields.error(
                    "action", "that is known at the end, when most of a file has passed: expected block or tag"
                )
        rules.append(FileRule(reading.report.source, entry.line, values.pop("action", Action.BLOCK), **values))
    return tuple(rules)


FILES = of_node(_read, lambda: list_of(schema_of_rows(_KEYS, name="file-rule")), _KEYS)
