"""The peers: how each is called, and which versions are here."""

from __future__ import annotations

import importlib
import re
import shutil
import subprocess
from collections.abc import Callable, Iterable, Iterator
from importlib.metadata import PackageNotFoundError, version
from itertools import repeat
from pathlib import Path

from timing import first_and_again
from workbench import Skipped

#: neither page nor kind of a request: the least work that adblock-rust can have with it
NO_PAGE, ANY_KIND = "", "other"

#: name and how it tells its version
PROGRAMS = {
    "squidGuard": ("squidGuard", "-v"),
    "nginx": ("nginx", "-v"),
    "wrk": ("wrk", "-v"),
}
PACKAGES = ("adblock", "braveblock", "gglsbl", "mitmproxy")


def versions() -> Iterator[tuple[str, str]]:
    """Every peer with its version."""
    for package in PACKAGES:
        try:
            yield package, version(package)
        except PackageNotFoundError:
            yield package, "not installed"
    for name, command in PROGRAMS.items():
        if shutil.which(command[0]):
            told = subprocess.run(command, capture_output=True, text=True)
            number = re.search(r"\d+\.\d+(?:\.\d+)?", told.stdout + told.stderr)
            yield name, number[0] if number else "?"
        else:
            yield name, "not installed"


def need_package(name: str) -> None:
    """Raises: Skipped if it cannot be imported."""
    try:
        importlib.import_module(name)
    except ImportError as error:
        raise Skipped(f"the package {name} is not there: {error}") from error


def need_programs(*names: str) -> None:
    """Raises: Skipped if one cannot be found."""
    if absent := [name for name in names if not shutil.which(name)]:
        raise Skipped(f"not installed: {', '.join(absent)}")


# -- adblock-rust, by each of its two packages -------------------------------------------------------------------


def load_adblock(filters: Path):
    """An engine of the package adblock with the filters of a file, a line each."""
    import adblock

    rules = adblock.FilterSet()
    rules.add_filters(filters.read_text().splitlines(), format="standard")
    return adblock.Engine(rules)


def time_filters(lists: Iterable[str], asked: Iterable[tuple[bytes, bytes, str]]) -> tuple[float, float]:
    """Seconds of processor time for one request, the first time and again, by the lists that are given as texts."""
    import adblock

    rules = adblock.FilterSet()
    for text in lists:
        rules.add_filter_list(text)
    check = adblock.Engine(rules).check_network_urls
    rows = [(url.decode("ascii", "replace"), page.decode("utf-8", "replace"), kind) for url, page, kind in asked]
    return first_and_again(check, rows)


def load_braveblock(filters: Path):
    """An engine of the package braveblock with the filters of a file, a line each, and none of its own."""
    import braveblock

    rules = filters.read_text().splitlines()
    return braveblock.Adblocker(rules=rules, include_easylist=False, include_easyprivacy=False)


def adblock_arguments(urls: list[bytes]) -> tuple[object, ...]:
    """Columns of arguments for ``check_network_urls`` of either package."""
    return [url.decode() for url in urls], repeat(NO_PAGE), repeat(ANY_KIND)


# -- gglsbl ------------------------------------------------------------------------------------------------------


def gglsbl_hashes() -> Callable[[bytes], object]:
    """What makes the hashes of a URL's expressions, as its look-ups do."""
    from gglsbl.protocol import URL

    def hashes(url: bytes) -> object:
        try:
            return list(URL(url).hashes)
        except Exception:  # what it cannot read it need not hash
            return ()

    return hashes


# -- squidGuard --------------------------------------------------------------------------------------------------


def configure_squidguard(home: Path, *lists: Path) -> Path:
    """A configuration that blocks what each of some folders within ``home`` names in ``domains`` and ``urls``."""
    logs = home / "log"
    logs.mkdir(exist_ok=True)
    dests = ""
    for number, folder in enumerate(lists):
        files = [(kind, folder / f"{kind}s") for kind in ("domain", "url")]
        named = "".join(f"  {kind}list {file.relative_to(home)}\n" for kind, file in files if file.is_file())
        dests += f"dest bench{number} {{\n{named}}}\n"
    blocked = " ".join(f"!bench{number}" for number in range(len(lists)))
    configuration = home / "squidGuard.conf"
    configuration.write_text(
        f"dbhome {home}\nlogdir {logs}\n{dests}"
        f"acl {{\n  default {{\n    pass {blocked} all\n    redirect http://blocked.example/\n  }}\n}}\n"
    )
    return configuration


def squidguard_compile_command(configuration: Path) -> list[str]:
    return ["squidGuard", "-c", str(configuration), "-C", "all"]


def squidguard_helper_command(configuration: Path) -> list[str]:
    return ["squidGuard", "-c", str(configuration)]
