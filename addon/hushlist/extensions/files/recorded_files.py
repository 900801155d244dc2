"""Facts of files in messages that somebody has recorded, as the door has them (``core/extension.py:Fact``)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from hushlist.extensions.files.content_coding import codings_of, kinds_of_coded
from hushlist.extensions.files.file_hashes import ALGORITHMS, FileHasher
from hushlist.extensions.files.file_names import UNREAD, file_name, names_of_disposition
from hushlist.extensions.files.multipart import MultipartError
from hushlist.extensions.files.upload_look import contents_of, is_form

#: what a text is called among facts, which has no kind
TEXT = "text"


class RecordedMessage(NamedTuple):
    """An answer or a request, as far as it was recorded."""

    #: names in lower case
    fields: Sequence[tuple[str, str]]
    #: ``None``: it was not recorded
    body: bytes | None = None
    #: octets, as they were sent; ``None``: nobody has noted that
    octets: int | None = None
    #: whether the body is without its content coding
    is_decoded: bool = False

    def get_all(self, name: str) -> list[str]:
        return [value for field, value in self.fields if field == name]


def facts_of_answer(status: int, answer: RecordedMessage) -> dict[str, str]:
    """What is true of an answer, and of the file that it is."""
    names = "\n".join(names_of_disposition(answer.get_all("content-disposition")))
    facts = {"for": "download", "status": str(status), "fields": ",".join(sorted({name for name, _ in answer.fields}))}
    facts |= {"media-type": ",".join(answer.get_all("content-type")), "name": names}
    codings = codings_of((*answer.get_all("content-encoding"), *answer.get_all("transfer-encoding")))
    return _stated(facts | _facts_of_content(answer.body, "" if answer.is_decoded else codings, answer.octets))


def facts_of_uploads(request: RecordedMessage) -> Iterator[dict[str, str]]:
    """What is true of the body of a request, and of each part of a form."""
    if not request.body and not request.octets:
        return
    content_types = request.get_all("content-type")
    names = "\n".join(names_of_disposition(request.get_all("content-disposition")))
    facts = {"for": "upload", "media-type": ",".join(content_types), "name": names}
    codings = codings_of(request.get_all("content-encoding"))
    if not is_form(content_types):
        yield _stated(facts | _facts_of_content(request.body, codings, request.octets))
        return
    octets = request.octets if request.body is None else len(request.body)
    yield _stated(facts | ({} if octets is None else {"size": str(octets)}))
    try:
        parts = contents_of(content_types, request.body or b"") if not codings else []
    except MultipartError:
        return
    for head, content in parts:
        yield facts_of_part(head.get("content-disposition", ""), head.get("content-type", ""), content)


def facts_of_part(disposition: str, content_type: str, content: bytes | None) -> dict[str, str]:
    """What is true of a part of a form."""
    fields = (disposition, f";{content_type.partition(';')[2]}")
    facts = {"for": "upload", "media-type": content_type, "name": "\n".join(names_of_disposition(fields))}
    return _stated(facts | _facts_of_content(content, "", None))


def facts_of_octets(kinds: Iterable[str], octets: int, hasher: FileHasher) -> dict[str, str]:
    """What is true of a file by its kinds, length, hashes and members."""
    hashes = ",".join(digest for _, digest in hasher.digests())
    content, members = " ".join(sorted(kinds)) or TEXT, hasher.members().text
    return {"content": content, "size": str(octets), "hash": hashes, "members": members}


def _facts_of_content(body: bytes | None, codings: str, octets: int | None) -> dict[str, str]:
    if body is None:
        return {} if octets is None else {"size": str(octets)}
    hasher = FileHasher(codings, ALGORITHMS.values(), sees_members=True)
    hasher.take(body)
    kinds, _ = kinds_of_coded(body, codings, is_whole=True)
    return facts_of_octets(kinds, len(body) if octets is None else octets, hasher)


def _stated(facts: dict[str, str]) -> dict[str, str]:
    return {name: value for name, value in facts.items() if value}


def names_of(text: str) -> tuple[str, ...]:
    """The names of a file among facts, one a line."""
    return tuple(name if name == UNREAD else file_name(name) for name in text.split("\n"))
