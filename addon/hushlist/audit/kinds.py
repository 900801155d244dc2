"""What a request is for, by the names that browsers and lists give it, or by the type of its answer."""

from __future__ import annotations

from hushlist.audit.record import Kind

#: as Chromium's HAR, the WebExtensions API, Fetch destinations and ad blockers' lists write it
_NAMES: dict[str, Kind] = {
    "document": Kind.DOCUMENT,
    "main_frame": Kind.DOCUMENT,
    "mainframe": Kind.DOCUMENT,
    "subdocument": Kind.FRAME,
    "sub_frame": Kind.FRAME,
    "subframe": Kind.FRAME,
    "iframe": Kind.FRAME,
    "frame": Kind.FRAME,
    "script": Kind.SCRIPT,
    "style": Kind.STYLE,
    "stylesheet": Kind.STYLE,
    "css": Kind.STYLE,
    "image": Kind.IMAGE,
    "imageset": Kind.IMAGE,
    "xhr": Kind.XHR,
    "xmlhttprequest": Kind.XHR,
    "fetch": Kind.XHR,
    "eventsource": Kind.XHR,
    "font": Kind.FONT,
    "media": Kind.MEDIA,
    "audio": Kind.MEDIA,
    "video": Kind.MEDIA,
    "websocket": Kind.WEBSOCKET,
}


def kind_of_name(name: str) -> Kind:
    """The kind that a browser names.

    >>> kind_of_name("stylesheet"), kind_of_name("ping"), kind_of_name("")
    (<Kind.STYLE: 'style'>, <Kind.OTHER: 'other'>, <Kind.UNKNOWN: 'unknown'>)
    """
    return _NAMES.get(name.lower(), Kind.OTHER if name else Kind.UNKNOWN)


_TYPES: dict[str, Kind] = {
    "text/html": Kind.DOCUMENT,
    "application/xhtml+xml": Kind.DOCUMENT,
    "text/css": Kind.STYLE,
    "text/javascript": Kind.SCRIPT,
    "application/javascript": Kind.SCRIPT,
    "application/x-javascript": Kind.SCRIPT,
    "application/ecmascript": Kind.SCRIPT,
    "text/ecmascript": Kind.SCRIPT,
    "application/json": Kind.XHR,
    "text/event-stream": Kind.XHR,
    "application/font-woff": Kind.FONT,
    "application/font-woff2": Kind.FONT,
    "application/x-font-woff": Kind.FONT,
    "application/x-font-ttf": Kind.FONT,
    "application/vnd.ms-fontobject": Kind.FONT,
    "application/vnd.apple.mpegurl": Kind.MEDIA,
    "application/dash+xml": Kind.MEDIA,
}
_TOP_LEVEL: dict[str, Kind] = {"image": Kind.IMAGE, "font": Kind.FONT, "audio": Kind.MEDIA, "video": Kind.MEDIA}


def kind_of_type(media_type: str) -> Kind:
    """The kind that the media type of an answer shows.

    >>> kind_of_type("text/CSS; charset=utf-8"), kind_of_type("video/mp4"), kind_of_type("text/plain")
    (<Kind.STYLE: 'style'>, <Kind.MEDIA: 'media'>, <Kind.OTHER: 'other'>)
    >>> kind_of_type("-"), kind_of_type("x-unknown")
    (<Kind.UNKNOWN: 'unknown'>, <Kind.UNKNOWN: 'unknown'>)
    """
    name = media_type.partition(";")[0].strip().lower()
    top, slash, _ = name.partition("/")
    if not slash:
        return Kind.UNKNOWN
    return _TYPES.get(name) or _TOP_LEVEL.get(top, Kind.OTHER)
