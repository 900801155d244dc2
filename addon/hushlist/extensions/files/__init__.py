"""Files: what may be downloaded and uploaded, by type, name, size, and what it really is.

In: the head of an answer or a request, and the first octets of its body. Out: it passes, or the block page stands in
its place. Open first: ``file_rules``, then ``file_inspector``.
"""

from hushlist.core.extension import Extension
from hushlist.core.policy.keys import Key

EXTENSION = Extension(
    "files",
    policy_keys=(
        Key("files", f"{__name__}.file_rules:FILES", place="group", default=()).says("""which files may be downloaded
            and uploaded, a list of rules: see [Files](files.md#files)"""),
        Key("uploads", f"{__name__}.held_upload:UPLOADS", place="group").says("""how much of an upload
            waits until it is seen, and what becomes of what cannot be seen: see [Uploads](files.md#uploads)"""),
    ),
    part=f"{__name__}.file_inspector:FileInspector",
)
