"""``hushlist notify test``: one notice by each channel of the policy, now, and what became of it."""

from __future__ import annotations

import argparse

from hushlist.cli.common import FOUND, GOOD, Commands, add_command, add_group, add_policy, complain, print_line
from hushlist.core.extension import Notice
from hushlist.core.policy import default_policy
from hushlist.core.policy.policy_reader import policy_at
from hushlist.extensions.notify.delivery import DeliveryError, deliver
from hushlist.extensions.notify.notify_channels import Channel

_CODES = "Exit codes: 0 all were sent; 1 one was not; 2 wrong usage, or the policy names no channel."
_TEST = Notice("Hushlist", "This is a test: notices of the filter come here.", {"test": True})


def add_to(commands: Commands) -> None:
    own = add_group(commands, "notify", "try the channels of notices", "The channels of the policy's 'notify'.")
    add_policy(
        add_command(own, "test", send_test, "send one notice by each channel, and say what became of it", _CODES)
    )


def send_test(arguments: argparse.Namespace) -> int:
    path = arguments.policy or default_policy()
    channels = policy_at(path).of("notify")
    if not channels:
        return complain(f"{path}: it names no channel: see the key 'notify'")
    sent = [_is_sent(channel) for channel in channels]
    return GOOD if all(sent) else FOUND


def _is_sent(channel: Channel) -> bool:
    try:
        deliver(channel, _TEST)
    except DeliveryError as error:
        print_line(f"not sent by {channel.name}: {error}", word="block")
        return False
    print_line(f"sent by {channel.name}", word="allow")
    return True
