"""Visits pages on a cluster of Dask, with lists and without, and makes one report of them.

    pip install -e '.[partitions,visit]'
    python examples/visit_partitions.py --list my-list.txt --html report.html https://shop.example/ https://news.example/

As it stands it starts a cluster on this machine, a process for each core. With --scheduler it uses one that runs, on
whose machines are Hushlist, Chromium and its ChromeDriver; lists and folder have the same paths there, as on a shared
volume. The folder takes recordings, results and pictures, and a run that was interrupted goes on from it.

Some pages are a partition, since each partition starts its browsers anew.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from dask.distributed import Client, as_completed

from hushlist.tools.visit.page_verdict import Verdict
from hushlist.tools.visit.visit_command import formats_of
from hushlist.tools.visit.visit_job import report_of, visit_partition
from hushlist.tools.visit.visit_page import html_page
from hushlist.tools.visit.visit_text import counts_of, page_text, report_text
from hushlist.tools.visit.visitor import PageResult, VisitOptions

#: pages of a partition
SIZE = 8


def main() -> int:
    """0, or 1 where a page is broken, or 2 where one could not be visited."""
    parser = argparse.ArgumentParser(description="visit pages on a cluster of Dask")
    parser.add_argument("pages", nargs="+", metavar="URL")
    parser.add_argument("--list", type=Path, action="append", required=True, dest="lists", metavar="FILE")
    parser.add_argument("--recording", type=Path, metavar="FILE", help="flows of mitmproxy with all pages")
    parser.add_argument("--folder", type=Path, default=Path("visit"), metavar="FOLDER")
    parser.add_argument("--scheduler", metavar="ADDRESS", help="of a cluster, such as tcp://10.0.0.1:8786")
    parser.add_argument("--html", type=Path, metavar="FILE", help="write the report there, with pictures")
    arguments = parser.parse_args()
    lists = tuple((path.resolve(), form) for path, form in formats_of(arguments.lists))
    recording = arguments.recording and arguments.recording.resolve()
    options = VisitOptions(lists, folder=arguments.folder.resolve(), recording=recording)
    partitions = [arguments.pages[place : place + SIZE] for place in range(0, len(arguments.pages), SIZE)]

    begun, pages = time.monotonic(), list[PageResult]()
    local = {} if arguments.scheduler else {"threads_per_worker": 1, "dashboard_address": None}
    with Client(arguments.scheduler, **local) as client:
        visits = [client.submit(visit_partition, options, partition, resumes=True) for partition in partitions]
        for visit in as_completed(visits):
            pages += visit.result()
            print(f"{len(pages)} of {len(arguments.pages)} pages", file=sys.stderr)

    names = [str(path) for path in arguments.lists]
    report = report_of(pages, names, options.browser, [], time.monotonic() - begun)
    print("\n".join(line for page in report.pages for line in page_text(page)))
    print("\n".join(report_text(report)))
    if arguments.html:
        arguments.html.write_text(html_page(report, options.folder), "utf-8")
    return 2 if any(page.failed for page in pages) else int(bool(counts_of(report)[Verdict.BROKEN]))


if __name__ == "__main__":
    sys.exit(main())
