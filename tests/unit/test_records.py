"""What a record leaves out is nothing."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Iterator
from importlib import import_module

from documentation import ROOT

#: every module with a record that has defaults; by these names the run of mutations finds this test
MODULES = """
    hushlist.extensions.first_start.questionnaire
    hushlist.core.compile.list_chunks
    hushlist.core.compile.policy_compiler hushlist.core.compile.policy_update
    hushlist.core.decide.decision hushlist.core.decide.form_decider
    hushlist.core.decide.trace hushlist.core.decide.verdict hushlist.core.extension hushlist.extensions.inside.inside
    hushlist.core.lists.format_detection
    hushlist.core.lists.list_source hushlist.core.match.checks hushlist.core.match.context hushlist.core.match.index
    hushlist.core.match.matcher hushlist.core.match.rule hushlist.core.match.rule_collector
    hushlist.core.match.rule_match hushlist.core.policy.groups
    hushlist.core.policy.policy_file hushlist.core.policy.proxy_settings hushlist.core.policy.recurrence
    hushlist.core.policy.schedule hushlist.core.policy.scheduled_action hushlist.core.routes
    hushlist.extensions.databases.kept_files hushlist.extensions.services.service_lists
    hushlist.extensions.subscriptions.catalogue
    hushlist.core.url.parts hushlist.core.url.request hushlist.extensions.adblock.filter_reader
    hushlist.extensions.adblock.linear_regex hushlist.extensions.adblock.network_filter
    hushlist.proxy.bounds.bounded_websocket hushlist.proxy.object_patches
    hushlist.extensions.dashboard.actions hushlist.extensions.dashboard.admin_api
    hushlist.extensions.dashboard.admin_keys
    hushlist.extensions.dashboard.people
    hushlist.extensions.devices.known_devices hushlist.extensions.devices.network_tables
    hushlist.extensions.dashboard.api_description hushlist.extensions.policy_edits.policy_change
    hushlist.extensions.fleet.proxy_records hushlist.extensions.formats.rpz
    hushlist.extensions.journal.log_database
    hushlist.extensions.journal.log_keys hushlist.extensions.journal.log_record
    hushlist.extensions.needs.page_needs hushlist.extensions.notify.notify_channels hushlist.extensions.quotas.quotas
    hushlist.extensions.safe_browsing.confirmations hushlist.extensions.safe_browsing.prefix_list
    hushlist.extensions.safe_browsing.threat_lists hushlist.extensions.safe_browsing.v4_messages
    hushlist.extensions.safe_browsing.v5_messages hushlist.extensions.safe_browsing.wire_format
    hushlist.extensions.subscriptions.gate hushlist.extensions.subscriptions.gate_limits
    hushlist.extensions.subscriptions.list_comparison hushlist.extensions.subscriptions.list_fetch
    hushlist.extensions.subscriptions.list_outcome hushlist.extensions.subscriptions.list_store
    hushlist.extensions.subscriptions.ordinary_requests hushlist.extensions.subscriptions.rule_comparison
    hushlist.extensions.subscriptions.subscription hushlist.extensions.unblock.access_requests
    hushlist.extensions.unblock.actions hushlist.extensions.unblock.credentials hushlist.extensions.unblock.grant_events
    hushlist.extensions.unblock.wrong_tries hushlist.extensions.unblock.page_form hushlist.proxy.page.pages
    hushlist.proxy.parts
    hushlist.proxy.service.health hushlist.tools.audit.diff_job hushlist.tools.audit.guesses
    hushlist.tools.audit.leak_job hushlist.tools.audit.replay.audit_report hushlist.tools.audit.replay.auditor
    hushlist.tools.audit.replay.replay_job hushlist.tools.audit.replay.tally
    hushlist.tools.audit.sources.recorded_request hushlist.tools.audit.sources.source_formats
    hushlist.core.diagnosis hushlist.tools.importing.e2guardian hushlist.tools.importing.imported_policy
    hushlist.tools.importing.squid
    hushlist.tools.publish.converted_list hushlist.tools.publish.hidden_list hushlist.tools.publish.list_history
    hushlist.tools.publish.list_server
    hushlist.tools.publish.list_writer hushlist.tools.publish.published_list
    hushlist.tools.publish.release hushlist.tools.publish.release_plan
    hushlist.tools.audit.replay.decryption
    hushlist.tools.publish.safebrowsing_service hushlist.tools.reference.uri_extraction hushlist.tools.squid.helper
    hushlist.extensions.files.file_rules hushlist.extensions.files.held_upload
    hushlist.extensions.files.member_scanner
    hushlist.extensions.files.scanner hushlist.extensions.files.recorded_files hushlist.extensions.heads.head_rules
    hushlist.core.decide.facts
    hushlist.extensions.files.upload_look hushlist.extensions.tenants.tenants
    hushlist.tools.visit.page_actions hushlist.tools.visit.signals hushlist.tools.visit.visit_job
    hushlist.tools.visit.visitor
    hushlist.core.policy.keys hushlist.extensions.unblock.unblock_keys
    hushlist.extensions.unblock.taps hushlist.extensions.alerts.alert_book hushlist.extensions.alerts.alert_keys
    hushlist.extensions.alerts.alert_part hushlist.extensions.reports.list_head
    hushlist.extensions.reports.report_book
    hushlist.extensions.adblock.head_options hushlist.extensions.heads.listed_heads
"""
#: what is something though nobody says it: mostly as the reference promises it
SAID = """
    Person.bedtimes Question.kind
    AccessRequest.seen AccessRequest.state AccessRequest.times Account.longest AdminPerson.longest Explanation.kind
    Gate.keeps GateLimits.format GateLimits.loses GateLimits.popular GateLimits.requests GateLimits.suffixes
    GroupSettings.decrypt GroupSettings.mode GroupSettings.relayed HeavyHitters.most
    ImportedList.action Leak.jobs LogSettings.clients
    LogSettings.days LogSettings.files LogSettings.queries LogSettings.rows LogSettings.size
    LogSettings.what MessageLimit.octets Policy.extensions Policy.unknown_context
    Policy.unparsable Policy.zone Privacy.clients Privacy.queries Quota.per Quota.zone
    FileRule.way HeadRule.way Key.place
    RecordedRequest.kind RecurringSpans.spans RecurringSpans.weekdays ReplayWork.jobs ServerLimits.rate
    Text.most UnblockSettings.codes UnblockSettings.minutes UnblockSettings.scopes Whole.least _CountedDecision.bar
    ScannerSettings.at_once ScannerSettings.larger ScannerSettings.largest ScannerSettings.on_failure
    ScannerSettings.seconds Target.block Text.is_recorded UploadSettings.hold UploadSettings.unseen
    Alert.times Alert.within Escalation.times WebhookChannel.method
    _Options.parties _Shape.factor _Shape.ways _ZoneReader.name _ZoneReader.origin
    Release.is_new ReleaseLimits.loses Report.seen Report.times
    VisitJob.finds VisitJob.workers VisitOptions.browser VisitOptions.folder VisitOptions.patience PageResult.missing
    PageResult.pictures
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
    except TypeError:  # it is made of something, or a mapping that nobody can change
        return not value


def test_what_a_record_leaves_out_is_nothing() -> None:
    folder = ROOT / "addon"
    paths = [path.relative_to(folder) for path in (folder / "hushlist").rglob("*.py") if path.stem != "__main__"]
    modules = [".".join((path.parent if path.stem == "__init__" else path.with_suffix("")).parts) for path in paths]
    found = {module: dict(defaults(module)) for module in modules}
    assert {module for module, values in found.items() if values} == {*MODULES.split()}
    said = {name for values in found.values() for name, value in values.items() if not is_nothing(value)}
    assert said == {*SAID.split()}
