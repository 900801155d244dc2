"""What two visits of a page differ in."""

from typing import Any

from hushlist.tools.visit.signals import Signal, Visit, compare, rules_behind, saved
from unit.rows import each_row
from unit.tools.visit.samples import ADDRESS, request, visit

_STYLE, _OTHER = "block|none|Georgia|16px", "block|none|Times|16px"
_WORDS = {"river": 10, "stone": 10}
_PICTURE = {"address": "https://img.shop.example/1.png", "there": True, "ad": False, "area": 9000}
_FORM = {"inputs": 2, "secret": False, "address": "https://www.shop.example/order", "ad": False, "text": "Order"}
_FRAME = {"address": "https://pay.bank.example/checkout", "ad": False, "area": 9000}
_FILM = {"address": "https://media.shop.example/1.mp4", "there": True, "ad": False, "moves": False}
_ASK = {"path": "#ask", "share": 0.3, "consent": True, "blocker": False, "text": "We use cookies"}


def boxes(style: str = _STYLE, left: int = 0, gap: int = 100) -> dict[str, Any]:
    return {f"body>p:nth-of-type({n})": [left, n * gap, 600, 80, style] for n in range(10)}


def signal(signals: tuple[Signal, ...], name: str) -> float:
    return next((one.value for one in signals if one.name == name), 0.0)


@each_row(
    "name, without, with_list, value",
    [
        ("page-blocked", visit(), visit([request(ADDRESS, "document", stopped=True)]), 1.0),
        ("words", visit(content=_WORDS), visit(content={"river": 10}), 0.5),
        ("words", visit(content={"river": 5}), visit(), 0.0),  # too few to tell
        ("first-screen", visit(screen=0.5), visit(screen=0.1), 0.8),
        ("first-screen", visit(screen=0.01), visit(screen=0.0), 0.0),  # there was none before
        ("styles", visit(boxes=boxes()), visit(boxes=boxes(_OTHER)), 1.0),
        ("boxes", visit(boxes=boxes()), visit(boxes=boxes(left=40)), 1.0),
        ("boxes", visit(boxes=boxes()), visit(boxes=boxes(gap=90)), 0.0),  # only up
        ("overlaps", visit(boxes=boxes()), visit(boxes=boxes(gap=40)), 1.0),
        ("pictures", visit(pictures={"a": _PICTURE}), visit(pictures={"a": _PICTURE | {"there": False}}), 1.0),
        ("pictures", visit(pictures={"a": _PICTURE | {"ad": True}}), visit(), 0.0),
        ("videos", visit(videos={"v": _FILM}), visit(videos={"v": _FILM | {"there": False}}), 1.0),
        ("videos", visit(videos={"v": _FILM | {"ad": True}}), visit(), 0.0),
        ("videos", visit(frames={"f": _FRAME | {"address": "https://player.vimeo.com/video/1"}}), visit(), 1.0),
        ("vital-frames", visit(frames={"f": _FRAME}), visit(), 1.0),
        ("vital-frames", visit(frames={"f": _FRAME}), visit(frames={"f": _FRAME}), 0.0),
        (
            "vital-frames",  # it stands there, but shows the block page
            visit(frames={"f": _FRAME}),
            visit([request(_FRAME["address"], "iframe", stopped=True)], frames={"f": _FRAME}),
            1.0,
        ),
        ("frames", visit(frames={"f": _FRAME | {"address": "https://maps.example/embed"}}), visit(), 1.0),
        ("forms", visit(forms={"f": _FORM}), visit(forms={"f": _FORM | {"inputs": 1}}), 1.0),
        ("forms", visit(forms={"f": _FORM | {"text": "Get our newsletter"}}), visit(), 0.0),
        ("forms", visit(forms={"f": _FORM | {"text": "newsletter", "secret": True}}), visit(), 1.0),
        (
            "dead-controls",
            visit(listeners=[["#menu", "click", "https://www.shop.example/site.js"]]),
            visit(controls={"#menu": {"kind": "BUTTON", "disabled": False}}),
            1.0,
        ),
        (
            "dead-controls",  # who listened was itself stopped, and only counted
            visit(listeners=[["#menu", "click", "https://count.example/c.js"]]),
            visit(
                [request("https://count.example/c.js", stopped=True)],
                controls={"#menu": {"kind": "BUTTON", "disabled": False}},
            ),
            0.0,
        ),
        (
            "dead-controls",
            visit(controls={"#send": {"kind": "BUTTON", "disabled": False}}),
            visit(controls={"#send": {"kind": "BUTTON", "disabled": True}}),
            1.0,
        ),
        ("scripts", visit(), visit([request("https://cdn.shop.example/a.js", stopped=True)]), 1.0),
        ("scripts", visit(), visit([request("https://ads.example/a.js", stopped=True)]), 0.0),
        ("errors", visit(), visit(errors=[["x is not defined", ADDRESS]]), 1.0),
        ("errors", visit(errors=[["x", ""]]), visit(errors=[["x", ""]]), 0.0),
        ("spinners", visit(), visit(spinners=[["#wait", 4000]]), 1.0),
        ("spinners", visit(spinners=[["#wait", 4000]]), visit(spinners=[["#wait", 4000]]), 0.0),
        ("blocker-notices", visit(), visit(notices=["Turn off your ad blocker"]), 1.0),
        ("blocker-walls", visit(), visit(dialogs=[_ASK | {"blocker": True}]), 0.3),
        ("consent", visit(), visit(dialogs=[_ASK]), 0.3),
        ("consent", visit(dialogs=[_ASK]), visit(dialogs=[_ASK]), 0.0),
        ("locked", visit(), visit(locked=True), 1.0),
        ("locked", visit(long=800), visit(locked=True), 0.0),
    ],
)
def test_a_difference_is_seen(name: str, without: Visit, with_list: Visit, value: float) -> None:
    assert signal(compare(without, with_list), name) == value


def test_a_page_does_not_differ_from_itself() -> None:
    same = visit(boxes=boxes(), content=_WORDS, forms={"f": _FORM}, frames={"f": _FRAME}, dialogs=[_ASK])
    assert compare(same, same) == ()


def test_of_a_blocked_page_nothing_else_is_told() -> None:
    blocked = visit([request(ADDRESS, "document", stopped=True)])
    assert [one.name for one in compare(visit(content=_WORDS), blocked)] == ["page-blocked"]


def test_what_is_saved_leaves_out_what_was_stopped() -> None:
    tracker = request("https://count.example/p.gif", "image", octets=43)
    was = visit([request(ADDRESS, "document"), tracker], seconds=2.0)
    now = visit([request(ADDRESS, "document"), tracker | {"stopped": True, "octets": 0}], seconds=1.0)
    assert saved(was, now) == ((2, 1), (1043, 1000), (2.0, 1.0), (1, 0), (0, 0), (1, 0))


def test_rules_are_told_with_what_they_stopped() -> None:
    stopped = [request(f"https://ads.example/{n}.js", stopped=True) for n in range(2)]
    (rule,) = rules_behind(visit(stopped))
    assert (rule.place, len(rule.requests)) == ("/lists/ads.txt:3", 2)
