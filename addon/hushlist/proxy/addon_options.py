"""The addon's options, and those of mitmproxy that it needs: declared, validated, and taken into use."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from mitmproxy import ctx, exceptions
from mitmproxy.proxy.mode_specs import ProxyMode
from mitmproxy.utils import human

from hushlist.core.errors import Lines, did_you_mean, logger_of, printable
from hushlist.core.policy import default_policy
from hushlist.core.policy.groups import MODES
from hushlist.core.policy.policy_file import PolicyError
from hushlist.core.system.authority_file import fault_of_authority
from hushlist.core.system.package_code import OTHER_MITMPROXY
from hushlist.core.system.socket_address import parse_socket_address
from hushlist.core.url.http_head import HEAD_LIMIT, HeadLimit
from hushlist.proxy.bodies_flow import STREAM
from hushlist.proxy.bounds.bounded_input import not_taken
from hushlist.proxy.bounds.bounded_websocket import MESSAGE_LIMIT, MessageLimit
from hushlist.proxy.connections.proxy_protocol import ProxyProtocol, read_balancers
from hushlist.proxy.flow_request import port_of_mode
from hushlist.proxy.runtime import Runtime
from hushlist.proxy.service.policy_watch import PolicyWatch
from hushlist.proxy.service.start_errors import ENDS_THE_START, is_checked

if TYPE_CHECKING:
    from mitmproxy.addonmanager import Loader

logger = logger_of(__name__)

#: how the names of our options begin
_OURS = "hushlist_"
#: lazy: no connection is made to an origin before its request is decided. No raw TCP: otherwise a line end before the
#: request makes mitmproxy take HTTP in a tunnel for another protocol, which passes unfiltered. Validation: otherwise
#: mitmproxy sends on what servers read in different ways, such as a space behind a header's name, or two lengths.
_REQUIRED: dict[str, object] = {"connection_strategy": "lazy", "rawtcp": False, "validate_inbound_headers": True}


#: options that bound what a peer may send: what is bounded, as it is by default, at least and at most; a description
_LIMITS: dict[str, tuple[HeadLimit | MessageLimit, str, str, str, str]] = {
    "hushlist_longest_head": (
        HEAD_LIMIT,
        "64k",
        "16k",
        "1m",
        "Octets of a request's header fields; a longer head is refused. Each connection that has begun a head may have "
        "four times of it kept, and the time for a decision grows with it.",
    ),
    "hushlist_longest_message": (
        MESSAGE_LIMIT,
        "16m",
        "64k",
        "1g",
        "Octets of a WebSocket's message; a longer one ends the connection. Each is kept until it has arrived whole, "
        "some four times, and the last messages of a connection up to as much once more.",
    ),
}


def declare_options(loader: Loader) -> None:
    """Declare the options that the addon has."""
    loader.add_option(
        "hushlist_policy",
        str,
        "",
        "The policy file (YAML) that names layers and lists. Empty: the one that the first start has "
        "written, or else the one that is shipped with Hushlist. "
        "It is read again when it or one of its lists changes.",
    )
    loader.add_option(
        "hushlist_mode",
        str,
        "block",
        "block: what the policy blocks is answered with a block page. "
        "tag: it passes, and is marked as what would be blocked. off: nothing is decided.",
        choices=MODES,
    )
    loader.add_option(
        "hushlist_learn",
        bool,
        True,
        "Learn from permanent redirects of an origin for which of its paths a trailing slash makes no difference, "
        "so that a rule for one fits the other. It is forgotten after a day, and when this is turned off.",
    )
    loader.add_option(
        "hushlist_stream",
        str,
        "on",
        "on: bodies go on while they arrive, and are in no recording. "
        "off: a body goes on when it has arrived whole, for who records bodies, and for scripts that change them.",
        choices=STREAM,
    )
    loader.add_option(
        "hushlist_proxy_protocol",
        Sequence[str],
        [],
        "Addresses and networks of load balancers that tell by the PROXY protocol whose connections they hand on. "
        "Whatever comes from there has to begin with such a header; nobody else is believed.",
    )
    for option, (_, usual, least, most, what) in _LIMITS.items():
        loader.add_option(option, str, usual, f"{what} From {least} to {most}, such as 128k or 1m.")
    loader.add_option(
        "hushlist_health",
        str,
        "",
        "ADDRESS:PORT at which /healthz and /readyz answer, for load balancers. Empty: no such port.",
    )
    loader.add_option(
        "hushlist_quiet", bool, False, "Leave out mitmproxy's own messages about each connection, but warnings."
    )


class AddonOptions:
    """Validates the options, and takes them into use; state is swapped only after everything succeeded."""

    def __init__(self, runtime: Runtime, policy_watch: PolicyWatch, proxy_protocol: ProxyProtocol) -> None:
        self._runtime, self._policy_watch, self._proxy_protocol = runtime, policy_watch, proxy_protocol
        self._start_error = ""
        #: whether the program ends, since an option cannot be used
        self.has_ended_start = False
        #: options by which the authority is read, once it is checked
        self._authority: tuple[str, str] | None = None
        #: mitmproxy's own options before they were set as ``_REQUIRED`` says
        self._before: dict[str, object] = {}

    def use(self, updated: set[str], *, is_running: bool) -> None:
        """Use the options of which some were updated.

        An error at the start is logged, which ends mitmdump. A program that it does not end refuses every request,
        since there is no good state to keep.

        Raises:
            OptionsError: an option cannot be used; the message has every problem with file and line.
        """
        try:
            self._use(updated, is_running=is_running)
        except exceptions.OptionsError as error:
            if is_running:
                raise
            if str(error) != self._start_error:  # mitmproxy calls twice for an option that waited for the script
                # the problems have file and line; a traceback would add nothing
                logger.error("hushlist: %s", Lines(error), extra=ENDS_THE_START)  # noqa: TRY400
            self._start_error = str(error)
            self.has_ended_start = is_checked(ctx.master.addons)
        else:
            self.has_ended_start = False

    def _use(self, updated: set[str], *, is_running: bool) -> None:
        if not is_running:
            _refuse_unknown()
            self._check_authority()
        if updated & {"hushlist_mode", *_REQUIRED}:
            self._require_options()
        for option in updated & _LIMITS.keys():
            _set_limit(option)
        if "hushlist_health" in updated:
            _check_health_address(is_running=is_running)
        mode = ctx.options.hushlist_mode
        if mode not in MODES:
            raise exceptions.OptionsError(f"hushlist_mode cannot be {mode!r}, only one of {', '.join(MODES)}")
        is_first_needed = "hushlist_mode" in updated and mode != "off" and self._runtime.engine is None
        if "hushlist_proxy_protocol" in updated:
            try:
                self._proxy_protocol.balancers = read_balancers(ctx.options.hushlist_proxy_protocol)
            except ValueError as error:
                raise exceptions.OptionsError(f"hushlist_proxy_protocol: {error}") from None
        if "hushlist_policy" in updated or is_first_needed:
            try:
                self._policy_watch.load(_policy_path(), _own_ports())
            except PolicyError as error:
                # not "from error": mitmproxy prints the chain, which would add nothing
                raise exceptions.OptionsError(f"hushlist_policy cannot be used:\n{error}") from None
            if not is_running:
                self._require_patches()
        if "hushlist_learn" in updated and not ctx.options.hushlist_learn:
            self._runtime.redirect_memory.forget()

    def _check_authority(self) -> None:
        """Check that the authority which devices trust is whole, before mitmproxy makes another or fails by it.

        Once, as long as the options stay: mitmproxy calls for each option that a script adds, and to read a key takes
        longer than all else.

        Raises:
            OptionsError: it is not.
        """
        if "confdir" not in ctx.options:
            return
        passphrase = ctx.options.cert_passphrase if "cert_passphrase" in ctx.options else None
        options = (ctx.options.confdir, passphrase or "")
        if options == self._authority:
            return
        fault = fault_of_authority(Path(options[0]).expanduser(), options[1])
        if fault is not None:
            raise exceptions.OptionsError(f"confdir cannot be used: {fault}")
        self._authority = options

    def _require_patches(self) -> None:
        """Say what of mitmproxy could not be patched, before anything is served.

        Raises:
            OptionsError: the policy has ``require-patches``.
        """
        missing, engine = not_taken(), self._runtime.engine
        if not missing:
            return
        message = f"{OTHER_MITMPROXY}: {', '.join(missing)}"
        if engine is not None and engine.policy.requires_patches:
            raise exceptions.OptionsError(
                f"{message} (require-patches: on); see hushlist doctor for the one to install"
            )
        logger.warning("hushlist: %s", printable(message))

    def _require_options(self) -> None:
        """Set mitmproxy's options as ``_REQUIRED`` says while the filter is on; restore them afterwards."""
        if ctx.options.hushlist_mode == "off":
            before, self._before = self._before, {}
            ctx.options.update(**before)
            return
        other = {name: getattr(ctx.options, name) for name in _REQUIRED}
        other = {name: value for name, value in other.items() if value != _REQUIRED[name]}
        if other:
            self._before |= other
            ctx.options.update(**{name: _REQUIRED[name] for name in other})


def _check_health_address(*, is_running: bool) -> None:
    address = ctx.options.hushlist_health
    if is_running:
        raise exceptions.OptionsError("hushlist_health can only be given at the start")
    try:
        if address:
            parse_socket_address(address)
    except ValueError as error:
        raise exceptions.OptionsError(f"hushlist_health cannot be {address!r}: {error}") from None


def _set_limit(option: str) -> None:
    """Bound what peers may send, as an option says.

    Raises:
        OptionsError: it is no size, or one that is too small or too large.
    """
    bound, _, least, most, _ = _LIMITS[option]
    value = getattr(ctx.options, option)
    with suppress(ValueError):
        octets, at_least, at_most = (human.parse_size(size) or 0 for size in (value, least, most))
        if at_least <= octets <= at_most:
            bound.octets = octets
            return
    raise exceptions.OptionsError(f"{option} cannot be {value!r}, only a size from {least} to {most}")


def _refuse_unknown() -> None:
    """Refuse options that look like ours, and are none: mitmproxy itself would wait for somebody to declare them.

    Raises:
        OptionsError: with the nearest name.
    """
    names = sorted(name for name in ctx.options.keys() if name.startswith(_OURS))  # noqa: SIM118  it is no mapping
    for name in ctx.options.deferred:
        if name.startswith(_OURS):
            why = f"there is no option {name}{did_you_mean(name, names)}"
            raise exceptions.OptionsError(f"{why} (known: {', '.join(names)})")


def _own_ports() -> Iterator[int]:
    """The ports on which the proxy listens, or will."""
    for mode in ctx.options.mode:
        with suppress(ValueError):  # mitmproxy says so itself
            yield port_of_mode(ProxyMode.parse(mode)) or 0


def _policy_path() -> Path:
    path = ctx.options.hushlist_policy
    try:
        return Path(path).expanduser() if path else default_policy()
    except RuntimeError as error:
        raise exceptions.OptionsError(f"hushlist_policy cannot be {path!r}: {error}") from error
