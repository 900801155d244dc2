"""``hushlist backup`` and ``restore``: all that an installation has, in one file."""

from __future__ import annotations

import argparse
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory

from hushlist.cli.common import GOOD, Commands, add_command, add_policy, complain, complain_of, print_line, remark
from hushlist.core.errors import SourceError, number_of
from hushlist.core.policy import default_policy
from hushlist.core.policy.policy_reader import policy_at
from hushlist.core.system.files import config_folder
from hushlist.extensions.boot.backup import BackupError, read_backup, write_backup
from hushlist.extensions.boot.belongings import SERVICE, belongings_of, files_elsewhere, places_of, put_back
from hushlist.extensions.boot.service_command import ServiceError, give_to_user, take_from_user


def add_to(commands: Commands) -> None:
    text = "write policy, lists, store, log, keys and certificate into one file"
    more = "The file has the key of the certificate that devices trust: keep it as a secret. A proxy may run meanwhile."
    parser = add_command(commands, "backup", backup, text, more)
    add_policy(parser)
    _add_confdir(parser)
    parser.add_argument("--service", action="store_true", help="what the service has, not what this user has")
    parser.add_argument("--without-log", action="store_true", help="leave the decision log out")
    parser.add_argument("file", type=Path, metavar="FILE", help="a new file, such as hushlist.tar.gz")
    text = "put back what a backup has; what is there is kept beside it"
    parser = add_command(commands, "restore", restore, text, "End the proxy first: it would go on with what it has.")
    _add_confdir(parser)
    parser.add_argument("--service", action="store_true", help="to where the service has it")
    parser.add_argument(
        "--policy", type=Path, metavar="FILE", help="where the policy goes (default: that of the first start)"
    )
    parser.add_argument("--force", action="store_true", help="also where there is something: it gets the end .before")
    parser.add_argument("--dry-run", action="store_true", help="say what goes where, and change nothing")
    parser.add_argument("file", type=Path, metavar="FILE", help="a backup")


def _add_confdir(parser: argparse.ArgumentParser) -> None:
    help_ = "mitmproxy's folder, with its certificate authority (default: %(default)s)"
    parser.add_argument("--confdir", type=Path, default=Path("~/.mitmproxy"), metavar="FOLDER", help=help_)


def backup(arguments: argparse.Namespace) -> int:
    try:
        places = SERVICE if arguments.service else places_of(arguments.policy or default_policy(), arguments.confdir)
        policy = policy_at(places.policy)
        if arguments.file.exists():
            return complain(f"{arguments.file}: it is there already")
        belongings = [*belongings_of(policy, places, with_log=not arguments.without_log)]
        things = write_backup(arguments.file, belongings, places.policy.name)
    except SourceError as error:
        return complain_of(error.problems)
    except (OSError, RuntimeError) as error:
        return complain(error)
    for path in files_elsewhere(policy, places):
        remark(f"{path} is not in it: it is outside of the policy's folder")
    for area, number in Counter(thing.area for thing in things).items():
        print_line(f"{area}: {number_of(number, 'file', 'files')}")
    return GOOD


def restore(arguments: argparse.Namespace) -> int:
    try:
        with TemporaryDirectory(prefix="hushlist-") as folder:
            name, things = read_backup(arguments.file, Path(folder))
            policy = arguments.policy or config_folder() / name
            places = SERVICE if arguments.service else places_of(policy, arguments.confdir)
            goals = [
                (source, places.policy if (thing.area, str(thing.name)) == ("policy", name) else path)
                for thing, source in things
                for path in [places.path_of(thing.area, thing.name)]
            ]
            policy_at(Path(folder, "policy", name))  # what cannot be used replaces nothing
            if arguments.service and not arguments.dry_run:
                take_from_user()
            taken = [goal for _, goal in goals if goal.exists()]
            if taken and not arguments.force and not arguments.dry_run:
                for goal in taken[:5]:
                    complain(f"{goal} is there")
                number = number_of(len(taken), "file", "files")
                return complain(f"{number} would be replaced: use --force to keep them beside")
            for source, goal in goals:
                print_line(goal)
                if not arguments.dry_run:
                    put_back(source, goal)
            if arguments.service and not arguments.dry_run:
                give_to_user(policy_at(places.policy))
    except BackupError as error:
        return complain(f"{arguments.file}: {error}")
    except SourceError as error:
        return complain_of(error.problems)
    except (OSError, RuntimeError, ServiceError) as error:
        return complain(error)
    return GOOD
