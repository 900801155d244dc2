"""Files: what may be downloaded and uploaded, by type, name, size, and what it really is.

In: the head of an answer or a request, and the first octets of its body. Out: it passes, or the block page stands in
its place. Open first: ``file_rules``, then ``file_inspector``, ``upload_inspector`` and ``file_outcome``.
"""

from hushlist.core.extension import Extension, Fact, ListFormat
from hushlist.core.policy.keys import Key

_HEX = "[0-9A-Fa-f]"
_HASH = f"(?:{_HEX}{{32}}|{_HEX}{{40}}|{_HEX}{{64}})"

#: facts that rules for heads look at, too
MEDIA_TYPE = Fact("media-type", "TYPE", "the media type of the answer, or of the upload, such as image/png")
WAY = Fact("for", "WAY", "download (the default) or upload: which way the file goes", "download|upload")

EXTENSION = Extension(
    "files",
    list_formats={
        "file-hashes": ListFormat(
            f"{__name__}.file_hashes:read_file_hashes",
            is_by_line=True,
            endings=(".hdb", ".hsb", ".hdu", ".hsu"),
            entry=rf"{_HASH}:(?:[0-9]+|\*):.*|\"[0-9: -]+\", *\"{_HEX}{{64}}\",.*",
        )
    },
    policy_keys=(
        Key("files", f"{__name__}.file_rules:FILES", place="group", default=()).says("""which files may be downloaded
            and uploaded, a list of rules: see [Files](files.md#files)"""),
        Key("uploads", f"{__name__}.held_upload:UPLOADS", place="group").says("""how much of an upload
            waits until it is seen, and what becomes of what cannot be seen: see [Uploads](files.md#uploads)"""),
        Key(
            "ranges", f"{__name__}.whole_files:RANGES", place="group", default="whole"
        ).says("""what becomes of a part of
            a file whose rest was not seen: `whole` (the default), `refuse` or `pass`, see [Parts](files.md#parts)"""),
        Key("scanner", f"{__name__}.scanner:SCANNER", place="group").says("""who scans files for malware: see
            [A scanner](files.md#a-scanner)"""),
    ),
    facts=(
        MEDIA_TYPE,
        Fact("name", "NAME", "the name of the file in Content-Disposition (default: that of the URL alone)"),
        Fact("file", "FILE", "a file of this machine, as which the file is judged: its first bytes, length and hashes"),
        Fact("content", "KINDS", "what it is by its first bytes, such as program, or text", "[a-z]+(?:[, ][a-z]+)*"),
        Fact("members", "NAMES", "the names of its members, if it is an archive, one a line"),
        Fact("size", "BYTES", "how long it is, in bytes", "[0-9]{1,18}"),
        Fact("hash", "HASHES", "its SHA-256, SHA-1 or MD5, with commas between them", f"{_HASH}(?:,{_HASH})*"),
        WAY,
    ),
    explainer=f"{__name__}.file_explainer:explain_file",
    why_decrypt=f"{__name__}.file_rules:why_decrypt",
    needs_decrypted=f"{__name__}.file_rules:needs_decrypted",
    part=f"{__name__}.file_inspector:FileInspector",
    part_keys=("files",),
)
