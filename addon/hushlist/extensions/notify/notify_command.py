"""``hushlist notify test``: one notice by each channel of the policy, now, and what became of it. ``hushlist summary``:
the summary of the last seven days, printed or sent."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from datetime import datetime

from hushlist.cli.common import (
    FINDINGS,
    GOOD,
    Commands,
    add_command,
    add_group,
    add_policy,
    complain,
    print_line,
    print_lines,
    remark,
)
from hushlist.core.extension import Notice
from hushlist.core.policy import default_policy
from hushlist.core.policy.policy_reader import policy_at
from hushlist.core.system.files import state_folder
from hushlist.extensions.journal.history import WHY_NONE
from hushlist.extensions.notify.delivery import DeliveryError, deliver
from hushlist.extensions.notify.notify_channels import Channel, is_for
from hushlist.extensions.notify.weekly_summary import summarized_groups, summary_of, week_of
from hushlist.extensions.unblock import default_path
from hushlist.extensions.unblock.shown_clients import privacy_of_store

_CODES = "Exit codes: 0 all were sent; 1 one was not; 2 wrong usage, or the policy names no channel."
_TEST = Notice("Hushlist", "This is a test: notices of the filter come here.", {"test": True})


def add_to(commands: Commands) -> None:
    group = add_group(commands, "notify", "try the channels of notices", "The channels of the policy's 'notify'.")
    add_policy(
        add_command(group, "test", send_test, "send one notice by each channel, and say what became of it", _CODES)
    )

    text = "print the summary of the last seven days, today among them"
    parser = add_command(commands, "summary", summarize, text, _CODES)
    add_policy(parser)
    parser.add_argument("--now", action="store_true", help="send it, by the channels that have 'weekly: on'")


def summarize(arguments: argparse.Namespace) -> int:
    policy = policy_at(arguments.policy or default_policy())
    if policy.of("log") is None:
        return complain(WHY_NONE["no_log"])
    place = policy.of("log").place or state_folder()
    privacy = privacy_of_store(policy.of("store") or default_path(), policy, remark)
    groups = summarized_groups(policy) if arguments.now else [None]
    if not groups:
        return complain(f"{policy.source}: no channel has 'weekly: on': see the key 'notify'")
    today, code = datetime.now(policy.zone).date(), GOOD
    for group in groups:
        week = week_of(policy, place, privacy, today, group)
        if isinstance(week, str):
            code = complain(WHY_NONE[week] if group is None else f"{group}: {WHY_NONE[week]}")
            continue
        notice = summary_of(week, policy)
        if arguments.now:
            code = max(code, _send_by([channel for channel in policy.of("notify") if is_for(notice, channel)], notice))
        else:
            print_lines([notice.title, *notice.message.splitlines()])
    return code


def send_test(arguments: argparse.Namespace) -> int:
    path = arguments.policy or default_policy()
    channels = policy_at(path).of("notify")
    if not channels:
        return complain(f"{path}: it names no channel: see the key 'notify'")
    return _send_by(channels, _TEST)


def _send_by(channels: Iterable[Channel], notice: Notice) -> int:
    sent = [_is_sent(channel, notice) for channel in channels]
    return GOOD if all(sent) else FINDINGS


def _is_sent(channel: Channel, notice: Notice) -> bool:
    try:
        deliver(channel, notice)
    except DeliveryError as error:
        print_line(f"not sent by {channel.name}: {error}", word="block")
        return False
    print_line(f"sent by {channel.name}", word="allow")
    return True
