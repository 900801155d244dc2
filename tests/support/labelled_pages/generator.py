"""Makes the labelled pages: as a recording that mitmproxy plays, a list, and a table of labels.

python -m support.labelled_pages.generator FOLDER        # in tests/
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple

from mitmproxy import http
from mitmproxy.io import FlowWriter
from mitmproxy.test.tflow import tflow

from support.labelled_pages import kept, tuned
from support.labelled_pages.builder import Page

#: pages of each template: as many are broken as are fine
_TUNED, _KEPT = 8, 8


class Part(StrEnum):
    TUNED = "tuned"
    TEST = "test"


class LabelledPage(NamedTuple):
    """A page, and what is known of it."""

    address: str
    part: Part
    template: str
    #: what breaks it; empty where it is fine
    breakage: str
    decoys: tuple[str, ...]
    rules: tuple[str, ...]
    #: address -> media type, octets
    loaded: dict[str, tuple[str, bytes]]

    @property
    def is_broken(self) -> bool:
        return bool(self.breakage)


def labelled_pages(part: Part | None = None) -> Iterator[LabelledPage]:
    """All pages, or those of a part; always the same."""
    number = 0
    for each, module, of_each in ((Part.TUNED, tuned, _TUNED), (Part.TEST, kept, _KEPT)):
        breakage = decoy = 0
        for template in module.TEMPLATES:
            for place in range(of_each):
                number += 1
                page = Page(number, template.__name__.strip("_"))
                template(page)
                chosen = [module.DECOYS[(decoy + step * 5) % len(module.DECOYS)] for step in range(2 + place % 2)]
                decoy += 1
                breaks = module.BREAKAGES[breakage % len(module.BREAKAGES)] if place % 2 else None
                breakage += place % 2
                for make in (*chosen, *([breaks] if breaks else [])):
                    make(page)
                page.load(page.host, f"/{page.template}/", "text/html", page.text())
                if part in (None, each):
                    yield LabelledPage(
                        *(page.address, each, page.template, breaks.__name__ if breaks else ""),
                        *(tuple(maker.__name__ for maker in chosen), tuple(page.rules), page.loaded),
                    )


def write(folder: Path, pages: Iterable[LabelledPage]) -> tuple[Path, Path, Path]:
    """The recording, the list and the labels of pages, as files in a folder."""
    pages = list(pages)
    recording, rules, labels = folder / "pages.flow", folder / "list.txt", folder / "labels.json"
    with recording.open("wb") as file:
        writer = FlowWriter(file)
        for page in pages:
            for address, (kind, octets) in page.loaded.items():
                writer.add(_flow(address, kind, octets))
    lines = dict.fromkeys(rule for page in pages for rule in page.rules)
    rules.write_text(
        "[Adblock Plus 2.0]\n! Title: Labelled pages\n" + "".join(f"{line}\n" for line in lines), encoding="utf-8"
    )
    entries = [page._replace(loaded={})._asdict() | {"is_broken": page.is_broken} for page in pages]
    labels.write_text(json.dumps(entries, indent=1), encoding="utf-8")
    return recording, rules, labels


def _flow(address: str, kind: str, octets: bytes) -> http.HTTPFlow:
    flow = tflow(resp=True)
    flow.request = http.Request.make("GET", address)
    kind = kind.partition(";")[0]
    fields = {"content-type": f"{kind}; charset=utf-8" if kind.startswith("text") else kind}
    flow.response = http.Response.make(200, octets, fields | {"access-control-allow-origin": "*"})
    return flow


if __name__ == "__main__":
    place = Path(sys.argv[1])
    place.mkdir(parents=True, exist_ok=True)
    made = list(labelled_pages(Part(sys.argv[2]) if len(sys.argv) > 2 else None))
    write(place, made)
    print(len(made), "pages,", sum(page.is_broken for page in made), "of them broken")
