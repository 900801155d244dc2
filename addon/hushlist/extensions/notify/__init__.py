"""Notices to people who are away from the proxy: by a webhook, by mail, by a command.

In: a ``Notice``. Out: a message by each channel of the policy's ``notify``, in threads of its own. Nobody who sends one
waits, and a fault is in the log once. Open first: ``notifier``.
"""

from hushlist.core.extension import Extension

EXTENSION = Extension("notify")
