"""A trace shows every step from a URL to its decision."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import datetime
from itertools import islice

from hushlist.core.decide.decision import Decision
from hushlist.core.decide.effective_policy import EffectivePolicy
from hushlist.core.decide.engine import Engine
from hushlist.core.decide.readings import DEEPEST
from hushlist.core.errors import UrlError
from hushlist.core.match.expressions import expressions, full_hash
from hushlist.core.match.rule import Action
from hushlist.core.policy.groups import Client
from hushlist.core.url.parts import Parts
from hushlist.core.url.path_interpretations import FormBudget
from hushlist.core.url.request import (
    Request,
    StatedContext,
    canonical_forms,
    cut,
    request_of,
    target_forms,
    without_userinfo,
)
from hushlist.core.url.safebrowsing import SAFEBROWSING

#: other names of what is asked for that are shown
_MOST_NAMES = 92


@dataclass(frozen=True, slots=True)
class Form:
    """A canonical URL, and the expressions that the engine looks up for it."""

    url: bytes
    #: expression and its SHA-256, the most specific first
    expressions: tuple[tuple[bytes, bytes], ...]
    #: how the request leads to it, for people; empty for its own URL
    via: str = ""

    def as_dict(self) -> dict[str, object]:
        """Plain types, as JSON needs them."""
        return {
            "url": _text(self.url),
            "expressions": [
                {"expression": _text(expression), "sha256": digest.hex()} for expression, digest in self.expressions
            ],
            **({"via": self.via} if self.via else {}),
        }


@dataclass(frozen=True, slots=True)
class LayerAsked:
    """A layer that the engine looked at."""

    name: str
    #: how many rules it has; ``None`` for the policy's default action
    rules: int | None
    #: how many of them fit
    fit: int
    decides: bool


@dataclass(frozen=True, slots=True)
class Trace:
    """The steps of one decision."""

    url: bytes
    #: canonicalization steps that changed something: name, and the URL after it
    steps: tuple[tuple[str, bytes], ...]
    #: every canonical form that the URL may have, then other names of what it asks for, and the addresses inside it;
    #: empty if it cannot be read
    forms: tuple[Form, ...]
    decision: Decision
    group: str
    mode: str
    #: when the group's policy changes, in its time zone
    until: datetime | None
    #: in order of precedence, up to the one that decided
    layers: tuple[LayerAsked, ...]

    def as_dict(self) -> dict[str, object]:
        """Plain types, as JSON needs them."""
        return {
            "url": _text(self.url),
            "steps": [{"name": name, "url": _text(url)} for name, url in self.steps],
            "forms": [form.as_dict() for form in self.forms],
            "decision": self.decision.as_dict(),
            "group": self.group,
            "mode": self.mode,
            "until": None if self.until is None else self.until.isoformat(),
            "layers": [asdict(layer) for layer in self.layers],
        }


def trace(engine: Engine, url: bytes, moment: datetime, client: Client, context: StatedContext | None = None) -> Trace:
    """Decide a URL, and show how; ``moment`` has a time zone. Raises ``UrlError`` if it cannot be read at all."""
    try:
        request = request_of(url, context)
    except UrlError as error:
        raise UrlError(without_userinfo(url), error.reason) from None
    decision = engine.decide(request, moment, client)
    is_read = request.fault is None and decision.fault is None
    changes = SAFEBROWSING.changes(url) if request.fault is None else ()
    forms = tuple(_forms(engine, request, moment, client)) if is_read else ()
    view = engine.view(client, moment)
    return Trace(
        url=cut(without_userinfo(url)),
        steps=tuple((change.step, without_userinfo(change.after)) for change in changes),
        forms=forms,
        decision=decision if is_read else decision._replace(canonical=without_userinfo(decision.url)),
        group=view.group.name,
        mode=view.group.settings.mode,
        until=None if view.until is None else view.until.astimezone(engine.policy.zone),
        layers=tuple(_layers(engine, view, decision)),
    )


def _forms(engine: Engine, request: Request, moment: datetime, client: Client) -> Iterator[Form]:
    forms = canonical_forms(request, request.hosts[0])
    yield from map(_form, forms)
    names = (name for form in forms for name in _names(engine, form, request.target))
    for name in dict.fromkeys(islice(names, _MOST_NAMES)):
        yield _form(name, "another name")
    for carriers, inner in _inside(engine, request, moment, client):
        way = " inside ".join(map(_text, reversed(carriers)))
        with suppress(UrlError):  # the decision says why it cannot be read
            yield from (_form(form, f"inside {way}") for form in canonical_forms(inner, inner.hosts[0]))


def _names(engine: Engine, form: Parts, target: bytes) -> Iterator[Parts]:
    """Other names of what a form of a target asks for, whether or not a rule fits them."""
    for reading in engine.readings:
        if (reader := reading.of_host(form.host or b"")) is not None:
            yield from reader.names(form, target)


def _inside(
    engine: Engine, request: Request, moment: datetime, client: Client
) -> Iterator[tuple[tuple[bytes, ...], Request]]:
    """Every address inside a request by one host, after the canonical hosts that carry it, the outermost first."""
    known_hosts, budget = engine.hosts.of_group(client, moment).by_name, FormBudget()
    pending: list[tuple[tuple[bytes, ...], Request]] = [((), request)]
    for carriers, carried in pending:
        if carriers:
            yield carriers, carried
        try:
            host = known_hosts[carried.hosts[0]]
        except UrlError:
            continue
        if host.readers and len(carriers) < DEEPEST:
            forms = target_forms(carried.scheme, carried.target, 1, FormBudget()).forms
            addresses = (inner.request for reader in host.readers for inner in reader.inner(carried, forms))
            pending += [((*carriers, host.canonical), inner) for inner in addresses if budget.takes_inner()]


def _form(form: Parts, via: str = "") -> Form:
    return Form(form.join(), tuple((expression, full_hash(expression)) for expression in expressions(form)), via)


def _layers(engine: Engine, view: EffectivePolicy, decision: Decision) -> Iterator[LayerAsked]:
    """The layers in order of precedence, up to the one that decided."""
    checks = {layer.name: len(layer.checks) for layer in engine.policy.layers}
    winner = None if decision.action is Action.TAG else decision.winner
    for name in view.layers:
        fit = sum(match.rule.terms.layer == name for match in decision.matches)
        decides = winner is not None and winner.rule.terms.layer == name
        if name in checks:
            yield LayerAsked(name, checks[name] + engine.index.directory.rules.get(name, 0), fit, decides)
        elif decides:
            yield LayerAsked(name, None, fit, decides)
        if decides:
            return


def _text(octets: bytes) -> str:
    return octets.decode("utf-8", "backslashreplace")
