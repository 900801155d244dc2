"""The script that has the filter is read again when its file changes, and what was in force stays until that succeeds.

mitmproxy itself unloads a script before it loads it anew: if that fails, or the file is gone for a moment, it serves on
without. So its watch is ended, and this one is in its place: the new file is run first, and its addons are called from
the moment on in which all of them can be. The filter's own state (policy, log, what is open) goes on in any case: the
``Hushlist`` of the new file takes it over, so that nothing passes undecided between the two. A script with the filter
cannot be taken out of the option ``scripts`` while mitmproxy runs.

It also looks whether the package on the disk is still the one that runs.
"""

from __future__ import annotations

import asyncio
import sys
from contextlib import suppress
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from time import monotonic
from types import ModuleType
from typing import Any, Protocol, Self

from mitmproxy import addonmanager, ctx, exceptions, hooks
from mitmproxy.addons.script import Script

from hushlist.core.errors import logger_of, printable
from hushlist.core.system.files import fingerprint, read_regular, reason_of
from hushlist.core.system.package_code import CodeOnDisk, keep_rooms
from hushlist.proxy.languages import live_texts
from hushlist.proxy.runtime import Runtime

logger = logger_of(__name__)

#: seconds between two looks at the script, and between two at the package, and two tries of what cannot be loaded
_INTERVAL, BETWEEN = 1.0, 10.0
#: octets of a script
_LONGEST = 1 << 24
#: what a proxy runs of the package
_ROOMS = frozenset({"core", "extensions", "proxy"})
#: what ``/readyz`` says, which names no file
GONE, BROKEN = "the script is gone from the disk", "the script on the disk cannot be loaded"
STAYS = "what was loaded before stays in force"


class Filter(Protocol):
    """``Hushlist``, as far as it matters here."""

    name: str

    def take_over(self, before: Self) -> None:
        """Go on with what another one has, which is not asked any more."""


class _ScriptError(Exception):
    """A script cannot be taken into use; ``may_pass``: it may be otherwise although the script stays as it is."""

    def __init__(self, why: str, *, may_pass: bool = False) -> None:
        super().__init__(why)
        self.may_pass = may_pass


class ScriptWatch:
    """Watches the script of one filter; only the event loop uses it."""

    def __init__(self, runtime: Runtime, kind: type[Any]) -> None:
        """``kind``: ``Hushlist``."""
        self._runtime, self._kind = runtime, kind
        self._script: Script | None = None
        self._task: asyncio.Task[None] | None = None
        self._octets = b""
        self._seen: object = None
        #: when it was last tried what may pass, and may be tried again
        self._tried, self._may_pass = 0.0, False
        self._fault: str | None = None
        self._keeper = _Keeper(self)

    @property
    def path(self) -> str | None:
        """The script as the option ``scripts`` names it; ``None`` if no script has the filter."""
        return None if self._script is None else str(self._script.path)

    def begin(self, hushlist: Filter) -> None:
        """Watch in mitmproxy's place; called in the event loop, behind the loading of the script."""
        addons = ctx.master.addons
        script = next(
            (
                addon
                for addon in addonmanager.traverse(addons.chain)
                if isinstance(addon, Script) and _has(addon, hushlist)
            ),
            None,
        )
        if script is None or script is self._script:
            return  # another program has the filter, or it is watched
        self._script = script
        if script.reloadtask is not None:
            script.reloadtask.cancel()
        path = Path(script.fullpath)
        with suppress(OSError, ValueError):
            self._octets, self._seen = read_regular(path, _LONGEST), fingerprint(path)
        addons.chain = [self._keeper, *addons.chain]
        watching = self._watch(script, hushlist)
        self._task = script.reloadtask = asyncio.get_running_loop().create_task(watching, name="hushlist: script")

    def close(self) -> None:
        """End; called when the filter ends."""
        addons = ctx.master.addons
        addons.chain = [addon for addon in addons.chain if addon is not self._keeper]
        if self._task is not None:
            self._task.cancel()
        self._script = self._task = None

    async def _watch(self, script: Script, hushlist: Filter) -> None:
        code, looked = await asyncio.to_thread(_prepare), 0.0
        while True:
            await asyncio.sleep(_INTERVAL)
            try:
                hushlist = await self.look(script, hushlist)
                if monotonic() - looked >= BETWEEN:
                    self._note_code(await asyncio.to_thread(code.is_loaded))
                    looked = monotonic()
            except Exception:  # after any error, it goes on
                logger.exception("hushlist: the script cannot be watched")
                await asyncio.sleep(BETWEEN)

    def _note_code(self, is_loaded: bool) -> None:
        if self._runtime.has_other_code is is_loaded:
            if not is_loaded:
                text = "hushlist: the package on the disk is gone, or is another than the one that runs: %s until %s"
                logger.warning(text, STAYS, "mitmproxy is started again")
            else:
                logger.info("hushlist: the package on the disk is the one that runs, again")
        self._runtime.has_other_code = not is_loaded

    async def look(self, script: Script, hushlist: Filter) -> Filter:
        """Take the file into use if it has changed; returns the filter that is asked from then on."""
        path = Path(script.fullpath)
        seen = fingerprint(path)
        if seen == self._seen and not (self._may_pass and monotonic() - self._tried >= BETWEEN):
            return hushlist
        self._seen, self._tried, self._may_pass = seen, monotonic(), False
        try:
            octets = read_regular(path, _LONGEST)
            if octets != self._octets:
                hushlist = await self._use(script, hushlist, octets)
                self._octets = octets
                logger.info("hushlist: %s: loaded again", path)
            elif self._fault is not None:
                logger.info("hushlist: %s: it is again as it was loaded", path)
        except FileNotFoundError:
            self._fail(GONE, f"{path}: it is gone: {STAYS}; put it back, since mitmproxy cannot start without it")
        except (OSError, ValueError) as error:
            self._fail(GONE, f"{path}: {reason_of(error)}: {STAYS}; mend that, since mitmproxy cannot start so")
        except _ScriptError as error:
            self._may_pass = error.may_pass
            newer = "if the package was replaced, too, start mitmproxy again; otherwise " if error.may_pass else ""
            advice = f"{newer}correct the file, since mitmproxy cannot start with it"
            self._fail(BROKEN, f"{path}: {error}: {STAYS}; {advice}")
        else:
            self._fault = self._runtime.script_fault = None
        return hushlist

    def _fail(self, kind: str, text: str) -> None:
        if text != self._fault:
            logger.error("hushlist: %s", printable(text))
        self._fault, self._runtime.script_fault = text, kind

    async def _use(self, script: Script, before: Filter, octets: bytes) -> Filter:
        """Have what a script now says called in the place of what it said."""
        module = _run(script.fullpath, octets)
        new = [*addonmanager.traverse([module])]
        successors = [addon for addon in new if isinstance(addon, self._kind)]
        if len(successors) != 1:
            raise _ScriptError(f"it puts {'no' if not successors else 'more than one'} Hushlist into its addons")
        after: Filter = successors[0]
        old = [addon for addon in addonmanager.traverse([script.ns]) if addon is not before]
        others = [addon for addon in new if addon is not after]
        _exchange(old, others, {before.name, after.name})
        after.take_over(before)
        script.ns = module
        for addon in old:
            with addonmanager.safecall():
                _call(addon, hooks.DoneHook())
        for addon in others if script.is_running else ():
            with addonmanager.safecall():
                waits = _call(addon, hooks.RunningHook())
                if asyncio.iscoroutine(waits):
                    await waits
        return after


class _Keeper:
    """Stands before all other addons: the script with the filter stays among the scripts."""

    name = "hushlist_keeper"

    def __init__(self, watch: ScriptWatch) -> None:
        self._watch = watch

    def configure(self, updated: set[str]) -> None:
        """mitmproxy's hook.

        Raises:
            OptionsError: the script is to be unloaded.
        """
        path = self._watch.path
        if "scripts" in updated and path is not None and path not in ctx.options.scripts:
            why = "it has the filter, and stays until mitmproxy ends; set hushlist_mode=off turns the filter off"
            raise exceptions.OptionsError(f"scripts: {path} cannot be unloaded: {why}")


def _has(script: Script, hushlist: Filter) -> bool:
    return any(addon is hushlist for addon in addonmanager.traverse(script.addons))


def _prepare() -> CodeOnDisk:
    """Keep whatever of the package a proxy may need later; call it in a thread, since it takes a moment."""
    code, faults = CodeOnDisk(), keep_rooms(_ROOMS)
    try:
        live_texts()
    except Exception as error:
        faults.append(f"{type(error).__name__}: {error}")
    for fault in faults:
        logger.error("hushlist: a part of the package cannot be read, and what needs it may fail: %s", fault)
    return code


def _run(path: str, octets: bytes) -> ModuleType:
    """The module of a script, as mitmproxy makes it; from octets, since compiled files are chosen by whole seconds."""
    name = f"__mitmproxy_script__.{Path(path).stem}"
    spec = spec_from_loader(name, loader=SourceFileLoader(name, path))
    assert spec is not None
    module, before = module_from_spec(spec), sys.path[:]
    sys.path.insert(0, str(Path(path).parent))
    try:
        exec(compile(octets, path, "exec"), vars(module))  # noqa: S102  the administrator's own script
    except (Exception, SystemExit) as error:
        raise _ScriptError(_text_of(error), may_pass=isinstance(error, ImportError | OSError)) from error
    finally:
        sys.path[:] = before
    if not getattr(module, "name", None):
        vars(module)["name"] = path
    return module


def _exchange(old: list[Any], new: list[Any], filters: set[str]) -> None:
    """Register and configure new addons in the place of old ones, but for the filter.

    Raises:
        _ScriptError: that fails; then all is as before.
    """
    addons = ctx.master.addons
    before = dict(addons.lookup)
    names = {addonmanager._get_name(addon) for addon in old}
    addons.lookup = {name: addon for name, addon in before.items() if name not in names}
    begun = list[Any]()
    try:
        for addon in new:
            name = addonmanager._get_name(addon)
            if name in addons.lookup or name in filters:
                raise exceptions.AddonManagerError(f"An addon called '{name}' already exists.")  # noqa: TRY301
            begun.append(addon)
            _call(addon, addonmanager.LoadHook(addonmanager.Loader(ctx.master)))
            addons.lookup[name] = addon
        for addon in new:
            ctx.master.commands.collect_commands(addon)
        ctx.options.process_deferred()
        for addon in new:
            _call(addon, hooks.ConfigureHook(set(ctx.options.keys())))
    except (Exception, SystemExit) as error:
        addons.lookup = before
        for addon in begun:
            with addonmanager.safecall():
                _call(addon, hooks.DoneHook())
        for addon in old:
            ctx.master.commands.collect_commands(addon)
        raise _ScriptError(_text_of(error)) from error


def _call(addon: Any, event: hooks.Hook) -> Any:
    """Call a hook of one addon alone, without those within it."""
    hook = getattr(addon, event.name, None)
    return hook(*event.args()) if callable(hook) else None


def _text_of(error: BaseException) -> str:
    """An exception for people, with the script's line."""
    place, text = error.__traceback__, f"{type(error).__name__}: {error}"
    while place is not None and place.tb_next is not None:
        place = place.tb_next
    is_in_text = isinstance(error, SyntaxError) or place is None
    return text if is_in_text else f"{text} (line {place.tb_lineno} of {place.tb_frame.f_code.co_filename})"  # type: ignore[union-attr]
