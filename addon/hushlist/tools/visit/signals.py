"""What two visits of a page differ in, as numbers with their evidence: one signal for each way to break a page.

In: what a browser saw without the list and with it, and the requests of both. Out: signals. What they mean is in
``limits.yaml`` alone.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from hushlist.core.url.parts import to_bytes
from hushlist.tools.audit.sites import site_of_url
from hushlist.tools.audit.third_parties import role_of_frame


class Signal(NamedTuple):
    """One way in which a page differs: how much, and what shows it."""

    name: str
    value: float
    evidence: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Visit:
    """What one browser saw of a page, and what was asked meanwhile."""

    address: str
    seen: Mapping[str, Any]
    requests: list[dict[str, Any]] = field(default_factory=list)

    @property
    def stopped(self) -> list[dict[str, Any]]:
        return [request for request in self.requests if request["stopped"]]

    @property
    def page(self) -> dict[str, Any] | None:
        """The request for the page itself."""
        return next((request for request in self.requests if request["kind"] == "document"), None)


_NEWSLETTER = re.compile(r"newsletter|subscri|inbox|updates|abonn|mailing", re.IGNORECASE)
#: pixels that a box may move sideways
_NEAR = 8
#: evidence of each signal
_MOST = 10


def site_of(address: str) -> str:
    """The site that an address is of: a registrable domain, or the host where it has none.

    >>> site_of("https://img.shop.example/a.png"), site_of("http://192.0.2.1:8080/")
    ('shop.example', '192.0.2.1')
    """
    return site_of_url(to_bytes(address)) or ""


def compare(without: Visit, with_list: Visit) -> tuple[Signal, ...]:
    """The signals that differ from nothing; of a page that is blocked itself, nothing else is to be seen."""
    if (blocked := _page_blocked(without, with_list)).value:
        return (blocked,)
    signals = (make(without, with_list) for make in _SIGNALS)
    return tuple(
        signal._replace(value=round(signal.value, 3), evidence=signal.evidence[:_MOST])
        for signal in signals
        if signal.value > 0
    )


def _page_blocked(_: Visit, now: Visit) -> Signal:
    stopped = now.page is not None and now.page["stopped"]
    return Signal("page-blocked", float(stopped), (now.address,) if stopped else ())


def _words(was: Visit, now: Visit) -> Signal:
    before, after = was.seen["content"], now.seen["content"]
    total = sum(before.values())
    gone = {word: missing for word, count in before.items() if (missing := count - after.get(word, 0)) > 0}
    share = sum(gone.values()) / total if total >= 20 else 0.0
    telling = sorted(gone, key=lambda word: (len(word) < 4, word in after, -gone[word], word))
    return Signal("words", share, tuple(telling))


def _first_screen(was: Visit, now: Visit) -> Signal:
    before, after = was.seen["screen"], now.seen["screen"]
    return Signal("first-screen", max(0.0, 1 - after / before) if before >= 0.02 else 0.0)


def _boxes(was: Visit, now: Visit) -> Iterator[tuple[str, list[Any], list[Any]]]:
    for path, before in was.seen["boxes"].items():
        if (after := now.seen["boxes"].get(path)) is not None:
            yield path, before, after


def _styles(was: Visit, now: Visit) -> Signal:
    pairs = list(_boxes(was, now))
    changed = [path for path, before, after in pairs if before[4] != after[4]]
    return Signal("styles", len(changed) / len(pairs) if len(pairs) > 3 else 0.0, tuple(changed))


def _moved(was: Visit, now: Visit) -> Signal:
    pairs = list(_boxes(was, now))
    moved = [
        path
        for path, before, after in pairs
        if abs(before[0] - after[0]) > _NEAR or abs(before[2] - after[2]) > max(_NEAR, before[2] / 10)
    ]
    return Signal("boxes", len(moved) / len(pairs) if len(pairs) > 3 else 0.0, tuple(moved))


def _overlapping(boxes: Mapping[str, list[Any]]) -> set[str]:
    """The boxes with text that lie over another one that is not inside them, nor around them."""
    texts = sorted(
        ((box[1], box[1] + box[3], box[0], box[0] + box[2], path) for path, box in boxes.items() if _is_text(path))
    )[:400]
    over: set[str] = set()
    for place, (_, bottom, left, right, path) in enumerate(texts):
        for other_top, other_bottom, other_left, other_right, other in texts[place + 1 :]:
            if other_top >= bottom - 4:
                break
            is_beside = other_left >= right - 4 or left >= other_right - 4
            if not is_beside and not other.startswith(path) and min(bottom, other_bottom) - other_top > 4:
                over |= {path, other}
    return over


def _is_text(path: str) -> bool:
    return bool(re.search(r"(^|>)(p|h[1-3])(:|$)[^>]*$", path))


def _overlaps(was: Visit, now: Visit) -> Signal:
    texts = [path for path in now.seen["boxes"] if _is_text(path)]
    fresh = sorted(_overlapping(now.seen["boxes"]) - _overlapping(was.seen["boxes"]))
    return Signal("overlaps", len(fresh) / len(texts) if texts else 0.0, tuple(fresh))


def _pictures(was: Visit, now: Visit) -> Signal:
    before = [picture["address"] for picture in was.seen["pictures"].values() if picture["there"] and not picture["ad"]]
    after = {picture["address"] for picture in now.seen["pictures"].values() if picture["there"]}
    gone = [address for address in before if address not in after]
    return Signal("pictures", len(gone) / len(before) if before else 0.0, tuple(gone))


def _videos(was: Visit, now: Visit) -> Signal:
    gone = []
    for path, before in was.seen["videos"].items():
        after = now.seen["videos"].get(path)
        if before["there"] and not before["ad"] and (after is None or not after["there"]):
            gone.append(before["address"] or path)
    return _counted("videos", [*gone, *_gone_frames(was, now, "videos")])


def _counted(name: str, evidence: list[str]) -> Signal:
    return Signal(name, len(evidence), tuple(evidence))


def _gone_frames(was: Visit, now: Visit, signal: str) -> list[str]:
    """The addresses of frames for that signal that are there no more, or show a block page, advertising left out."""
    stopped = {request["url"] for request in now.stopped}
    there = {frame["address"] for frame in now.seen["frames"].values()} - stopped
    return [
        frame["address"]
        for frame in was.seen["frames"].values()
        if not frame["ad"] and frame["address"] and frame["address"] not in there
        if (role := role_of_frame(frame["address"])) and role.signal == signal
    ]


def _frames(was: Visit, now: Visit) -> Signal:
    return _counted("frames", _gone_frames(was, now, "frames"))


def _vital_frames(was: Visit, now: Visit) -> Signal:
    return _counted("vital-frames", _gone_frames(was, now, "vital-frames"))


def _forms(was: Visit, now: Visit) -> Signal:
    lost = []
    for path, before in was.seen["forms"].items():
        after = now.seen["forms"].get(path)
        is_newsletter = _NEWSLETTER.search(before["text"]) and before["inputs"] <= 3 and not before["secret"]
        is_meant = before["inputs"] and not before["ad"] and not is_newsletter
        if is_meant and (after is None or after["inputs"] < before["inputs"]):
            lost.append(before["address"] or path)
    return _counted("forms", lost)


def _dead_controls(was: Visit, now: Visit) -> Signal:
    """Only what still stands there, and what a script that was not stopped had listened to."""
    stopped = {request["url"] for request in now.stopped}
    listening = {tuple(listener) for listener in now.seen["listeners"]}
    dead = []
    for path, kind, script in was.seen["listeners"]:
        is_there = path in now.seen["controls"] or path in now.seen["forms"]
        if is_there and (path, kind, script) not in listening and script not in stopped:
            dead.append(path)
    dead += [
        path
        for path, control in was.seen["controls"].items()
        if not control["disabled"] and now.seen["controls"].get(path, control)["disabled"]
    ]
    dead = list(dict.fromkeys(dead))
    return _counted("dead-controls", dead)


def _scripts(_: Visit, now: Visit) -> Signal:
    site = site_of(now.address)
    stopped = [
        request["url"]
        for request in now.stopped
        if request["kind"] in ("script", "style") and site_of(request["url"]) == site
    ]
    return _counted("scripts", stopped)


def _errors(was: Visit, now: Visit) -> Signal:
    before = {message for message, _ in was.seen["errors"]}
    fresh = [
        f"{message} ({where})" if where else message for message, where in now.seen["errors"] if message not in before
    ]
    return _counted("errors", fresh)


def _spinners(was: Visit, now: Visit) -> Signal:
    before = {path for path, _ in was.seen["spinners"]}
    fresh = [path for path, area in now.seen["spinners"] if path not in before and area >= 100]
    return _counted("spinners", fresh)


def _notices(was: Visit, now: Visit) -> Signal:
    fresh = [text for text in now.seen["notices"] if text not in was.seen["notices"]]
    return _counted("blocker-notices", fresh)


def _walls(was: Visit, now: Visit) -> Signal:
    return _dialogs("blocker-walls", was, now, lambda dialog: bool(dialog["blocker"]))


def _consent(was: Visit, now: Visit) -> Signal:
    return _dialogs("consent", was, now, lambda dialog: dialog["consent"] and not dialog["blocker"])


def _dialogs(name: str, was: Visit, now: Visit, is_meant: Callable[[Any], bool]) -> Signal:
    before = {dialog["path"] for dialog in was.seen["dialogs"] if is_meant(dialog)}
    fresh = [dialog for dialog in now.seen["dialogs"] if is_meant(dialog) and dialog["path"] not in before]
    share = max((dialog["share"] for dialog in fresh), default=0.0)
    return Signal(name, share, tuple(dialog["text"] for dialog in fresh))


def _locked(was: Visit, now: Visit) -> Signal:
    is_locked = now.seen["locked"] and not was.seen["locked"] and was.seen["long"] > was.seen["height"] * 1.1
    return Signal("locked", float(is_locked))


_SIGNALS = (
    *(_words, _first_screen, _styles, _moved, _overlaps, _pictures, _videos, _frames, _vital_frames),
    *(_forms, _dead_controls, _scripts, _errors, _spinners, _notices, _walls, _consent, _locked),
)


# -- what it saved -----------------------------------------------------------------------------------------------------


class Saved(NamedTuple):
    """What a list saves on a page: without it, and with it."""

    requests: tuple[int, int]
    octets: tuple[int, int]
    seconds: tuple[float, float]
    third_parties: tuple[int, int]
    cookies: tuple[int, int]
    trackers: tuple[int, int]


def saved(without: Visit, with_list: Visit) -> Saved:
    """What was asked for, and arrived. Trackers are other sites that set cookies, or get requests that show nothing."""
    was, now = _figures(without), _figures(with_list)
    return Saved(*zip(was, now, strict=True))  # type: ignore[arg-type]  # the fields are in this order


def _figures(visit: Visit) -> tuple[int, int, float, int, int, int]:
    passed = [request for request in visit.requests if not request["stopped"]]
    site = site_of(visit.address)
    third = [request for request in passed if site_of(request["url"]) != site]
    trackers = {site_of(request["url"]) for request in third if _tracks(request)}
    return (
        len(passed),
        sum(request["octets"] for request in passed),
        float(visit.seen["seconds"]),
        len({site_of(request["url"]) for request in third}),
        visit.seen["cookies"] + sum(request["cookies"] for request in passed),
        len(trackers),
    )


def _tracks(request: Mapping[str, Any]) -> bool:
    shows_nothing = request["kind"] in ("image", "empty") and request["octets"] < 100
    return bool(request["cookies"]) or shows_nothing


class RuleUse(NamedTuple):
    """A rule that stopped something on a page, and what."""

    source: str
    line: int
    #: as it is written in its list, or what it says where that cannot be read
    text: str
    #: what an allow rule of Hushlist's own would have to say
    expression: str
    requests: tuple[str, ...]

    @property
    def place(self) -> str:
        return f"{self.source}:{self.line}"


def rules_behind(visit: Visit) -> tuple[RuleUse, ...]:
    """The rules that stopped something, those with the most requests first."""
    rules: dict[tuple[str, int], RuleUse] = {}
    for request in visit.stopped:
        for rule in request["rules"]:
            key = rule["source"], rule["line"] or 0
            use = rules.setdefault(key, RuleUse(*key, rule["rule"], rule["rule"], ()))
            rules[key] = use._replace(requests=(*use.requests, request["url"]))
    return tuple(sorted(rules.values(), key=lambda use: (-len(use.requests), use.source, use.line)))
