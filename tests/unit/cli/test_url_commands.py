"""``hushlist canonicalize`` and the other commands that need no policy: exact output, errors, exit codes."""

import os
from pathlib import Path

import pytest

from hushlist.core.lists.list_formats import FORMATS
from hushlist.core.lists.list_source import ListDefaults, ProblemReport
from hushlist.core.match.expressions import full_hash
from unit.cli.running import NO_HOST, Run
from unit.rows import each_row

# -- canonicalize, expressions, hash -----------------------------------------------------------------------------------


def test_canonicalize_prints_one_canonical_url_a_line(run: Run) -> None:
    assert run("canonicalize", "HTTP://H.example:80/a/..", "www.google.com") == (
        0,
        "http://h.example/\nhttp://www.google.com/\n",
        "",
    )


def test_canonicalize_keeps_one_line_for_each_line_it_reads(run: Run) -> None:
    stdin = b"http://a.example\r\n\nmailto:me\nhttp://\xff/\x0b\x0c\xe2\x80\xa8x\nhttp://b/a\rb\n\tc.example"
    code, out, err = run("canonicalize", "-", stdin=stdin)
    assert out == "http://a.example/\n\n\nhttp://%FF/%0B%0C%E2%80%A8x\nhttp://b/ab\nhttp://c.example/\n"
    assert err == f"hushlist: '': {NO_HOST}\nhushlist: 'mailto:me': {NO_HOST}\n"
    assert code == 2


def test_arguments_and_standard_input_keep_their_order(run: Run) -> None:
    assert run("canonicalize", "a", "-", "b", stdin=b"x\ny\n")[1] == "http://a/\nhttp://x/\nhttp://y/\nhttp://b/\n"


def test_standard_input_that_is_empty_gives_nothing(run: Run) -> None:
    assert run("canonicalize", "-") == (0, "", "")


def test_expressions_are_printed_one_a_line(run: Run) -> None:
    assert run("expressions", "http://a.b.c/1/2.html?param=1") == (
        0,
        "a.b.c/1/2.html?param=1\na.b.c/1/2.html\na.b.c/1/\na.b.c/\nb.c/1/2.html?param=1\nb.c/1/2.html\nb.c/1/\nb.c/\n",
        "",
    )


def test_hash_prints_expression_tab_and_sha_256(run: Run) -> None:
    lines = "".join(f"{text}\t{full_hash(text.encode()).hex()}\n" for text in ("a.example/x", "a.example/"))
    assert run("hash", "http://a.example/x") == (0, lines, "")


def test_prefixes_are_beginnings_of_the_hashes(run: Run) -> None:
    first = full_hash(b"a.example/")
    assert run("prefixes", "http://a.example/") == (0, f"a.example/\t{first[:4].hex()}\n", "")
    assert run("prefixes", "--length", "32", "a.example") == run("hash", "a.example")


@pytest.mark.parametrize("command", ["expressions", "hash", "prefixes"])
def test_a_url_that_cannot_be_read_is_named_and_the_rest_goes_on(run: Run, command: str) -> None:
    code, out, err = run(command, "/x", "a.example")
    assert (code, err) == (2, f"hushlist: '/x': {NO_HOST}\n")
    assert out.startswith("a.example/")


def test_an_argument_s_octets_are_taken_as_they_are(run: Run) -> None:
    assert run("canonicalize", os.fsdecode(b"http://h/\xff"))[1] == "http://h/%FF\n"


def test_the_hashed_uri_of_a_url_is_printed_on_demand(run: Run) -> None:
    assert run("hash", "--uri", "http://www.thus.net") == (
        0,
        "hashed:sha1=87ed28009f511ed7ef630180a229ba257180a481\n",
        "",
    )
    assert run("hash", "--uri", "--keep-fragment", "http://www.thus.net#end")[1] == (
        "hashed:sha1=31a79a96e0404778a3b95cb426b04b6114a604a5+frag\n"
    )
    assert run("hash", "--uri", "--algorithm", "md5", "mailto:clive@demon.net")[1] == (
        "hashed:md5=cd933f3b87ee60e58917448c9678ee32\n"
    )


def test_relative_references_are_resolved_against_a_base(run: Run) -> None:
    base = ("--base", "http://h.example/a/b?c#d")
    assert run("canonicalize", *base, "../x", "//o.example", "http://h/") == (
        0,
        "http://h.example/x\nhttp://o.example/\nhttp://h/\n",
        "",
    )
    assert run("hash", *base, "x") == run("hash", "http://h.example/a/x")
    assert run("hash", "--uri", *base, "x") == run("hash", "--uri", "http://h.example/a/x")
    assert run("hash", "--uri", "--base", "/x", "y")[0] == 2


@each_row(
    ("options", "text", "expected"),
    [
        (["--html"], b"http://h/ros&eacute;?a&amp;b&copy=1", "http://h/ros%C3%A9?a&b&copy=1"),
        (["--xml"], b"http://h/ros&#xE9;?a&amp;b&eacute;", "http://h/ros%C3%A9?a&b&eacute;"),
        (["--mime"], b"http://h/a=3D=E9", "http://h/a=%E9"),
        (["--base64"], b"aHR0cDovL2gvYT1i", "http://h/a=b"),
        (["--mime", "--encoding", "iso-8859-1", "--html"], b"http://h/=E9&lt;", "http://h/%C3%A9<"),
        # "a normalizing transcoder using NFC MUST be used"; "IRIs already in Unicode MUST NOT be normalized"
        (["--encoding", "windows-1258"], b"http://h/Vi\xea\xf2t", "http://h/Vi%E1%BB%87t"),
        (["--encoding", "gb18030"], "http://h/e\u0301".encode("gb18030"), "http://h/e%CC%81"),
        ([], "http://h/e\u0301".encode(), "http://h/e%CC%81"),
    ],
)
def test_what_the_text_around_a_url_has_done_is_undone(
    run: Run, options: list[str], text: bytes, expected: str
) -> None:
    assert run("canonicalize", *options, "-", stdin=text + b"\n") == (0, f"{expected}\n", "")


def test_extract_undoes_it_for_the_whole_text(run: Run) -> None:
    mail = b"see http://h.example/a=\r\n/b=3Dc&amp;d today"
    assert run("extract", "--mime", "--html", stdin=mail) == (0, "http://h.example/a/b=c&d\n", "")
    mail = b"c2VlIGh0dHA6Ly9oLmV4YW1wbGUv\r\nYS9iP2MmYW1wO2QgdG9k\r\nYXk=\r\n"
    assert run("extract", "--base64", "--html", stdin=mail) == (0, "http://h.example/a/b?c&d\n", "")
    body = b'12\r\nsee http://h.examp\r\n8;a="b"\r\nle/a=3Db\r\n000\r\nTrailer: http://o.example/\r\n\r\n'
    assert run("extract", "--chunked", "--mime", stdin=body) == (0, "http://h.example/a=b\n", "")
    assert run("extract", "--chunked", stdin=body[:20])[0] == 2
    code, _, err = run("extract", "--encoding", "utf-8", stdin=b"\xff")
    assert (code, err.startswith("hushlist: -: no text in utf-8: ")) == (2, True)
    assert run("extract", "--encoding", "nope", stdin=b"x") == (2, "", "hushlist: -: no known character encoding\n")
    assert run("extract", "--xml", stdin=b"&#0;") == (2, "", "hushlist: -: the reference is to no character of XML\n")


@each_row(
    "typed",
    [
        *("<http://h.example/>", "< http://h.example/ >", "<URL:http://h.example/>", "<url: http://h.example/>"),
        *('"http://h.example/"', '"URL:http://h.example/"', "URL:http://h.example/"),
        *("URL:h.example", "<h.example>"),
    ],
)
def test_what_delimits_a_url_that_a_person_types_is_taken_off(run: Run, typed: str) -> None:
    assert run("canonicalize", typed) == (0, "http://h.example/\n", "")
    assert run("compare", typed, "http://h.example")[0] == (0 if "//" in typed else 2)


@each_row("typed", ["<http://h.example", "http://h.example>", '"h.example', 'h.example"', '"', "<"])
def test_a_delimiter_on_one_side_is_an_error(run: Run, typed: str) -> None:
    code, out, err = run("canonicalize", typed)
    assert (code, out) == (2, "")
    assert "stands on one side alone" in err


@pytest.mark.parametrize("typed", ["%68ttp://h.example/", "<h%74tps://h.example>", "URL:%68ttp://h.example/"])
def test_a_scheme_with_an_escape_is_not_read_as_a_host(run: Run, typed: str) -> None:
    code, out, err = run("canonicalize", typed)
    assert (code, out) == (2, "")
    assert "no scheme has an escape" in err


def test_bases_and_redirects_are_typed_too(run: Run) -> None:
    assert run("compare", "../b", "http://h.example/b", "--base", "<http://h.example/a/c>")[:2] == (0, "simple\n")
    redirect = ("--redirect", "<http://h.example/a>", '"/a/"')
    assert run("compare", "http://h.example/a", "http://h.example/a/", *redirect)[:2] == (0, "protocol\n")
    assert run("canonicalize", "b", "--base", "URL:http://h.example/a")[:2] == (0, "http://h.example/b\n")


def test_a_host_may_be_called_url(run: Run) -> None:
    assert run("canonicalize", "url:80", "URL:8080/x", "<")[1] == "http://url/\nhttp://url/x\n"


# -- profiles, compare -------------------------------------------------------------------------------------------------


@each_row(
    ("profile", "expected"),
    [
        ("safebrowsing", "http://h.example/b/c.html"),
        ("simple", "HTTP://H.example:80/a/../b//%63.html"),
        ("syntax", "http://h.example:80/b//c.html"),
        ("scheme", "http://h.example/b//c.html"),
        ("hashed-n", "http://h.example/b//c.html"),
        ("hashed-p", "http://h.example/b/c.htm"),
    ],
)
def test_canonicalize_knows_every_profile(run: Run, profile: str, expected: str) -> None:
    assert run("canonicalize", "--profile", profile, "HTTP://H.example:80/a/../b//%63.html") == (0, f"{expected}\n", "")


def test_profiles_are_listed_with_their_steps(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        run("canonicalize", "--list-profiles")
    assert ended.value.code == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.partition(":")[0] for line in lines] == [
        *("safebrowsing", "simple", "syntax", "scheme", "hashed-n", "hashed-p")
    ]
    assert lines[2].startswith("syntax: split_generic, map_to_uri, lowercase_scheme, ")


@each_row(
    ("argv", "code", "rung"),
    [
        (["http://h.example/a", "http://h.example/a"], 0, "simple"),
        (["http://h.example/a", "HTTP://h.example/%61"], 0, "syntax"),
        (["http://h.example", "http://h.example:80/"], 0, "scheme"),
        (["http://bücher.example/", "http://xn--bcher-kva.example/"], 0, "scheme"),
        (["http://h.example/a", "http://h.example/a/"], 1, "different"),
        (["http://h.example/a", "http://h.example/a/", "--redirect", "http://h.example/a", "/a/"], 0, "protocol"),
        (["../a", "http://h.example/a", "--base", "http://h.example/x/y"], 0, "simple"),
    ],
)
def test_compare_prints_the_lowest_rung(run: Run, argv: list[str], code: int, rung: str) -> None:
    assert run("compare", *argv) == (code, f"{rung}\n", "")


def test_for_a_network_action_fragments_do_not_count(run: Run) -> None:
    assert run("compare", "http://h.example/#a", "http://h.example/") == (1, "different\n", "")
    assert run("compare", "--network-action", "http://h.example/#a", "http://h.example/") == (0, "simple\n", "")


def test_compare_explains_what_each_step_changed(run: Run) -> None:
    code, out, _ = run("compare", "--explain", "http://H.example:80", "http://h.example/")
    assert code == 0
    assert out.splitlines() == [
        "scheme",
        "http://H.example:80",
        "  lowercase_host               http://h.example:80",
        "  remove_port                  http://h.example",
        "  complete_path                http://h.example/",
        "http://h.example/",
    ]


@pytest.mark.parametrize("argv", [["--base", "relative"], ["--redirect", "relative", "/a/"]])
def test_compare_names_what_is_not_absolute(run: Run, argv: list[str]) -> None:
    code, out, err = run("compare", "a", "b", *argv)
    assert (code, out) == (2, "")
    assert "b'relative'" in err or "'relative'" in err


def test_compare_refuses_a_relative_reference_without_a_base(run: Run) -> None:
    code, out, err = run("compare", "h.example/a", "http://h.example/a")
    assert (code, out) == (2, "")
    assert err.startswith(
        "hushlist: 'h.example/a': a relative reference has no target to compare without a base (--base)"
    )


# -- extract -----------------------------------------------------------------------------------------------------------

MAIL = (
    b'See "http://Games.Example/a/../Play#now", <mailto:me@h.example> and <http://h.example/in-\r\n dex.html>,\r\n'
    b"(www.h.example/caf\xe9), HTTP://games.example:80/Play.\r\n"
)


@pytest.mark.parametrize("files", [[], ["-"]])
def test_extract_prints_the_uris_of_a_text_one_a_line(run: Run, files: list[str]) -> None:
    assert run("extract", *files, stdin=MAIL) == (
        0,
        "http://Games.Example/a/../Play#now\nmailto:me@h.example\nhttp://h.example/in-dex.html\n"
        "http://h.example/index.html\nwww.h.example/caf\\xe9\nHTTP://games.example:80/Play\n",
        "",
    )


def test_extract_makes_a_list_of_expressions(run: Run, tmp_path: Path) -> None:
    mail = tmp_path / "mail.txt"
    mail.write_bytes(MAIL)
    code, out, err = run("extract", "--expressions", mail)
    assert out == "games.example/Play\nh.example/in-dex.html\nh.example/index.html\nwww.h.example/caf%E9\n"
    assert (code, err) == (0, f"hushlist: {mail}:1: mailto:me@h.example: left out: {NO_HOST}\n")
    report = ProblemReport("urls")
    assert [
        str(rule.pattern) for rule in FORMATS["urls"].read(out.encode(), ListDefaults(), report)
    ] == out.splitlines()
    assert (report.errors, report.warnings) == ([], [])


@pytest.mark.parametrize(
    ("argv", "stdin", "code"),
    [
        (["extract"], b"http://h.example", 0),
        (["extract"], b"no URI: none", 1),
        (["extract"], b"", 1),
        (["extract", "--expressions"], b"mailto:me@h.example", 1),
    ],
)
def test_extract_exits_with_1_where_there_is_nothing(run: Run, argv: list[str], stdin: bytes, code: int) -> None:
    assert run(*argv, stdin=stdin)[0] == code


@pytest.mark.parametrize("order", [("none.txt", "-"), ("-", "none.txt")])
def test_extract_names_a_file_that_is_not_there_and_reads_the_rest(run: Run, order: tuple[str, str]) -> None:
    found = run("extract", *order, stdin=b"http://h.example")
    assert found == (2, "http://h.example\n", "hushlist: none.txt: No such file or directory\n")
