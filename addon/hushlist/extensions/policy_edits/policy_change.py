"""Changes a policy file: only what is tried before holds, only for who has seen what it changes, and back again."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple

from hushlist.core.compile.background_compiler import BackgroundCompiler
from hushlist.core.errors import HushlistError, Lines, Problem
from hushlist.core.match.index import Index
from hushlist.core.policy.policy_file import PolicyError
from hushlist.core.system.files import LONGEST_DOCUMENT, edit_file, reason_of
from hushlist.extensions.policy_edits.policy_reach import out_of_reach
from hushlist.extensions.policy_edits.policy_text import PolicyText, Section, policy_text, why_read_only
from hushlist.extensions.policy_edits.policy_trial import Editor, told_to_try
from hushlist.extensions.policy_edits.policy_versions import PolicyVersion, Versions, digest_of, versions_of
from hushlist.extensions.policy_edits.yaml_edits import EditError

_PROGRAM = "hushlist.extensions.policy_edits.policy_trial"
#: seconds that a trial may take, in which it fetches lists that are new; and seconds to wait for another one
_LONGEST, _PATIENCE = 120.0, 5.0
#: times that a change is made anew where others change the file meanwhile
_TRIES = 3
_trying = Lock()


class ChangedError(HushlistError):
    """What is to be changed is not any more what somebody has seen."""

    def __init__(self, now: Section) -> None:
        self.now = now
        where = f"line {now.line}" if now.line else "it is gone"
        super().__init__(f"somebody else has changed {now.name} meanwhile ({where}): nothing was changed now")


class UnusableError(HushlistError):
    """What the policy is to become cannot be used; nothing was changed."""

    def __init__(self, problems: list[Problem]) -> None:
        self.problems = problems
        super().__init__("\n".join(map(str, problems)))


class Change(NamedTuple):
    """A change that was made."""

    #: of the version before; 0: nothing had to be changed
    version: int
    before: PolicyText
    after: PolicyText
    warnings: list[str]


#: from the policy as it is to what it is to become; ``EditError`` if that cannot be
Edit = Callable[[PolicyText], PolicyText]


class PolicyFile(NamedTuple):
    """A policy file that somebody changes."""

    path: Path
    who: str
    #: who must be able to change it back at the page; ``None``: whoever has the file
    editor: Editor | None = None
    #: the index by which it decides now
    in_use: Index | None = None
    #: those of this machine on which the proxy listens
    ports: tuple[int, ...] = ()

    @property
    def versions(self) -> Versions:
        return versions_of(self.path)

    def change(self, seen: Mapping[str, Collection[str]], edit: Edit) -> Change:
        """Change sections, of each of which somebody has seen one of some versions; ``*``: whatever it is.

        Raises:
            ChangedError: it is another one by now.
            UnusableError: it cannot be used.
            EditError: it cannot be changed here.
        """

        def checked(before: PolicyText) -> PolicyText:
            for name, etags in seen.items():
                now = before.section(name)
                if {"*", now.etag}.isdisjoint(etags):
                    raise ChangedError(now)
            return self._within_reach(before, edit(before))

        return self._changed(checked, ",".join(seen))

    def preview(self, name: str, edit: Edit) -> dict[str, Any]:
        """What a change would make otherwise; raises as ``change``."""
        before = policy_text(self.path)
        after = self._within_reach(before, edit(before))
        return {"text": after.section(name).text, **self._tried("preview", after)}

    def _within_reach(self, before: PolicyText, after: PolicyText) -> PolicyText:
        if problems := out_of_reach(self.path, before, after):
            raise UnusableError(problems)
        return after

    def undo(self, number: int = 0) -> tuple[PolicyVersion, Change]:
        """Go back to what the file was before its last change, or before a change by its number.

        Raises:
            EditError: there is none, or the file was changed by hand since.
            UnusableError: it cannot be used any more.
        """
        versions = self.versions
        now = digest_of(policy_text(self.path).octets)
        undone = [
            version
            for version in versions.all()
            if version.section and (version.id == number if number else version.after == now)
        ]
        if not undone:
            raise EditError("there is no such change" if number else "the last change of the file was not made here")
        version = undone[0]
        before = versions.before(version.id)

        def back(text: PolicyText) -> PolicyText:
            if before is None:
                raise EditError("the text before this change is not kept any more")
            if digest_of(text.octets) == version.after:
                return PolicyText(before)
            # something else was changed since: of what this change was about, only that goes back
            return _section_back(text, PolicyText(before), version, versions)

        return version, self._changed(back, "")

    def _changed(self, edit: Edit, section: str) -> Change:
        if (why := why_read_only(self.path)) is not None:
            raise EditError(why)
        for _ in range(_TRIES):
            before = policy_text(self.path)
            after = edit(before)
            if after.octets == before.octets:
                return Change(0, before, after, [])
            warnings = self._tried("try", after)["warnings"]
            number = self._written(before.octets, after.octets, section)
            if number is not None:
                return Change(number, before, after, warnings)
        raise EditError("others change the file again and again")

    def _written(self, before: bytes, after: bytes, section: str) -> int | None:
        """Put the octets in the place of those before, and return the version's number; ``None`` if it has others."""

        class _OthersError(Exception):
            pass

        def replaced(octets: bytes) -> bytes:
            if octets != before:
                raise _OthersError
            return after

        try:
            number = self.versions.keep(before, after, self.who, section)
            try:
                edit_file(self.path, LONGEST_DOCUMENT, replaced)
            except BaseException:
                self.versions.forget(number)
                raise
        except _OthersError:
            return None
        except (OSError, RuntimeError) as error:
            raise EditError(f"{self.path} cannot be changed: {reason_of(error)}") from error
        return number

    def _tried(self, work: str, after: PolicyText) -> dict[str, Any]:
        if not _trying.acquire(timeout=_PATIENCE):
            raise EditError("another change is being tried: try again")
        try:
            message = told_to_try(after.octets, self.editor)
            answer = BackgroundCompiler(self.ports, _PROGRAM).ask(
                work, self.path, message, before=self.in_use, patience=_LONGEST
            )
        except PolicyError as error:  # of the machine
            raise EditError(str(Lines(error))) from error
        finally:
            _trying.release()
        if "problems" in answer:
            raise UnusableError([Problem(*problem) for problem in answer["problems"]])
        return answer


def _section_back(text: PolicyText, before: PolicyText, version: PolicyVersion, versions: Versions) -> PolicyText:
    following = versions.before(version.id + 1)
    after = None if following is None else PolicyText(following)
    for name in version.section.split(","):
        now = text.section(name)
        if after is None or digest_of(after.octets) != version.after or after.section(name).etag != now.etag:
            raise ChangedError(now)
        text = text.with_text(name, before.section(name).text)
    return text
