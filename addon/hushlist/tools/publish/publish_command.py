"""``hushlist publish``: all that becomes of lists before a web server has them, in one step."""

from __future__ import annotations

import argparse
from datetime import UTC, datetime
from pathlib import Path

from hushlist.cli import common
from hushlist.cli.command_options import popular_domains
from hushlist.core.errors import SourceError
from hushlist.core.system.files import locked, reason_of, source_errors

#: seconds that another one who publishes in the same folder is waited for
_PATIENCE = 10.0


def add_to(commands: common.Commands) -> None:
    text = "look lists through, hide, compare, sign and publish them in a folder for a web server"
    epilog = (
        "Exit codes: 0 published, or nothing has changed; 1 a step failed, and the folder is as it was; "
        "2 wrong usage, or a plan that cannot be used."
    )
    parser = common.add_command(commands, "publish", publish, text, epilog)
    parser.add_argument("folder", type=Path, metavar="DIR", help="the folder, which is replaced as a whole")
    parser.add_argument("--plan", type=Path, required=True, metavar="FILE", help="which lists, how, and by whose key")
    parser.add_argument("--json", action="store_true", help="print the report as a JSON object")


def publish(arguments: argparse.Namespace) -> int:
    """Publish, and print the report."""
    from hushlist.tools.publish.release import Release, ReleaseError, published
    from hushlist.tools.publish.release_plan import read_plan
    from hushlist.tools.publish.sign_commands import secret_key

    folder: Path = arguments.folder.absolute()
    with source_errors(folder, "folder"):
        if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
            raise NotADirectoryError(None, "it is no folder", str(folder))
        folder.parent.mkdir(parents=True, exist_ok=True)
    plan = read_plan(arguments.plan, folder)
    release = Release(plan, folder, secret_key(plan.key), datetime.now(UTC), popular_domains(plan.popular))
    published(folder)
    why = ""
    try:
        lock = locked(folder.with_name(f".{folder.name}.lock"), _PATIENCE)
        with lock, common.shown_progress() as release.progress:
            release.publish()
    except SourceError as error:
        why = "; ".join(map(str, error.problems))
    except ReleaseError as error:
        why = str(error)
    except OSError as error:
        why = f"{error.filename or folder}: {reason_of(error)}"
    common.print_warnings(release.warnings)
    outcome = f"nothing is published: {why}" if why else "published" if release.is_new else "nothing has changed"
    if arguments.json:
        lists = [released.as_dict() for released in release.lists]
        is_published = not why and release.is_new
        common.print_json({"folder": str(folder), "published": is_published, "failed": why or None, "lists": lists})
    else:
        common.print_lines(map(str, release.lists))
        if not why:
            common.print_line(f"{folder}: {outcome}, signed with {release.key.public.name}")
    if why:
        common.complain(outcome)
    return common.FINDINGS if why else common.GOOD
