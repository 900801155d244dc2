"""Programs that ask the core: audits of lists, publishing, importing, the doctor, and Squid's helper."""

from hushlist.core.extension import Command

#: the commands of the tools
TOOL_COMMANDS = (
    Command(("helper",), f"{__name__}.squid.helper_command", "ask a policy"),
    Command(("import",), f"{__name__}.importing.import_command", "ask a policy"),
    Command(("doctor",), f"{__name__}.doctor.doctor_command", "while the filter runs"),
    Command(("lint", "diff"), f"{__name__}.audit.list_commands", "test lists"),
    Command(("audit",), f"{__name__}.audit.audit_command", "test lists"),
    Command(("visit",), f"{__name__}.visit.visit_command", "test lists"),
    Command(("learn",), f"{__name__}.audit.learn_command", "test lists"),
    Command(("leak",), f"{__name__}.audit.leak_command", "test lists"),
    Command(("hide",), f"{__name__}.publish.hide_command", "publish lists"),
    Command(("publish",), f"{__name__}.publish.publish_command", "publish lists"),
    Command(("convert",), f"{__name__}.publish.convert_command", "publish lists"),
    Command(("serve-lists",), f"{__name__}.publish.serve_command", "publish lists"),
    Command(("keypair", "sealkey", "sign", "verify"), f"{__name__}.publish.sign_commands", "publish lists"),
    Command(("parse", "hrn", "conformance"), f"{__name__}.reference.specification_commands", "look at URLs"),
)
