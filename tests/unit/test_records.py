"""What a record leaves out is nothing."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Iterator
from importlib import import_module

from documentation import ROOT

#: every module with a record that has defaults; by these names the run of mutations finds this test
MODULES = """
    hushlist.admin.admin_store hushlist.audit.diff.diff_job hushlist.audit.diff.rule_comparison
    hushlist.audit.leak.guesses hushlist.audit.leak.leak_job hushlist.audit.replay.audit_report
    hushlist.audit.replay.auditor hushlist.audit.replay.replay_job hushlist.audit.replay.tally
    hushlist.audit.sources.recorded_request hushlist.audit.sources.source_formats hushlist.cli.init_command
    hushlist.compiling.compile_report hushlist.compiling.gate hushlist.compiling.list_comparison
    hushlist.compiling.list_fetch hushlist.compiling.list_outcome hushlist.compiling.ordinary_requests
    hushlist.compiling.policy_compiler hushlist.decide.confirmations hushlist.decide.decision hushlist.doctor.diagnosis
    hushlist.fleet.proxy_records hushlist.importing.e2guardian hushlist.importing.imported_policy
    hushlist.jobs.line_workers hushlist.jobs.list_chunks hushlist.journal.log_database hushlist.journal.log_record
    hushlist.lists.format_detection hushlist.lists.list_source hushlist.lists.rpz hushlist.match.checks
    hushlist.match.context hushlist.match.filters.filter_reader hushlist.match.filters.linear_regex
    hushlist.match.filters.network_filter hushlist.match.index hushlist.match.index_file hushlist.match.rule
    hushlist.match.rule_collector hushlist.match.rule_match hushlist.notify.notifier hushlist.policy.admin
    hushlist.policy.gate_limits hushlist.policy.groups hushlist.policy.notify_channels hushlist.policy.pass_through
    hushlist.policy.policy_file hushlist.policy.proxy_settings hushlist.policy.quotas hushlist.policy.recurrence
    hushlist.policy.safe_browsing hushlist.policy.schedule hushlist.policy.subscription
    hushlist.proxy.bounds.bounded_websocket hushlist.proxy.bounds.object_patches
    hushlist.proxy.dashboard.api_description hushlist.proxy.page.access_form hushlist.proxy.page.pages
    hushlist.proxy.service.health hushlist.publish.hidden_list hushlist.publish.list_history
    hushlist.publish.list_server hushlist.publish.list_writer hushlist.publish.published_list
    hushlist.publish.safebrowsing_service hushlist.safebrowsing.prefix_list hushlist.safebrowsing.v4_messages
    hushlist.safebrowsing.v5_messages hushlist.safebrowsing.wire_format hushlist.squid hushlist.system.kept_databases
    hushlist.system.list_store hushlist.unblock.access_requests hushlist.unblock.credentials
    hushlist.unblock.grant_events hushlist.unblock.wrong_tries hushlist.url.http_head hushlist.url.parts
    hushlist.url.request hushlist.url.uri_extraction
"""
#: what is something though nobody says it: mostly as the reference promises it
SAID = """
    AccessRequest.state AccessRequest.times AdminPerson.longest Explanation.kind Gate.keeps GateLimits.format
    GateLimits.loses GateLimits.popular GateLimits.requests GateLimits.suffixes GroupSettings.decrypt
    GroupSettings.mode GroupSettings.relayed HeadLimit.octets ImportedList.action Leak.jobs LogSettings.clients
    LogSettings.days LogSettings.files LogSettings.queries LogSettings.rows LogSettings.size LogSettings.what
    MessageLimit.octets PassThrough.on_failure Policy.language Policy.live Policy.unknown_context Policy.unparsable
    Policy.zone Privacy.clients Privacy.queries ProblemReport.first_line Quota.per Quota.zone RecordedRequest.kind
    RecurringSpans.spans RecurringSpans.weekdays ReplayWork.jobs ServerLimits.rate UnblockSettings.codes
    UnblockSettings.minutes UnblockSettings.scopes _CountedDecision.bar _Options.parties _Shape.factor _Shape.ways
    _ZoneReader.name _ZoneReader.origin
"""


def defaults(module: str) -> Iterator[tuple[str, object]]:
    """What the records of a module have where nobody says anything."""
    loaded = import_module(module)
    for one in vars(loaded).values():
        if inspect.isclass(one) and one.__module__ == module:
            found = getattr(one, "_field_defaults", {})
            if dataclasses.is_dataclass(one):
                found = {own.name: own.default for own in dataclasses.fields(one)}
            missing = dataclasses.MISSING
            yield from ((f"{one.__name__}.{name}", value) for name, value in found.items() if value is not missing)


def is_nothing(value: object) -> bool:
    """Whether a value is as its type makes it of nothing."""
    try:
        return value is None or callable(value) or value == type(value)()
    except TypeError:  # it is made of something
        return False


def test_what_a_record_leaves_out_is_nothing() -> None:
    folder = ROOT / "addon"
    paths = [path.relative_to(folder) for path in (folder / "hushlist").rglob("*.py") if path.stem != "__main__"]
    modules = [".".join((path.parent if path.stem == "__init__" else path.with_suffix("")).parts) for path in paths]
    found = {module: dict(defaults(module)) for module in modules}
    assert {module for module, values in found.items() if values} == {*MODULES.split()}
    said = {name for values in found.values() for name, value in values.items() if not is_nothing(value)}
    assert said == {*SAID.split()}
