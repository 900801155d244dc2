"""Templates: what one may do, and that every mistake is told with its line."""

from __future__ import annotations

from base64 import b64encode
from hashlib import sha256
from pathlib import Path

import pytest

from hushlist.core.errors import SourceError
from hushlist.extensions.unblock.page_form import Unblock
from hushlist.proxy.page.pages import Explanation, page
from hushlist.proxy.page.template import NEEDED, VARIABLES, load_template, parse_template, shipped_template
from unit.hostile import seconds
from unit.rows import each_row

NEEDS = '<html lang="$lang" dir="$dir">\n<h1>$heading</h1>\n$reason\n$form\n'


def problems(text: str) -> list[tuple[int, str]]:
    try:
        parse_template(text, "own.html")
    except SourceError as error:
        found = error.problems
    else:
        return []
    assert {problem.source for problem in found} == {"own.html"}
    return [(problem.line, problem.what) for problem in found]


def test_a_template_of_ones_own_is_used(tmp_path: Path) -> None:
    path = tmp_path / "own.html"
    path.write_bytes(b"\xef\xbb\xbf<!-- for us:\n $nothing -->\r\n" + NEEDS.encode() + b"<p>$$5 $${url} ${url}</p>")
    body, headers = page(Explanation("http://h.example/?<b>", "Why"), "de", None, load_template(path))
    assert body.decode() == (
        '<html lang="de" dir="ltr">\n<h1>Diese Seite ist gesperrt</h1>\nWhy\n\n<p>$5 ${url} http://h.example/?&lt;b&gt;</p>'
    )
    assert "style-src" not in headers["Content-Security-Policy"]


def test_every_placeholder_can_be_used_in_a_template() -> None:
    text = NEEDS + "".join(f"<p>${name}</p>\n" for name in VARIABLES)
    body, _ = page(Explanation("http://h.example/"), "", None, parse_template(text, "own.html"))
    assert b"$" not in body


@each_row(
    ("addition", "what"),
    [
        ("$nothing", "$nothing"),
        ("${nothing}", "${nothing}"),
        ("5 $ a month", "$"),
        ("<script>alert(1)</script>", "<script>"),
        ("<link rel=stylesheet href=x.css>", "<link>"),
        ("<iframe></iframe>", "<iframe>"),
        ("<base href=/>", "<base>"),
        ("<img src='https://cdn.example/logo.png'>", "src"),
        ("<img src=logo.png>", "src"),
        ("<img src='$url'>", "$url"),
        ("<a href='$url'>", "$url"),
        ("<form action='$url'>", "$url"),
        ("<p style='color: red'>", "style"),
        ("<p onclick='x()'>", "onclick"),
        ("<p onclick='$url'>", "onclick"),
        ("<p title=$url>", "$url"),
        ("<p $url>", "$url"),
        ("<p $url='x'>", "$url"),
        ("<br $url/>", "$url"),
        ("<p title='$facts'>", "$facts"),
        ("<meta http-equiv='refresh' content='0;url=$url'>", "http-equiv"),
        ("<style>p { content: '$url' }</style>", "$url"),
    ],
)
def test_what_a_template_may_not_do_is_told_with_its_line(addition: str, what: str) -> None:
    assert (7, what) in problems(f"<!-- a\n comment -->{NEEDS}\n{addition}\n")


@each_row("name", NEEDED)
def test_a_placeholder_that_is_needed_must_be_there(name: str) -> None:
    assert problems(NEEDS.replace(f"${name}", "")) == [(0, f"${name}")]
    assert problems(NEEDS.replace(f"${name}", f"<!-- ${name} -->")) == [(0, f"${name}")]


def test_a_comment_that_is_not_closed_goes_on_to_the_end() -> None:
    text = parse_template(f"{NEEDS}<!-- $x <script>\n<!-- ", "own.html").text.template
    assert text.rstrip() == NEEDS.rstrip()
    assert (0, "$lang") in problems(f"<!--{NEEDS}")


@each_row("begun", ["<a", '<a b="', "</p", "<!doctype", "<?x"])
def test_a_tag_that_is_not_closed_is_told_with_its_line(begun: str) -> None:
    assert (5, begun.split()[0]) in problems(f"{NEEDS}{begun} c\n <b")


@each_row("declaration", ["<![x[ y ]]>", "<![-- x -->", "<!x>", "<![CDATA[ x ]]>", "<!>"])
def test_a_declaration_is_told_or_harmless(declaration: str) -> None:
    # Versions of Python's parser differ in which of them they read as comments, which show nothing.
    assert set(problems(f"{declaration}{NEEDS}")) <= {(1, "<!")}


@pytest.mark.slow
@each_row("unit", ["<!--", "<a ", '<a b="', "</", "<", "${", "$x", "<![CDATA[", "<?", "&#"])
def test_time_grows_as_the_length_of_a_template_does(unit: str) -> None:
    assert seconds(lambda: problems(unit * (100_000 // len(unit)))) < 1.5


def test_every_problem_is_told_in_the_order_of_the_lines() -> None:
    assert problems(f"$a\n{NEEDS}$b\n<script>\n") == [(1, "$a"), (6, "$b"), (7, "<script>")]


def test_a_file_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    path = tmp_path / "own.html"
    with pytest.raises(SourceError, match=r"own\.html: No such file"):
        load_template(path)
    path.write_bytes(NEEDS.encode() + b"\xff")
    with pytest.raises(SourceError, match=r"own\.html:5: the octet 0xFF: it is not UTF-8"):
        load_template(path)
    path.write_bytes(b" " * 2_000_000)
    with pytest.raises(SourceError, match="it is longer than 1,048,576 octets"):
        load_template(path)


def test_style_and_images_of_a_template_are_allowed_and_nothing_more() -> None:
    styles = ["p::after { content: '$$' }\n", "b { color: red }"]
    markup = "".join(f"<style>{style}</style>" for style in styles) + "<img alt='' src='data:image/png;base64,AAAA'>"
    template = parse_template((NEEDS + markup).replace("\n", "\r\n"), "own.html")
    _, headers = page(Explanation("http://h.example/"), "", Unblock("/x", "t"), template)
    hashes = [b64encode(sha256(style.replace("$$", "$").encode()).digest()).decode() for style in styles]
    assert headers["Content-Security-Policy"] == (
        f"default-src 'none'; style-src 'sha256-{hashes[0]}' 'sha256-{hashes[1]}'; img-src data:; base-uri 'none'; "
        "form-action 'self'; frame-ancestors 'self'; sandbox allow-forms"
    )


def test_the_shipped_template_explains_every_placeholder_in_a_comment_that_is_not_sent() -> None:
    source = (Path(page.__code__.co_filename).parent / "block_page.html").read_text(encoding="utf-8")
    comment = source.partition("-->")[0]
    assert all(name in comment for name in VARIABLES)
    assert shipped_template().text.template.startswith("<!doctype html>")
    assert "<!--" not in shipped_template().text.template
