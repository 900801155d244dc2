"""One release of lists: looked through, made, compared with the one before, signed, and put in its place as a whole.

    lint -> write, hide or seal -> diff and gate against what is published -> leak -> changes, digests, signatures
         -> the folder is replaced; a step that fails leaves it as it was

What is compared is what is published, so that of hidden lists only hashes are seen.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory

from hushlist.core.compile.list_chunks import chunk_list
from hushlist.core.compile.worker_processes import Progress
from hushlist.core.errors import HushlistError, Problem, SourceError, number_of, one_line
from hushlist.core.lists.list_formats import UNTOLD, list_format_of
from hushlist.core.lists.list_source import ListDefaults, read_seal_key
from hushlist.core.policy.policy_file import ListFile, list_files
from hushlist.core.system.files import LONGEST_LIST, fingerprint, open_regular, read_regular, replace_file, sha256_of
from hushlist.extensions.subscriptions.gate import judge
from hushlist.extensions.subscriptions.gate_limits import GateLimits
from hushlist.extensions.subscriptions.minisign import (
    SecretKey,
    SignatureError,
    sign_file,
    signature_path,
    verify_file,
)
from hushlist.extensions.subscriptions.rule_comparison import ChangeKind
from hushlist.tools.audit.diff_job import DiffOptions, RuleChange, diff, side_of_list
from hushlist.tools.audit.findings import Finding, FindingKind
from hushlist.tools.audit.guesses import Targets
from hushlist.tools.audit.leak_job import search_dictionary
from hushlist.tools.audit.lint_job import lint
from hushlist.tools.publish.hidden_list import HashKind, hide
from hushlist.tools.publish.list_writer import common_head, text_of
from hushlist.tools.publish.release_plan import CHANGES, DIGESTS, HISTORY, PlannedList, ReleasePlan, Treatment

#: of each kind of change, so many of a plain list are written into the changes
_SHOWN = 20
#: octets of the changes that stay, and of the digests
_LONGEST_CHANGES, _LONGEST_DIGESTS = 1 << 18, 1 << 20
#: characters of one change
_LONGEST_LINE = 200
#: of so many entries, one may be lost
_FEW = 100


class ReleaseError(HushlistError):
    """A step that failed: nothing is published."""


@dataclass(slots=True)
class ReleasedList:
    """What a report says of one list."""

    name: str
    treatment: Treatment
    rules: int = 0
    findings: int = 0
    #: of what was published before: rules, those that came and went; ``None``: there was nothing
    changed: tuple[int, int, int] | None = None
    #: the share of hashes that the dictionary recovers, without a key
    recovered: float | None = None
    #: some of what changed, for the changes
    shown: list[str] = field(default_factory=list)

    def as_dict(self) -> dict[str, object]:
        names = ("before", "added", "removed")
        return {
            "name": self.name,
            "as": self.treatment.value,
            "rules": self.rules,
            "findings": self.findings,
            "changed": None if self.changed is None else dict(zip(names, self.changed, strict=True)),
            "recovered": self.recovered,
        }

    def __str__(self) -> str:
        parts = [number_of(self.rules, "rule", "rules")]
        parts += [self.change]
        parts += [number_of(self.findings, "finding", "findings")] if self.findings else []
        parts += [f"{self.recovered:.1%} recovered by the dictionary"] if self.recovered is not None else []
        return f"{self.name} ({self.treatment}): {', '.join(parts)}"

    @property
    def change(self) -> str:
        return "new" if self.changed is None else f"{self.changed[1]:,} added, {self.changed[2]:,} removed"


def published(folder: Path) -> dict[str, str]:
    """The files of the release in a folder, and their digests; ``SourceError`` if it has what no release wrote.

    That would be lost where the folder is replaced.
    """
    if not folder.exists():
        return {}
    path, digests = folder / DIGESTS, {}
    if path.exists():
        for line in read_regular(path, _LONGEST_DIGESTS).decode("ascii", "replace").splitlines():
            digest, _, name = line.partition("  ")
            digests[name] = digest
    if CHANGES not in digests:  # another program's
        digests = {}
    names = {*digests, *((DIGESTS, HISTORY) if digests else ())}
    names |= {signature_path(Path(name)).name for name in names}
    problems = [
        Problem(str(folder / name), 0, "folder", "no release wrote it, and it would be lost: publish elsewhere")
        for name in sorted(path.name for path in folder.iterdir())
        if name not in names
    ]
    if problems:
        raise SourceError(problems)
    return digests


@dataclass(slots=True)
class Release:
    plan: ReleasePlan
    folder: Path
    key: SecretKey
    now: datetime
    #: canonical hosts, the most popular first
    popular: tuple[bytes, ...] = ()
    progress: Progress | None = None
    lists: list[ReleasedList] = field(default_factory=list)
    warnings: list[Problem] = field(default_factory=list)
    #: whether anything differs from what is published; told by ``publish``
    is_new: bool = True

    def publish(self) -> None:
        """Do all steps; ``ReleaseError`` or ``SourceError`` if one fails, and then nothing is replaced."""
        self._recover()
        before = published(self.folder)
        staged = self.folder.with_name(f".{self.folder.name}.new")
        if staged.exists():  # of a process that was killed
            shutil.rmtree(staged)
        staged.mkdir(mode=0o700)
        try:
            self._make_all(staged)
            after = {released.name: sha256_of(staged / released.name) for released in self.lists}
            self.is_new = not self._is_same(before, after)
            if self.is_new:
                self._finish(staged, before, after)
                self._swap(staged)
        finally:
            shutil.rmtree(staged, ignore_errors=True)

    def _make_all(self, staged: Path) -> None:
        """Make each list; where one fails, the others are looked at before ``ReleaseError`` tells of all."""
        whys: list[str] = []
        for planned in self.plan.lists:
            released = ReleasedList(planned.name, planned.treatment)
            self.lists.append(released)
            try:
                self._make(released, planned, staged)
            except ReleaseError as error:
                whys.append(str(error))
            except SourceError as error:
                whys += map(str, error.problems)
        if whys:
            raise ReleaseError("; ".join(whys))

    # -- one list ------------------------------------------------------------------------------------------------------

    def _make(self, released: ReleasedList, planned: PlannedList, staged: Path) -> None:
        look = fingerprint(planned.source)
        self._lint(released, planned)
        target = staged / planned.name
        if planned.treatment is Treatment.PLAIN:
            with open_regular(planned.source, LONGEST_LIST) as source, target.open("xb") as copy:
                shutil.copyfileobj(source, copy)
        else:
            self._hide(released, planned, target)
        if fingerprint(planned.source) != look:
            raise ReleaseError(f"{planned.source}: it changed while it was read")
        earlier = self.folder / planned.name
        if earlier.is_file():
            self._compare(released, earlier, target)

    def _lint(self, released: ReleasedList, planned: PlannedList) -> None:
        errors: list[str] = []

        def note(source: str, finding: Finding) -> None:
            if finding.kind is FindingKind.ERROR:
                errors.append(f"{source}:{finding.line}: {finding.what}: {finding.why}")

        linted = lint(_files(planned.source), note, self.now, popular=self.popular, progress=self.progress)
        released.rules, released.findings = linted.rules, linted.counts.total()
        if errors:
            raise ReleaseError("; ".join(errors[:3]))
        if not linted.rules:
            raise ReleaseError(f"{planned.source}: there is no rule in it")
        if linted.counts[FindingKind.REFUSED] > (linted.rules + linted.counts[FindingKind.REFUSED]) // _FEW:
            lost = number_of(linted.counts[FindingKind.REFUSED], "entry makes", "entries make")
            raise ReleaseError(f"{planned.source}: {lost} no rule, more than one in {_FEW}: see hushlist lint")
        most = self.plan.limits.findings
        if most is not None and released.findings > most:
            raise ReleaseError(f"{planned.source}: {released.findings:,} findings of lint, more than {most:,}")

    def _hide(self, released: ReleasedList, planned: PlannedList, target: Path) -> None:
        files = _files(planned.source)
        seal = None if planned.seal is None else read_seal_key(planned.seal)
        hidden = hide(files, HashKind.SHA256, key=seal, popular=self.popular, progress=self.progress)
        self.warnings += hidden.warnings
        if hidden.broad:
            raise ReleaseError(f"a rule is too broad to be hidden: {hidden.broad[0]}")
        text, problems = text_of(hidden, list_format_of(Path(planned.name)) or "yaml", common_head(files))
        self.warnings += problems
        released.rules = len(hidden.rules)
        if hidden.left_out > (hidden.left_out + released.rules) // _FEW:
            raise ReleaseError(f"{planned.source}: {hidden.left_out:,} entries would be lost, more than one in {_FEW}")
        replace_file(target, text.encode())
        if self.plan.dictionary is None:
            return
        targets = Targets()
        targets.add(hidden.as_rules)
        released.recovered = search_dictionary("", targets, [self.plan.dictionary], progress=self.progress).share
        most = self.plan.limits.recovered
        if most is not None and released.recovered * 100 > most:
            raise ReleaseError(
                f"{planned.source}: {self.plan.dictionary} recovers {released.recovered:.1%}, more than {most} %"
            )

    def _compare(self, released: ReleasedList, earlier: Path, target: Path) -> None:
        """What changes for who has the release before; and what their gate would say."""

        def note(change: RuleChange) -> None:
            if released.treatment is Treatment.PLAIN and change.kind is not ChangeKind.MOVED:
                rules = " -> ".join(dict.fromkeys(state.rule for state in (change.old, change.new) if state))
                sign = {ChangeKind.ADDED: "+", ChangeKind.REMOVED: "-"}.get(change.kind, "~")
                released.shown.append(one_line(f"{sign} {rules}", _LONGEST_LINE))

        sides = [side_of_list(path, list_format_of(path), ListDefaults()) for path in (earlier, target)]
        result = diff(sides[0], sides[1], note, DiffOptions(_SHOWN, popular=self.popular))
        released.changed = result.old, result.added, result.removed
        limits = self.plan.limits
        if limits.added is not None and result.added * 100 > limits.added * result.old:
            raise ReleaseError(
                f"{released.name}: {result.added:,} came to {result.old:,} rules, more than {limits.added} %"
            )
        gate = GateLimits(loses=limits.loses, is_own=True)
        old, new = (chunk_list(side.files[0]._replace(values={"gate": gate})) for side in sides)
        with TemporaryDirectory() as name:
            reasons, _ = judge(old, new, self.popular, Path(name), None, self.progress)
        if reasons:
            raise ReleaseError(f"{released.name}: subscribers would hold it back: {'; '.join(reasons)}")

    # -- all of them ---------------------------------------------------------------------------------------------------

    def _is_same(self, before: dict[str, str], after: dict[str, str]) -> bool:
        """Whether a release has the same lists, signed with the same key."""
        if {name: digest for name, digest in before.items() if name != CHANGES} != after:
            return False
        with suppress(SignatureError, OSError):
            for name in (*before, DIGESTS):
                verify_file(self.folder / name, self.key.public)
            return True
        return False

    def _finish(self, staged: Path, before: dict[str, str], after: dict[str, str]) -> None:
        """The changes, the digests, the signatures, and the history."""
        gone = sorted(before.keys() - after.keys() - {CHANGES})
        earlier = b""
        with suppress(FileNotFoundError):
            earlier = read_regular(self.folder / CHANGES, _LONGEST_CHANGES << 1)
        text = "\n".join(self._changes(gone)).encode() + b"\n" + earlier
        cut = text[:_LONGEST_CHANGES]
        replace_file(staged / CHANGES, text if cut == text else cut[: cut.rfind(b"\n## ") + 1] or cut)
        digests = {**after, CHANGES: sha256_of(staged / CHANGES)}
        lines = "".join(f"{digest}  {name}\n" for name, digest in sorted(digests.items()))
        replace_file(staged / DIGESTS, lines.encode())
        for name in (*digests, DIGESTS):
            sign_file(staged / name, self.key)
        self._keep_history(staged, before)
        for path in (staged, *staged.iterdir()):
            path.chmod(0o755 if path.is_dir() else 0o644)

    def _changes(self, gone: list[str]) -> Iterator[str]:
        yield f"## {self.now:%Y-%m-%d %H:%M} UTC\n"
        for released in self.lists:
            yield f"- {released.name}: {number_of(released.rules, 'rule', 'rules')}, {released.change}"
            yield from (f"    {line}" for line in released.shown)
        yield from (f"- {name}: gone" for name in gone)
        yield ""

    def _keep_history(self, staged: Path, before: dict[str, str]) -> None:
        """The releases before, the last ones of which stay."""
        history, kept = self.folder / HISTORY, staged / HISTORY
        if not before or not self.plan.history:
            return
        earlier = sorted(path.name for path in history.iterdir()) if history.is_dir() else []
        kept.mkdir(mode=0o755)
        for name in earlier[max(0, len(earlier) - self.plan.history + 1) :]:
            shutil.copytree(history / name, kept / name)
        last = kept / f"{self.now:%Y-%m-%dT%H%M%S.%fZ}"
        last.mkdir(mode=0o755)
        for path in self.folder.iterdir():
            if path.is_file():
                shutil.copy2(path, last / path.name)

    # -- the folder ----------------------------------------------------------------------------------------------------

    @property
    def _aside(self) -> Path:
        return self.folder.with_name(f".{self.folder.name}.before")

    def _recover(self) -> None:
        """Put back what a process had moved aside that was killed then."""
        if self._aside.exists():
            if self.folder.exists():
                shutil.rmtree(self._aside)
            else:
                self._aside.rename(self.folder)

    def _swap(self, staged: Path) -> None:
        """Put a new folder in the place of the old one, which comes back if that fails."""
        if not self.folder.exists():
            staged.rename(self.folder)
            return
        self.folder.rename(self._aside)
        try:
            staged.rename(self.folder)
        except OSError:
            self._aside.rename(self.folder)
            raise
        shutil.rmtree(self._aside, ignore_errors=True)


def _files(path: Path) -> list[ListFile]:
    files = list_files(path, list_format_of(path), ListDefaults())
    if any(file.format is UNTOLD for file in files):
        raise SourceError([Problem(str(path), 0, "list", "neither its name nor its content tells its format")])
    return files
