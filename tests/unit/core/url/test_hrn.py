"""`hrn:` names: the draft's grammar, the normal form, and the hierarchy."""

import pytest

from hushlist.core.errors import UrlError
from hushlist.core.url.hrn import Hrn, parse_hrn
from unit.rows import each_row

UUID = "f81d4fae-7dec-11d0-a765-00a0c91e6bf6"


@each_row(
    ("text", "user", "host", "uuid", "names"),
    [
        # draft-pstickler-hrn-00, 1: the examples
        (
            "hrn://abc.com/288918293/3/en/global/docbook",
            *(None, "abc.com", None),
            ("288918293", "3", "en", "global", "docbook"),
        ),
        (
            "hrn://abc.com/288918293/3/sp/europe/xhtml",
            *(None, "abc.com", None),
            ("288918293", "3", "sp", "europe", "xhtml"),
        ),
        (f"hrn://-/{UUID}", None, None, UUID, ()),
        (f"hrn://-/{UUID}/xml", None, None, UUID, ("xml",)),
        (f"hrn://-/{UUID}/pdf", None, None, UUID, ("pdf",)),
        (f"hrn://-/{UUID}/html", None, None, UUID, ("html",)),
        ("hrn://john.doe@widgets.org/thesis", "john.doe", "widgets.org", None, ("thesis",)),
        # 3: the implied names
        ("hrn://abc.com/288918293/3/en/global", None, "abc.com", None, ("288918293", "3", "en", "global")),
        ("hrn://abc.com/288918293/3/en", None, "abc.com", None, ("288918293", "3", "en")),
        ("hrn://abc.com/288918293/3", None, "abc.com", None, ("288918293", "3")),
        ("hrn://abc.com/288918293", None, "abc.com", None, ("288918293",)),
        ("hrn://abc.com", None, "abc.com", None, ()),
        # 2: what else the BNF allows
        ("hrn://x", None, "x", None, ()),
        ("hrn://3com.a-1.x-9", None, "3com.a-1.x-9", None, ()),
        ("hrn://1.2.3.4.com", None, "1.2.3.4.com", None, ()),
        ("hrn://10.20.30.40/a", None, "10.20.30.40", None, ("a",)),
        ("hrn://a;b?c&d=e%3A@abc.com", "a;b?c&d=e%3A", "abc.com", None, ()),
        ("hrn://-@abc.com", "-", "abc.com", None, ()),
        ("hrn://abc.com/$-_.+/!*'(),", None, "abc.com", None, ("$-_.+", "!*'(),")),
        ("hrn://abc.com/-/" + UUID, None, "abc.com", None, ("-", UUID)),
    ],
)
def test_a_name_is_parsed_into_its_levels_and_given_back(
    text: str, user: str | None, host: str | None, uuid: str | None, names: tuple[str, ...]
) -> None:
    assert parse_hrn(text) == Hrn(user, host, uuid, names)
    assert str(parse_hrn(text)) == text


@each_row(
    ("text", "normal"),
    [
        ("HRN://ABC.Com/Ads", "hrn://abc.com/Ads"),
        (f"Hrn://-/{UUID.upper()}/XML", f"hrn://-/{UUID}/XML"),
        ("hrn://John@abc.com", "hrn://John@abc.com"),
        ("hrn://%4aohn@abc.com", "hrn://John@abc.com"),
        ("hrn://abc.com/%61%41%30%2d%2E%5f", "hrn://abc.com/aA0-._"),
        ("hrn://abc.com/%e2%82%ac%2f", "hrn://abc.com/%E2%82%AC%2F"),
        # one step of decoding, not two
        ("hrn://abc.com/%2541", "hrn://abc.com/%2541"),
        ("hrn://abc.com/%25%34%31", "hrn://abc.com/%2541"),
        # what has a purpose in a user keeps its escape
        ("hrn://%3b%3f%26%3d@abc.com", "hrn://%3B%3F%26%3D@abc.com"),
    ],
)
def test_equal_names_have_one_normal_form_and_one_hash(text: str, normal: str) -> None:
    assert str(parse_hrn(text)) == normal
    assert parse_hrn(text) == parse_hrn(normal)
    assert hash(parse_hrn(text)) == hash(parse_hrn(normal))


def test_deviation_the_unreserved_characters_are_those_of_the_draft() -> None:
    # unreserved in the draft, reserved in RFC 3986
    assert str(parse_hrn("hrn://abc.com/%24%2b%21%2a%27%28%29%2c")) == "hrn://abc.com/$+!*'(),"
    # unreserved in RFC 3986, absent from the draft
    assert str(parse_hrn("hrn://abc.com/%7euser")) == "hrn://abc.com/%7Euser"


@each_row(
    ("one", "other"),
    [
        ("hrn://abc.com/ads", "hrn://abc.com/Ads"),
        ("hrn://john@abc.com", "hrn://John@abc.com"),
        ("hrn://abc.com/a%2Fb", "hrn://abc.com/a/b"),
        ("hrn://a;b@abc.com", "hrn://a%3Bb@abc.com"),
        ("hrn://@abc.com", "hrn://abc.com"),
        ("hrn://10.0.0.1", "hrn://10.0.0.01"),
        (f"hrn://-/{UUID}", f"hrn://abc.com/{UUID}"),
    ],
)
def test_names_that_mean_different_things_stay_different(one: str, other: str) -> None:
    assert parse_hrn(one) != parse_hrn(other)
    assert str(parse_hrn(one)) == one


def test_dots_are_names_like_any_other() -> None:
    assert parse_hrn("hrn://abc.com/a/../%2e/b").names == ("a", "..", ".", "b")


PREFIX = "an hrn: name must begin with 'hrn://'"
NO_UUID = "hrn://- must be followed by a UUID, 8-4-4-4-12 hex digits"
ESCAPE = "'%' must be followed by two hex digits"
EMPTY_NAME = "a name may not be empty"
EMPTY_LABEL = "a label of a host name may not be empty"
LABEL_BEGINS = "a label of a host name must begin with a letter or digit"
LABEL_ENDS = "a label of a host name must end with a letter or digit"
TOPLABEL = "the last label of a host name must begin with a letter"
NO_HOST = "an authority must name a host"
IN_HOST = "has no place in a host: ASCII letters, digits, '-' and '.' only"


@each_row(
    ("text", "reason", "position"),
    [
        ("", PREFIX, 0),
        ("hrn:", PREFIX, 4),
        ("hrn:/abc.com", PREFIX, 5),
        ("http://abc.com", PREFIX, 1),
        (" hrn://abc.com", PREFIX, 0),
        ("hr\u0274://abc.com", PREFIX, 2),
        ("hrn://", NO_HOST, 6),
        ("hrn:///a", NO_HOST, 6),
        ("hrn://john@", NO_HOST, 11),
        ("hrn://john@/a", NO_HOST, 11),
        ("hrn://abc.com:80", f"':' {IN_HOST}", 13),
        ("hrn://a%62c.com", f"'%' {IN_HOST}", 7),
        ("hrn://a_b.com", f"'_' {IN_HOST}", 7),
        ("hrn://b\u00fccher.de", f"'\u00fc' {IN_HOST}", 7),
        ("hrn://\u0661.1.1.1", f"'\u0661' {IN_HOST}", 6),
        ("hrn://[::1]/a", f"'[' {IN_HOST}", 6),
        ("hrn://abc.com?q", f"'?' {IN_HOST}", 13),
        ("hrn://abc.com\n", f"'\\n' {IN_HOST}", 13),
        ("hrn://.com", EMPTY_LABEL, 6),
        ("hrn://abc..com", EMPTY_LABEL, 10),
        ("hrn://abc.com.", EMPTY_LABEL, 14),
        ("hrn://john@-abc.com", LABEL_BEGINS, 11),
        ("hrn://abc.-com", LABEL_BEGINS, 10),
        (f"hrn://john@-/{UUID}", LABEL_BEGINS, 11),
        ("hrn://--", LABEL_BEGINS, 6),
        ("hrn://abc-.com", LABEL_ENDS, 9),
        ("hrn://abc.com-/a", LABEL_ENDS, 13),
        ("hrn://abc.3com/a", TOPLABEL, 10),
        ("hrn://7", TOPLABEL, 6),
        ("hrn://1.2.3", TOPLABEL, 10),
        ("hrn://1.2.3.4.5", TOPLABEL, 14),
        ("hrn://john:secret@abc.com", "':' has no place in a user: write it as %3A", 10),
        ("hrn://john@doe@abc.com", "'@' has no place in a user: write it as %40", 10),
        ("hrn://john%@abc.com", ESCAPE, 10),
        ("hrn://abc.com/", EMPTY_NAME, 14),
        ("hrn://abc.com//a", EMPTY_NAME, 14),
        ("hrn://abc.com/a/", EMPTY_NAME, 16),
        ("hrn://abc.com/a%", ESCAPE, 15),
        ("hrn://abc.com/a%4/1", ESCAPE, 15),
        ("hrn://abc.com/%4g", ESCAPE, 14),
        ("hrn://abc.com/%\uff14\uff11", ESCAPE, 14),
        ("hrn://abc.com/%41%%34%31", ESCAPE, 17),
        ("hrn://abc.com/a b", "' ' has no place in a name: write it as %20", 15),
        ("hrn://abc.com/a\n", "'\\n' has no place in a name: write it as %0A", 15),
        ("hrn://abc.com/~john", "'~' has no place in a name: write it as %7E", 14),
        ("hrn://abc.com/a?b", "'?' has no place in a name: write it as %3F", 15),
        ("hrn://abc.com/a#b", "'#' has no place in a name: write it as %23", 15),
        ("hrn://abc.com/a/\u20ac", "'\u20ac' has no place in a name: write it as %E2%82%AC", 16),
        ("hrn://abc.com/\ud800", "'\\ud800' has no place in a name: write it as %ED%A0%80", 14),
        ("hrn://-", NO_UUID, 7),
        ("hrn://-/", NO_UUID, 8),
        ("hrn://-//a", NO_UUID, 8),
        ("hrn://-/ads", NO_UUID, 10),
        (f"hrn://-/{UUID[:-1]}", NO_UUID, 43),
        (f"hrn://-/{UUID[:-1]}/xml", NO_UUID, 43),
        (f"hrn://-/{UUID}0", NO_UUID, 44),
        (f"hrn://-/{UUID.replace('-', '')}", NO_UUID, 16),
        ("hrn://-/xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx", NO_UUID, 8),
        (f"hrn://-/{UUID[:-1]}\uff16", NO_UUID, 43),
        (f"hrn://-/{UUID}/", EMPTY_NAME, 45),
        (f"hrn://-/{UUID}/%", ESCAPE, 45),
        # the first fault is the one that is told
        ("hrn://abc.com/%/~", ESCAPE, 14),
        ("hrn://a_b.com/%", f"'_' {IN_HOST}", 7),
    ],
)
def test_a_fault_is_told_with_its_reason_and_its_position(text: str, reason: str, position: int) -> None:
    with pytest.raises(UrlError) as caught:
        parse_hrn(text)
    assert (caught.value.value, caught.value.reason, caught.value.position) == (text, reason, position)


@each_row(
    ("text", "implied"),
    [
        # draft-pstickler-hrn-00, 3: the example
        (
            "hrn://abc.com/288918293/3/en/global/docbook",
            [
                "hrn://abc.com/288918293/3/en/global",
                "hrn://abc.com/288918293/3/en",
                "hrn://abc.com/288918293/3",
                "hrn://abc.com/288918293",
                "hrn://abc.com",
            ],
        ),
        ("hrn://abc.com", []),
        ("hrn://john.doe@widgets.org/thesis", ["hrn://john.doe@widgets.org"]),
        ("hrn://john.doe@widgets.org", []),
        (f"hrn://-/{UUID}/xml/a", [f"hrn://-/{UUID}/xml", f"hrn://-/{UUID}"]),
        (f"hrn://-/{UUID}", []),
    ],
)
def test_a_name_implies_every_level_above_it_nearest_first(text: str, implied: list[str]) -> None:
    assert [*parse_hrn(text).levels()][1:] == implied


def is_within(one: Hrn, other: Hrn) -> bool:
    """Whether a name is another one or subordinate to it."""
    return str(other) in one.levels()


@each_row(
    ("text", "other", "within"),
    [
        ("hrn://abc.com/ads", "hrn://abc.com/ads", True),
        ("hrn://abc.com/ads/video", "hrn://ABC.com/%61ds", True),
        ("hrn://abc.com/ads/video", "hrn://abc.com", True),
        ("hrn://abc.com/ads", "hrn://abc.com/ads/video", False),
        ("hrn://abc.com/adserver", "hrn://abc.com/ads", False),
        ("hrn://www.abc.com/ads", "hrn://abc.com", False),
        ("hrn://john@abc.com/ads", "hrn://abc.com", False),
        ("hrn://abc.com/ads", "hrn://john@abc.com", False),
        (f"hrn://-/{UUID}/xml", f"hrn://-/{UUID}", True),
        (f"hrn://-/{UUID}/xml", f"hrn://-/{UUID[:-1]}7", False),
        (f"hrn://abc.com/{UUID}", f"hrn://-/{UUID}", False),
    ],
)
def test_within_means_equal_or_subordinate(text: str, other: str, within: bool) -> None:
    assert is_within(parse_hrn(text), parse_hrn(other)) is within


def test_a_name_has_so_many_levels_and_characters_at_most() -> None:
    for authority in ("abc.com", f"-/{UUID}"):
        longest = f"hrn://{authority}" + "/a" * 32
        assert len([*parse_hrn(longest).levels()]) == 33
        with pytest.raises(UrlError) as refused:
            parse_hrn(longest + "/b/c")
        assert refused.value.reason == "an hrn: name has at most 32 levels"
        assert refused.value.position == len(longest) + 1
    assert parse_hrn("hrn://a/" + "b" * 1016)
    with pytest.raises(UrlError, match=r"at most 1,024 characters \(at position 1024\)"):
        parse_hrn("hrn://a/" + "b" * 1017)
