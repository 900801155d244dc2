"""Reports of mistakes in a proxy: the form of the block page, the stored report, and the notice of it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from threading import Lock

from markupsafe import Markup

from hushlist.core.decide.decision import Judgement
from hushlist.core.errors import one_line, printable
from hushlist.core.extension import Notice
from hushlist.core.match.rule import Ordered, Terms, TimeLimit
from hushlist.core.policy.groups import address_text
from hushlist.core.policy.policy_file import ListFile, Policy
from hushlist.core.system.files import Fingerprint, fingerprint, open_regular
from hushlist.extensions.databases.sql import StoreError
from hushlist.extensions.journal.journal import privacy_in
from hushlist.extensions.journal.log_record import url_of
from hushlist.extensions.journal.masked_clients import asker_name, clients_shown, device_names_shown
from hushlist.extensions.reports.actions import status_of
from hushlist.extensions.reports.list_head import LONGEST_HEAD, ListHead, read_head
from hushlist.extensions.reports.publisher_report import shape_for
from hushlist.extensions.reports.report_book import Report, ReportBook
from hushlist.extensions.unblock import default_path
from hushlist.extensions.unblock.page_form import SEEN, words_form
from hushlist.proxy.languages import DEFAULT_LANGUAGE, live_texts
from hushlist.proxy.page.elements import element
from hushlist.proxy.page.pages import PageForm
from hushlist.proxy.parts import Part
from hushlist.proxy.runtime import Runtime

#: the field that tells the form from others
REPORT = "report"
#: what the page says when it is taken
_DONE = "report_done"
#: characters of a URL, or of a rule, in a notice
_LONGEST_TOLD = 300
#: lists whose head and digest are known
_MOST_KNOWN = 64


class ReportPart(Part):
    """Adds the form to block pages, and has the store, which is opened when it is first needed."""

    def __init__(self, runtime: Runtime, _: object = None) -> None:
        self._runtime = runtime
        self._book: ReportBook | None = None
        self._opening = Lock()
        self._heads: dict[Path, tuple[Fingerprint, ListHead, str]] = {}

    def close(self) -> None:
        """Close the store."""
        with self._opening:
            if self._book is not None:
                self._book.close()
            self._book = None

    def values(self) -> Iterator[ReportBook]:
        """The store, if it can be used."""
        with suppress(StoreError):
            yield self._opened()

    def form(self, judgement: Judgement) -> PageForm | None:
        """The form, where a rule stops the request; not where the time of a quota is used up, or a person wanted it."""
        winner = judgement.decision.winner
        if (
            not judgement.settings.of("reports")
            or winner is None
            or isinstance(winner.rule.pattern, TimeLimit | Ordered)
        ):
            return None
        seen = SEEN[clients_shown(self._runtime.engine)]
        return PageForm(REPORT, partial(_section, seen), partial(self._take, judgement))

    def _take(self, stopped: Judgement, form: Mapping[str, list[str]]) -> str:
        """Store a report, and tell who looks after the filter; the key of what the page says.

        Raises:
            AskedTooOftenError: the client has reported too often.
            StoreError: it cannot be stored.
        """
        decision, client = stopped.decision, stopped.client
        self._opened().check(client.names[-1])
        winner = decision.winner
        assert winner is not None
        rule, terms = winner.rule, winner.rule.terms
        file = self._list_of(terms)
        head, digest = (ListHead(), "") if file is None else self._state_of(file.read_from)
        self.file(
            Report(
                *(client.names[-1], address_text(client.address), decision.group),
                host=(stopped.host or b"").decode("ascii", "replace"),
                url=url_of(decision, privacy_in(self._runtime)),
                rule=str(rule.pattern),
                line=rule.line,
                list=terms.label,
                source="" if file is None else terms.source,
                version=head.version,
                publisher=head.publisher,
                digest=digest,
                shape=shape_for(rule.pattern),
                words=form.get("words", [""])[0],
                seen=clients_shown(self._runtime.engine).value,
            )
        )
        return _DONE

    def file(self, report: Report) -> None:
        """Store a report, and tell of it where it is the first of its kind; raises as ``_take``."""
        filed = self._opened().file(report)
        if filed.times == 1:
            self._runtime.notify(self._notice(filed))

    def _list_of(self, terms: Terms) -> ListFile | None:
        """The list of a rule; ``None`` if it is of none, or the policy has it no longer."""
        engine = self._runtime.engine
        layers = () if engine is None else engine.policy.layers
        files = (file for layer in layers if layer.name == terms.layer for file in layer.lists)
        return next((file for file in files if file.source == terms.source), None)

    def _state_of(self, path: Path) -> tuple[ListHead, str]:
        """The head and the digest of a list's file, read again when that changes; neither if it cannot be read."""
        now = fingerprint(path)
        cached = self._heads.get(path)
        if cached is not None and cached[0] == now:
            return cached[1:]
        try:
            with open_regular(path) as file:
                head = read_head(file.read(LONGEST_HEAD))
                file.seek(0)
                digest = hashlib.file_digest(file, "sha256").hexdigest()
        except (OSError, ValueError):
            return ListHead(), ""
        if len(self._heads) >= _MOST_KNOWN:
            self._heads.clear()
        self._heads[path] = now, head, digest
        return head, digest

    def _opened(self) -> ReportBook:
        engine = self._runtime.engine
        place = (None if engine is None else engine.policy.of("store")) or default_path()
        with self._opening:
            if self._book is None or self._book.place != place:
                before, self._book = self._book, ReportBook(place, self._runtime.clock)
                if before is not None:
                    before.close()
            return self._book

    def _notice(self, filed: Report) -> Notice:
        engine = self._runtime.engine
        policy: Policy | None = None if engine is None else engine.policy
        texts = live_texts()[DEFAULT_LANGUAGE if policy is None else policy.of("language")]
        privacy = privacy_in(self._runtime)
        shown = status_of(filed, privacy)
        names = device_names_shown(policy, privacy)
        who = printable(asker_name(shown.client, shown.user, names) or texts["somebody"])
        url, rule = one_line(shown.url, _LONGEST_TOLD), one_line(f"{shown.rule} ({shown.list})", _LONGEST_TOLD)
        pairs = {"rule": rule, "reason": shown.words, "publisher": shown.publisher}
        lines = [
            texts["reports_mistake"].format(who=who, what=url),
            *(texts["pair"].format(name=texts[key], value=printable(value)) for key, value in pairs.items() if value),
            texts["pair"].format(name=texts["to_answer"], value=f"hushlist reports show {filed.id}"),
        ]
        about = {
            "id": shown.id,
            "url": url,
            "rule": one_line(shown.rule, _LONGEST_TOLD),
            "list": shown.list,
            "words": shown.words,
        }
        title = texts["reports_mistake"].format(who=who, what=shown.host)
        details: dict[str, object] = {"report": {**about, "digest": shown.digest}}
        return Notice(title, "\n".join(lines), details, filed.client, group=filed.in_group)


def _section(seen: str, action: str, hidden: Markup, message: str | None, texts: Mapping[str, str]) -> Markup:
    """The form, which a click opens; once it is taken, only that."""
    if message == _DONE:
        return element("section", element("p", texts[message], class_="word", role="status"), class_="ask")
    alert = None if message is None else texts[message]
    form = words_form(REPORT, "words", "report_send", seen, action, hidden, alert, texts)
    return element("section", element("details", element("summary", texts["report"]), form, open=alert is not None))
