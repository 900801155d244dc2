"""What a policy's ``with`` may say; reading it needs nothing of the proxy."""

from hushlist.core.policy.key_types import choice

#: what allowed pages load passes; frames in them do, too
NEEDS, FRAMES = "needs", "needs-and-frames"
WITH = choice((NEEDS, FRAMES))
