"""``hushlist service``: the filter that was tried becomes a service of systemd, with all that it has.

Each step says in words what it does, and all of them are said before the first one is done.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from importlib.metadata import distribution
from pathlib import Path
from platform import system
from typing import NamedTuple
from urllib.error import HTTPError
from urllib.parse import unquote, urlsplit
from urllib.request import ProxyHandler, build_opener

from hushlist import __version__
from hushlist.cli.common import (
    FINDINGS,
    GOOD,
    Commands,
    add_command,
    add_group,
    add_policy,
    checked,
    complain,
    complain_of,
    parse_number,
    print_line,
    remark,
)
from hushlist.core.errors import SourceError, number_of
from hushlist.core.policy import default_policy
from hushlist.core.policy.policy_file import Policy
from hushlist.core.policy.policy_reader import policy_at
from hushlist.core.system.files import replace_file
from hushlist.core.system.package_code import PACKAGE
from hushlist.core.system.platform import is_root
from hushlist.extensions.boot.belongings import (
    AREAS,
    POLICY,
    SERVICE,
    Belonging,
    Places,
    belongings_of,
    copy_file,
    files_elsewhere,
    places_of,
)

USER = "hushlist"
PROGRAM = Path("/opt/hushlist/.venv")
UNITS = ("hushlist.service", "hushlist-update.service", "hushlist-update.timer")
_UNIT_FOLDER, _OPTIONS = Path("/etc/systemd/system"), Path("/etc/default/hushlist")
_DROP_IN = Path("/etc/systemd/system/hushlist.service.d/policy.conf")
_LINK = Path("/usr/local/bin/hushlist")
_READY = "http://127.0.0.1:8081/readyz"
#: seconds that a start may take, as long as a list is compiled
_START = 120.0


class ServiceError(Exception):
    """Why there can be no service."""


class Step(NamedTuple):
    """What is done, for people, and what does it."""

    text: str
    run: Callable[[], object]


def add_to(commands: Commands) -> None:
    group = add_group(commands, "service", "start the filter with the machine, as a service of the system")
    text = "make a service of the filter that was tried, with its certificate, store, log and lists"
    more = (
        "What stands after -- goes to mitmdump. For systemd, and root; on Windows and macOS, it prints what to do. "
        "Exit codes: 0 the filter runs; 1 it does not; 2 it cannot be installed."
    )
    parser = add_command(group, "install", install, text, more)
    add_policy(parser)
    help_ = "mitmproxy's folder, with the certificate that devices trust (default: %(default)s)"
    parser.add_argument("--confdir", type=Path, default=Path("~/.mitmproxy"), metavar="FOLDER", help=help_)
    parser.add_argument("--port", type=checked(_port), default=8080, metavar="PORT", help="(default: %(default)s)")
    parser.add_argument("--dry-run", action="store_true", help="say each step, and do nothing")
    parser.add_argument(
        "--root",
        type=Path,
        default=Path("/"),
        metavar="FOLDER",
        help="the folder of another system, such as an image's: files are put there, and nothing is started",
    )
    parser.add_argument("options", nargs="*", metavar="OPTION", help="mitmdump's options, after --")
    parser = add_command(group, "remove", remove, "end the service, and remove it")
    parser.add_argument(
        "--purge",
        action="store_true",
        help="also its policy, certificate, store and log: devices need a new certificate",
    )
    parser.add_argument("--dry-run", action="store_true", help="say each step, and do nothing")
    add_command(
        group, "status", status, "say whether the service runs, and whether it is ready", "Exit codes: 0; 1 not."
    )


def _port(text: str) -> int:
    number = parse_number(text)
    if number > 0xFFFF:
        raise ValueError(f"{text}: a port is at most 65535")
    return number


# -- install -----------------------------------------------------------------------------------------------------------


def install(arguments: argparse.Namespace) -> int:
    if system() != "Linux":
        return _print_other(arguments.policy or default_policy(), arguments.port)
    if is_root() and (user := os.environ.get("SUDO_USER")):  # who has tried it
        os.environ["HOME"] = os.path.expanduser(f"~{user}")  # noqa: PTH111  of a name
    is_image = arguments.root != Path("/")
    try:
        before = places_of(arguments.policy or default_policy(), arguments.confdir)
        if before.policy == SERVICE.policy:  # what an earlier service has left is in its place
            before = SERVICE
        policy = policy_at(before.policy)
        if not arguments.dry_run and not is_image:
            _check_system(arguments.port)
        steps = [*_install_steps(policy, before, arguments)]
    except SourceError as error:
        return complain_of(error.problems)
    except (OSError, RuntimeError, ServiceError) as error:
        return complain(error)
    if (code := _do(steps, is_dry=arguments.dry_run)) != GOOD or arguments.dry_run or is_image:
        return code
    print_line("waiting until the filter is ready")
    return _wait_until_ready(time.monotonic() + _START)


def _check_system(port: int) -> None:
    """``ServiceError``: nothing was done, since it would not work."""
    if not Path("/run/systemd/system").is_dir():
        raise ServiceError("this system is not run by systemd: --dry-run says what to do")
    if not is_root():
        raise ServiceError("a service needs root: put sudo before it, and name the policy by --policy")
    with socket.socket() as probe:
        if probe.connect_ex(("127.0.0.1", port)) == 0:
            raise ServiceError(f"a program listens at port {port}: end the filter that you have tried")


def _install_steps(policy: Policy, before: Places, arguments: argparse.Namespace) -> Iterator[Step]:
    """All steps. ``ServiceError`` if a file of the policy cannot go along."""
    root: Path = arguments.root

    def inside(path: Path) -> Path:
        return root / path.relative_to("/")

    for path in files_elsewhere(policy, before):
        if not is_open_to_all(path):
            why = "the filter's user cannot read it: move it into the policy's folder, or a folder that all can enter"
            raise ServiceError(f"{path}: {why}")
    is_image = root != Path("/")
    if not is_image:
        yield Step(f"make the user {USER}, unless there is one", _make_user)
    program, steps = _program(is_image=is_image)
    yield from steps
    goals_of = ((each, inside(_goal(each, before))) for each in belongings_of(policy, before))
    places = {each: goal for each, goal in goals_of if goal != each.path}
    taken = [goal for goal in places.values() if os.path.lexists(goal)]
    if taken:
        raise ServiceError(f"{taken[0]} is there: hushlist service remove --purge removes what a service had")
    for area in AREAS:
        if goals := {each.path: goal for each, goal in places.items() if each.area == area}:
            text = f"copy {area}: {number_of(len(goals), 'file', 'files')} to {inside(SERVICE.folder_of(area))}"
            yield Step(text, partial(_copy, goals))
    is_edited = _is_edited(policy)
    if not is_image:
        text = f"give {SERVICE.state} and {SERVICE.cache} to {USER}, and let that user read {SERVICE.policy.parent}"
        yield Step(text + ", and write there, as administrators do" * is_edited, partial(give_to_user, policy))
    for name in UNITS:
        unit = unit_text(name, program, arguments.port)
        path = inside(_UNIT_FOLDER / name)
        yield Step(f"write {path}", partial(_write, path, unit))
    if is_edited:
        text = f"[Service]\nReadWritePaths={SERVICE.policy.parent}\n"
        yield Step(f"write {inside(_DROP_IN)}", lambda: _write(inside(_DROP_IN), text))
    if arguments.options:
        options = f"MITMDUMP_OPTIONS={shlex.join(arguments.options)}\n"
        yield Step(f"write {inside(_OPTIONS)}", lambda: _write(inside(_OPTIONS), options))
    if not os.path.lexists(inside(_LINK)):
        yield Step(f"make {inside(_LINK)}, so that all find the command", partial(_link, inside(_LINK), program))
    if not is_image:
        yield _command("systemctl", "daemon-reload")
        yield _command("systemctl", "enable", "--now", "hushlist.service", "hushlist-update.timer")


def _goal(thing: Belonging, before: Places) -> Path:
    """Where the service has a thing; the policy's file has another name there."""
    is_policy = thing.area == POLICY and thing.path == before.policy
    return SERVICE.policy if is_policy else SERVICE.path_of(thing.area, thing.name)


def unit_text(name: str, program: Path = PROGRAM, port: int = 8080) -> str:
    """A unit for the program of an environment, and a port."""
    text = (PACKAGE / "extensions" / "boot" / name).read_text(encoding="utf-8")
    return text.replace(str(PROGRAM), str(program)).replace("--listen-port 8080", f"--listen-port {port}")


def _program(*, is_image: bool) -> tuple[Path, list[Step]]:
    """The environment whose program the service runs, and what makes it.

    Raises:
        ServiceError: the Python that it would be of is in a folder of one user.
    """
    ours = Path(sys.prefix)
    # the program, the Python that its environment is of, and the checkout where that is not copied into it
    needed = (ours / "bin" / "hushlist", Path(sys.executable), PACKAGE / "__init__.py")
    if is_image or (sys.prefix != sys.base_prefix and all(map(is_open_to_all, needed))):
        return ours, []
    python = Path(getattr(sys, "_base_executable", sys.executable)).resolve()
    if not is_open_to_all(python):
        raise ServiceError(f"{python}: the filter's user cannot enter its folder: use a Python of the system")
    make = _command(str(python), "-m", "venv", str(PROGRAM))
    return PROGRAM, [make, _command(str(PROGRAM / "bin" / "pip"), "install", "--quiet", _source())]


def _source() -> str:
    """What pip installs: the checkout or wheel that this package is of, or its version.

    Spec: PEP 610
    """
    origin = distribution("hushlist").read_text("direct_url.json")
    if origin and (url := urlsplit(json.loads(origin)["url"])).scheme == "file":
        return unquote(url.path)
    return f"hushlist=={__version__}"


def is_open_to_all(path: Path) -> bool:
    """Whether every user can read a file, and enter the folders above it."""
    try:
        above = all(folder.stat().st_mode & 0o001 for folder in path.resolve().parents)
        return above and bool(path.stat().st_mode & 0o004)
    except OSError:
        return False


def _make_user() -> None:
    if subprocess.run(["id", USER], check=False, capture_output=True).returncode:  # noqa: S603, S607  the system's
        home = ("--home-dir", str(SERVICE.state), "--shell", "/usr/sbin/nologin")
        _run("useradd", "--system", "--user-group", "--no-create-home", *home, USER)


def _copy(goals: Mapping[Path, Path]) -> None:
    for path, goal in goals.items():
        copy_file(path, goal)


def give_to_user(policy: Policy) -> None:
    """Make the service's files its user's, and nobody else's; the policy stays root's, unless administrators edit it.

    Raises:
        ServiceError: there is no such user, or this one may not do that.
    """
    for folder in (SERVICE.state, SERVICE.cache):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder.chmod(0o700)
        _run("chown", "--recursive", f"{USER}:{USER}", str(folder))
    owner = USER if _is_edited(policy) else "root"
    _run("chown", "--recursive", f"{owner}:{USER}", str(SERVICE.policy.parent))
    _run("chmod", "--recursive", "u=rwX,g=rX,o=", str(SERVICE.policy.parent))


def take_from_user() -> None:
    """Close the service's folders to its user, who could lead what is written there elsewhere by a link.

    Raises:
        ServiceError: the service runs, or this user may not do that.
    """
    if _state() == "active":
        raise ServiceError("the service runs, and would go on with what it has: systemctl stop hushlist")
    for folder in (SERVICE.state, SERVICE.cache):
        if folder.exists():
            for link in (path for path in folder.rglob("*") if path.is_symlink()):
                raise ServiceError(f"{link} is a link: remove it")
            _run("chown", "--no-dereference", "--recursive", "root:root", str(folder))


def _is_edited(policy: Policy) -> bool:
    """Whether administrators, who sign in to the filter's page, may change the policy and its lists."""
    return "admin" in policy.values


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    replace_file(path, text.encode())
    path.chmod(0o644)


def _link(path: Path, program: Path) -> None:
    path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    path.symlink_to(program / "bin" / "hushlist")


def _command(*words: str) -> Step:
    return Step(shlex.join(words), lambda: _run(*words))


def _run(*words: str) -> None:
    done = subprocess.run(  # noqa: S603  the words of a step, and no shell
        words, stdin=subprocess.DEVNULL, check=False, capture_output=True, text=True, errors="replace"
    )
    if done.returncode:
        raise ServiceError(f"{shlex.join(words)}: {done.stderr.strip() or f'exit code {done.returncode}'}")


def _do(steps: Iterable[Step], *, is_dry: bool) -> int:
    for step in steps:
        print_line(step.text)
        if not is_dry:
            try:
                step.run()
            except (OSError, ServiceError) as error:
                return complain(error)
    return GOOD


# -- remove and status ------------------------------------------------------------------------------------------------


def remove(arguments: argparse.Namespace) -> int:
    if system() != "Linux":
        return complain("remove the task or agent that you have made, as hushlist service install has said")
    if not arguments.dry_run and not is_root():
        return complain("a service needs root: put sudo before it")
    written = [_UNIT_FOLDER / name for name in UNITS] + [_DROP_IN]
    steps = [_command("systemctl", "disable", "--now", *UNITS[:1], *UNITS[2:])] if written[0].exists() else []
    steps += [Step(f"remove {path}", path.unlink) for path in written if path.exists()]
    steps += [Step(f"remove {_LINK}", _LINK.unlink)] if _LINK.is_symlink() else []
    steps += [_command("systemctl", "daemon-reload")]
    kept = [SERVICE.policy.parent, SERVICE.state, SERVICE.cache]
    if arguments.purge:
        steps += [Step(f"remove {folder}", partial(shutil.rmtree, folder)) for folder in kept if folder.exists()]
        steps += [Step(f"remove {_OPTIONS}", _OPTIONS.unlink)] if _OPTIONS.exists() else []
    code = _do(steps, is_dry=arguments.dry_run)
    if code == GOOD and not arguments.purge:
        remark(f"{', '.join(map(str, kept))} stay, with the certificate that devices trust: --purge removes them")
    return code


def status(_: argparse.Namespace) -> int:
    if system() != "Linux":
        return complain("only a service of systemd is known")
    if not (_UNIT_FOLDER / UNITS[0]).exists():
        print_line("not installed")
        return FINDINGS
    state = _state()
    is_ready, text = _ready()
    print_line(f"service: {state}")
    print_line(f"{'ready' if is_ready else 'not ready'}: {text}")
    return GOOD if state == "active" and is_ready else FINDINGS


def _state() -> str:
    """What systemd says of the service, such as "active"; empty without systemd."""
    try:
        return subprocess.run(
            ["systemctl", "is-active", "hushlist.service"],  # noqa: S607  the system's
            check=False,
            capture_output=True,
            text=True,
        ).stdout.strip()
    except FileNotFoundError:
        return ""


def _ready() -> tuple[bool, str]:
    """Whether the filter can decide, and what it says of that."""
    try:
        with build_opener(ProxyHandler({})).open(_READY, timeout=5) as answer:
            return True, _short(answer.read(1 << 16))
    except HTTPError as error:
        return False, _short(error.read(1 << 16))
    except OSError as error:
        return False, f"{_READY}: {error}"


def _short(octets: bytes) -> str:
    return re.sub(r"\s+", " ", octets.decode("utf-8", "replace"))[:400]


def _wait_until_ready(end: float) -> int:
    while not (state := _ready())[0]:
        if time.monotonic() > end:
            complain(f"it is not ready: {state[1]}")
            complain("journalctl --unit hushlist says more")
            return FINDINGS
        time.sleep(0.5)
    print_line("the filter runs, and starts with the machine")
    return GOOD


# -- other systems ----------------------------------------------------------------------------------------------------


def _print_other(policy: Path, port: int) -> int:
    """What a person does on a system whose services this command does not make."""
    program = Path(sys.executable).with_name("mitmdump")
    options = [*("-s", str(PACKAGE / "proxy" / "script.py")), *("--set", f"hushlist_policy={policy.absolute()}")]
    options += ["--set", "hushlist_quiet=true", "--listen-port", str(port)]
    for line in windows_steps(program, options) if system() == "Windows" else macos_steps(program, options):
        print_line(line)
    return GOOD


def windows_steps(program: Path, options: list[str]) -> Iterator[str]:
    """Commands of PowerShell that make a task, which starts the filter when its user signs in."""
    words = subprocess.list2cmdline(options).replace("'", "''")
    yield "# in PowerShell, as the user whose certificate devices trust; nobody has tried it yet"
    yield f"$action = New-ScheduledTaskAction -Execute '{program}.exe' -Argument '{words}'"
    yield "$settings = New-ScheduledTaskSettingsSet -RestartCount 999 -RestartInterval (New-TimeSpan -Minutes 1) `"
    yield "    -ExecutionTimeLimit 0 -AllowStartIfOnBatteries -DontStopIfGoingOnBatteries"
    yield "$trigger = New-ScheduledTaskTrigger -AtLogOn"
    yield "Register-ScheduledTask Hushlist -Action $action -Settings $settings -Trigger $trigger"
    yield "Start-ScheduledTask Hushlist    # and to remove it: Unregister-ScheduledTask Hushlist"


def macos_steps(program: Path, options: list[str]) -> Iterator[str]:
    """Commands of a shell that make an agent of launchd, which starts the filter when its user signs in."""
    import plistlib

    agent = {"Label": "example.hushlist", "ProgramArguments": [str(program), *options]}
    text = plistlib.dumps({**agent, "RunAtLoad": True, "KeepAlive": True}, sort_keys=False).decode()
    path = "~/Library/LaunchAgents/example.hushlist.plist"
    yield "# in a terminal, as the user whose certificate devices trust; nobody has tried it yet"
    yield f"cat >{path} <<'END'"
    yield from text.splitlines()
    yield "END"
    yield f"launchctl bootstrap gui/$(id -u) {path}    # and to end it: launchctl bootout gui/$(id -u) {path}"
