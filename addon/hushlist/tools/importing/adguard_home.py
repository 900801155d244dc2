"""AdGuard Home: ``AdGuardHome.yaml``, of schema 12 and later.

Spec: AdGuard Home's wiki, Configuration; Hosts blocklists; Clients.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from math import ceil
from pathlib import Path

from hushlist.core.errors import SourceError
from hushlist.core.lists.list_source import ListDefaults, ProblemReport
from hushlist.core.lists.patterns import is_sinkhole, read_name
from hushlist.core.lists.yaml_documents import read_document
from hushlist.core.lists.yaml_nodes import YamlNode
from hushlist.core.match.rule import Action, each_rule
from hushlist.extensions.adblock.filter_lists import read_adblock_dns
from hushlist.extensions.adblock.network_filter import NetworkFilter
from hushlist.extensions.safe_search.safe_search import STRICT
from hushlist.tools.importing.imported_policy import (
    BY_COMMAND,
    DAYS,
    NO_ADDRESSES,
    ImportedGroup,
    ImportedList,
    ImportedPolicy,
    by_network,
    clock,
    network_of,
    shown,
)

_NOTHING = YamlNode(0, None)
#: the rules of AdGuard Home's blocked services
_SERVICES = "https://adguardteam.github.io/HostlistsRegistry/assets/services.json"
#: questions that it refuses for everybody, out of the box
_OWN_NAMES = ("version.bind", "id.server", "hostname.bind")
#: keys that filter, and that nothing here stands for -> why
_ALONE = {
    "parental_enabled": "AdGuard's service for adult sites is not asked: use a list of them, and safe-search",
    "safebrowsing_enabled": "AdGuard's service for malware is not asked: use a list of it",
    "allowed_clients": "whom the proxy serves is for mitmproxy's options and the firewall",
    "bogus_nxdomain": "what a name server answers is not changed",
}
#: the services that it forces to search safely, by the names that it has for them, too
_SAFE_SEARCH = ("bing", "duckduckgo", "ecosia", "google", "pixabay", "yandex", "youtube")
#: the layers, the first of which decides
_IMPORTANT_ALLOWED, _IMPORTANT, _ALLOWED, _LISTS = "important exceptions", "important", "allowed", "lists"


def read_adguard_home(path: Path) -> ImportedPolicy:
    """The policy of an AdGuard Home; ``SourceError`` if the file cannot be read, or is none of its."""
    policy = ImportedPolicy(path)
    report = ProblemReport(str(path))
    root = read_document(policy.read(path), report)
    if root is not None and not (_of(root, "dns").value and isinstance(root.value, dict)):
        report.error(0, path.name, "it has no 'dns', as every AdGuardHome.yaml does")
    if root is None or report.errors:
        raise SourceError(report.errors)
    _Reader(policy, root).read()
    return policy


def _of(node: YamlNode, *keys: str) -> YamlNode:
    """What stands under a key, and a key within that."""
    for key in keys:
        node = node.value.get(key, _NOTHING) if isinstance(node.value, dict) else _NOTHING
    return node


def _items(node: YamlNode) -> list[YamlNode]:
    return node.value if isinstance(node.value, list) else []


def _text(node: YamlNode) -> str:
    return node.value if isinstance(node.value, str) else ""


def _is_on(node: YamlNode, *, without: bool = False) -> bool:
    return node.value == "true" if node.value in ("true", "false") else without


class _Reader:
    def __init__(self, policy: ImportedPolicy, root: YamlNode) -> None:
        self._policy, self._root, self._report = policy, root, policy.report()
        # before schema 26, what filters stood under "dns"
        self._filtering = _of(root, "filtering") if _of(root, "filtering").value else _of(root, "dns")

    def read(self) -> None:
        everybody = self._policy.everybody
        is_filtering = _is_on(_of(self._filtering, "filtering_enabled"), without=True)
        filters = self._filters()
        services = self._services(_of(self._filtering, "blocked_services"), "services")
        everybody.layers = ["access", "rewrites", *(filters if is_filtering else []), *services]
        self._access()
        self._rewrites()
        everybody.settings |= self._safe_search(self._filtering)
        if not _is_on(_of(self._filtering, "protection_enabled"), without=True):
            everybody.settings["mode"] = "off"
        self._clients(filters, services, is_filtering=is_filtering)
        self._log()
        for section in (self._filtering, _of(self._root, "dns")):
            for key, why in _ALONE.items():
                self._leave_out(_of(section, key), key, why)

    def _leave_out(self, node: YamlNode, key: str, why: str) -> None:
        """Name a key that says something."""
        if node.value and node.value != "false":
            self._report.tally(node.line, key, why)

    # -- rules and lists -----------------------------------------------------------------------------------------------

    def _filters(self) -> list[str]:
        """The layers of lists and of the administrator's rules."""
        policy = self._policy
        names = [_IMPORTANT_ALLOWED, _IMPORTANT, _ALLOWED, _LISTS]
        domains: dict[str, dict[str, str]] = {name: {} for name in names}
        filters: dict[str, list[str]] = {name: [] for name in names}
        for node in _items(_of(self._root, "user_rules")):
            for layer, text in self._rule(_text(node).strip(), node.line):
                if _FILTER.search(text):
                    filters[layer].append(text)
                else:
                    domains[layer][text] = f"user_rules, line {node.line}"
        for name in names:
            action = "allow" if name in (_IMPORTANT_ALLOWED, _ALLOWED) else "block"
            policy.add_domains(name, f"{name}: user rules", domains[name], action)
            if filters[name]:
                file = policy.file(f"{name}: user filters", "".join(f"{text}\n" for text in filters[name]).encode())
                policy.layer(name).append(ImportedList(file, "adblock-dns", f"{name}: user filters", action))
        for key, layer, action in (("whitelist_filters", _ALLOWED, "allow"), ("filters", _LISTS, "block")):
            for node in _items(_of(self._root, key)):
                if _is_on(_of(node, "enabled")):
                    address, number = _text(_of(node, "url")), shown(_text(_of(node, "id"))) or str(node.line)
                    title, line = shown(_text(_of(node, "name"))) or shown(address) or "list", _of(node, "url").line
                    if "://" in address:
                        policy.subscribe(layer, address, title, action, self._report, line)
                        continue
                    file = f"lists/subscribed-{re.sub('[^0-9]', '', number) or node.line}.txt"
                    command = f"mkdir -p lists && cp -- {shlex.quote(address)} {file}"
                    policy.layer(layer).append(ImportedList(file, "adblock-dns", title, action, command))
                    self._report.leave_out(line, address, BY_COMMAND)
        return names

    def _rule(self, text: str, line: int) -> Iterator[tuple[str, str]]:
        """Layer and domain of a rule of the administrator's, or layer and filter of one for more than a domain."""
        if not text or text.startswith(("!", "#")):
            return
        address, *names = text.partition("#")[0].split()
        if names and is_sinkhole(address) is not None:
            if is_sinkhole(address):
                yield from self._exact(names, line, _LISTS)
            else:
                self._report.leave_out(line, text, NO_ADDRESSES)
            return
        if _DOMAIN.fullmatch(text):
            yield from self._exact([text], line, _LISTS)
            return
        plain = _IMPORTANT_OPTION.sub("", text)
        is_important, is_allowed = plain != text, plain.startswith("@@")
        layer = ((_LISTS, _ALLOWED), (_IMPORTANT, _IMPORTANT_ALLOWED))[is_important][is_allowed]
        trial = ProblemReport(self._report.source)
        rules = [rule.pattern for rule in each_rule(read_adblock_dns(plain.encode(), _OF_FILTERS[is_allowed], trial))]
        if not rules:
            for problem in trial.warnings:
                self._report.leave_out(line, text, problem.why.removeprefix("left out: "))
        elif isinstance(rules[0], NetworkFilter):
            yield layer, plain
        else:
            yield from ((layer, str(rule).removesuffix("/")) for rule in rules)

    def _exact(self, names: list[str], line: int, layer: str) -> Iterator[tuple[str, str]]:
        """Names that stand for themselves alone."""
        for name in names:
            if expression := read_name(name.lower(), line, self._report):
                self._report.warn(line, name, "taken over, and blocks hosts below it, too")
                yield layer, str(expression).removesuffix("/")

    # -- access, rewrites, services ------------------------------------------------------------------------------------

    def _access(self) -> None:
        """Names that nobody may ask for, and clients that may not ask."""
        dns = _of(self._root, "dns")
        hosts = {}
        for node in _items(_of(dns, "blocked_hosts")):
            if _text(node) not in _OWN_NAMES:
                rules = list(self._rule(_text(node), node.line))
                hosts.update({domain: "blocked_hosts" for layer, domain in rules if layer in (_LISTS, _IMPORTANT)})
        self._policy.add_domains("access", "blocked hosts", hosts, "block")
        if networks := list(self._networks(_of(dns, "disallowed_clients"))):
            group = self._policy.group("disallowed clients", clients=networks)
            group.settings = {"default": "block", "mode": "block"}

    def _networks(self, node: YamlNode) -> Iterator[str]:
        for item in _items(node):
            if network := network_of(_text(item)):
                yield network
            else:
                why = "a client is known by its address here, not by a MAC address or a ClientID"
                self._report.leave_out(item.line, _text(item), why)

    def _rewrites(self) -> None:
        """Names that lead nowhere are blocked; others are left out."""
        blocked: dict[str, str] = {}
        is_on = _is_on(_of(self._filtering, "rewrites_enabled"), without=True)
        for node in _items(_of(self._filtering, "rewrites")) if is_on else ():
            domain, answer = _text(_of(node, "domain")), _text(_of(node, "answer"))
            if not _is_on(_of(node, "enabled"), without=True):
                continue
            if not is_sinkhole(answer) or domain.startswith("*"):
                self._report.leave_out(node.line, f"{domain} -> {answer}", NO_ADDRESSES)
            else:
                blocked.update({name: "rewrites" for _, name in self._exact([domain], node.line, "rewrites")})
        self._policy.add_domains("rewrites", "rewrites", blocked, "block")

    def _services(self, node: YamlNode, name: str) -> list[str]:
        """The layer of blocked services, each with the command that fetches its rules."""
        ids = _items(node) or _items(_of(node, "ids"))  # before schema 21, the services alone
        if not ids:
            return []
        lists = self._policy.layer(name, self._schedule(_of(node, "schedule"), name))
        for item in ids:
            service = re.sub("[^a-z0-9_-]", "", _text(item))
            file, chosen = f"lists/service-{service}.txt", f'.blocked_services[] | select(.id=="{service}") | .rules[]'
            command = f"mkdir -p lists && curl --fail {_SERVICES} | jq --raw-output {shlex.quote(chosen)} > {file}"
            lists.append(ImportedList(file, "adblock-dns", f"Service {service}", "block", command))
            why = "a blocked service: policy.yaml has the command that fetches its rules"
            self._report.leave_out(item.line, _text(item), why)
        return [name]

    def _schedule(self, node: YamlNode, name: str) -> str | None:
        """The schedule of blocking: what AdGuard Home has is the time at which nothing is blocked."""
        entries = []
        for day in DAYS:
            start, end = (_minutes(_text(_of(node, day, key))) for key in ("start", "end"))
            if start is None or end is None:
                if _of(node, day).value:
                    self._report.leave_out(_of(node, day).line, day, "its start and end are no times of the day")
            elif start < end:
                entries.append({"days": day, "times": f"{clock(start)}-{clock(end)}"})
        if not entries:
            return None
        zone = _text(_of(node, "time_zone")) or "Local"
        named = None if zone == "Local" else zone
        free = self._policy.schedule(f"free of {name}", list(entries), self._report, node.line, named)
        return self._policy.outside(free)

    # -- clients and settings ------------------------------------------------------------------------------------------

    def _clients(self, filters: list[str], services: list[str], *, is_filtering: bool) -> None:
        made: dict[int, ImportedGroup] = {}
        pairs = []
        for node in _items(_of(self._root, "clients", "persistent")):
            pairs += [(network, node.line) for network in self._networks(_of(node, "ids"))]
            name = shown(_text(_of(node, "name"))) or f"client {node.line}"
            client = ImportedGroup(name)
            is_filtered = is_filtering
            if not _is_on(_of(node, "use_global_settings"), without=True):
                is_filtered = _is_on(_of(node, "filtering_enabled"))
                client.settings = {"safe-search": "off", **self._safe_search(node)}
                for key in ("parental_enabled", "safebrowsing_enabled"):
                    self._leave_out(_of(node, key), f"{name}: {key}", _ALONE[key])
            blocked = services
            if not _is_on(_of(node, "use_global_blocked_services"), without=True):
                blocked = self._services(_of(node, "blocked_services"), f"services of {name}")
            client.layers = ["access", "rewrites", *(filters if is_filtered else []), *blocked]
            made[node.line] = client
        for line, networks in by_network(pairs):
            group = self._policy.group(made[line].name, clients=networks)
            group.layers, group.settings = list(made[line].layers), made[line].settings

    def _safe_search(self, node: YamlNode) -> dict[str, object]:
        conf = _of(node, "safe_search")
        if not _is_on(_of(conf, "enabled"), without=_is_on(_of(node, "safesearch_enabled"))):
            return {}
        strict = {service: STRICT for service in _SAFE_SEARCH if _is_on(_of(conf, service), without=not conf.value)}
        return {"safe-search": strict} if strict else {}

    def _log(self) -> None:
        conf = _of(self._root, "querylog")
        if _is_on(_of(conf, "enabled")):
            hours = _minutes(_text(_of(conf, "interval"))) or 24 * 60
            log: dict[str, object] = {"what": "all", "days": min(max(ceil(hours / 1440), 1), 3650)}
            if _is_on(_of(self._root, "dns", "anonymize_client_ip")):
                log["clients"] = "drop"
            self._policy.everybody.settings["log"] = log


_OF_FILTERS = (ListDefaults(), ListDefaults(action=Action.ALLOW))
#: what a filter has, and no domain
_FILTER = re.compile(r"[|^/*@$]")
_DOMAIN = re.compile(r"(?:[\w-]+\.)+[\w-]+")
_IMPORTANT_OPTION = re.compile(r"\$important$|,important(?=,|$)|(?<=\$)important,")
_DURATION = re.compile(r"(?:([0-9]{1,5})h)?(?:([0-9]{1,5})m)?(?:0s)?")


def _minutes(text: str) -> int | None:
    """The minutes of a duration as Go writes it, such as 8h30m0s; ``None`` if it has none, or has seconds."""
    match = _DURATION.fullmatch(text)
    return int(match[1] or 0) * 60 + int(match[2] or 0) if match and text else None
