"""What is broad about a rule."""

from ipaddress import ip_network

from hushlist.core.match.expressions import full_hash
from hushlist.core.match.overbroad import BreadthTest
from hushlist.core.match.rule import Action, ExpressionHash, Rule, Terms
from hushlist.core.match.seal import SealKey
from hushlist.extensions.adblock.filter_reader import parse_filter
from unit.rows import each_row

POPULAR = (
    *(b"www.popular.example", b"amazon.co.uk", b"b.popular.example", b"github.io", b"[2001:db8::1]", b"192.0.2.1"),
    b"a.b.c.d.e.f.g.deep.example",
)
BREADTH = BreadthTest(POPULAR)
BELOW = "the rule covers every site below it"


@each_row(
    ("expression", "why"),
    [
        (b"org.uk/", f"it is a public suffix (as com is): {BELOW}"),
        (b"blogspot.com/", f"it is a public suffix (as github.io is): {BELOW}"),
        (b"pages.dev/", f"it is a public suffix (as github.io is): {BELOW}"),
        # internationalized ones are A-labels
        ("公司.cn".encode("idna") + b"/", f"it is a public suffix (as com is): {BELOW}"),
        # by a wildcard, directly below it, and the name that has the wildcard
        (b"any.ck/", f"it is a public suffix (as com is): {BELOW}"),
        (b"x.compute.amazonaws.com/", f"it is a public suffix (as github.io is): {BELOW}"),
        (b"kobe.jp/", f"every name directly below it is a public suffix (as com is): {BELOW}"),
        # a label alone
        (b"com/", f"it is a top-level domain: {BELOW}"),
        (b"ck/", f"it is a top-level domain: {BELOW}"),
        ("рф".encode("idna") + b"/", f"it is a top-level domain: {BELOW}"),
        (b"printer/", f"it is a single label: {BELOW}"),
        # popular domains and what is above them
        (b"www.popular.example/", "it is number 1 of the popular domains"),
        (b"popular.example/", "it covers www.popular.example, number 1 of the popular domains"),
        (b"b.popular.example/", "it is number 3 of the popular domains"),
        (b"192.0.2.1/", "it is number 6 of the popular domains"),
        (b"[2001:db8::1]/", "it is number 5 of the popular domains"),
        (b"b.c.d.e.f.g.deep.example/", "it covers a.b.c.d.e.f.g.deep.example, number 7 of the popular domains"),
        (b"deep.example/", "it covers a.b.c.d.e.f.g.deep.example, number 7 of the popular domains"),
        # both
        (
            b"co.uk/",
            f"it is a public suffix (as com is): {BELOW}; it covers amazon.co.uk, number 2 of the popular domains",
        ),
        (
            b"github.io/",
            f"it is a public suffix (as github.io is): {BELOW}; it is number 4 of the popular domains",
        ),
    ],
)
def test_a_rule_for_a_host_that_many_share_is_broad(expression: bytes, why: str) -> None:
    assert BREADTH.of_expression(expression) == why
    assert BREADTH.suspects([b"ads.example/", expression]) == {expression}
    assert BREADTH.is_popular(expression) is ("popular domains" in why)


@each_row(
    "expression",
    [
        *(b"ads.example/", b"example.co.uk/", b"me.github.io/", b"a.b.compute.amazonaws.com/"),
        # exceptions of wildcards
        *(b"www.ck/", b"city.kobe.jp/"),
        # below a popular domain, beside it, or ending like it
        *(b"ads.www.popular.example/", b"c.popular.example/", b"unpopular.example/"),
        # not the whole host
        *(b"co.uk/x", b"com/x", b"com/a.ck/", b"com/?ck/", b"www.popular.example/x/", b"github.io/?q"),
        # addresses have no parents
        *(b"[::1]/", b"2.1/", b"0.2.1/", b"192.0.2.2/"),
        b"www.popular.example",
    ],
)
def test_a_rule_for_less_is_not(expression: bytes) -> None:
    assert BREADTH.of_expression(expression) is None
    assert not BREADTH.is_popular(expression)


def test_without_popular_domains_public_suffixes_are_suspect() -> None:
    assert BreadthTest(()).suspects([b"ads.example/", b"co.uk/", b"any.ck/", b"www.popular.example/"]) == {
        b"co.uk/",
        b"any.ck/",
    }


KEY, OTHER = SealKey(bytes(32)), SealKey(bytes(range(32)))
SEALED = KEY.sealer()(b"co.uk/")
IT_IS = "the hash of co.uk/: it is a public suffix"


@each_row(
    ("pattern", "key", "why"),
    [
        (ExpressionHash(full_hash(b"co.uk/")), None, f"it is {IT_IS}"),
        (ExpressionHash(full_hash(b"co.uk/")), KEY, f"it is {IT_IS}"),
        (ExpressionHash(full_hash(b"co.uk/")[:31]), None, f"it begins {IT_IS}"),
        (
            ExpressionHash(full_hash(b"popular.example/")[:4]),
            None,
            "it begins the hash of popular.example/: it covers www.popular.example, number 1",
        ),
        (ExpressionHash(SEALED, KEY.fingerprint), KEY, f"it is {IT_IS}"),
        (ExpressionHash(SEALED[:8], KEY.fingerprint), KEY, f"it begins {IT_IS}"),
        (ExpressionHash(SEALED, KEY.fingerprint), OTHER, None),
        (ExpressionHash(SEALED, KEY.fingerprint), None, None),
        (ExpressionHash(SEALED), KEY, None),
        (ExpressionHash(full_hash(b"www.ck/")), None, None),
        (ExpressionHash(full_hash(b"ads.example/")), None, None),
    ],
)
def test_a_hash_is_broad_if_it_is_that_of_a_broad_rule(
    pattern: ExpressionHash, key: SealKey | None, why: str | None
) -> None:
    found = BREADTH.of_hash(pattern, key)
    assert (found and found[: len(why or "")]) == why


@each_row(
    ("network", "covers"),
    [
        ("8.0.0.0/8", "16,777,216 addresses"),
        ("2a00::/20", "4,096 blocks of /32, each as large as a provider's"),
        ("10.0.0.0/8", "16,777,216 addresses, and the whole of 10.0.0.0/8 (private use)"),
        ("172.16.0.0/12", "the whole of 172.16.0.0/12 (private use)"),
        ("172.0.0.0/11", "the whole of 172.16.0.0/12 (private use)"),
        ("192.168.0.0/16", "the whole of 192.168.0.0/16 (private use)"),
        ("::1/128", "the whole of ::1/128 (loopback)"),
        ("::/64", "the whole of ::1/128 (loopback)"),
        (
            "fe80::/9",
            "8,388,608 blocks of /32, each as large as a provider's, and the whole of fe80::/10 (link local)",
        ),
        (
            "::/0",
            "4,294,967,296 blocks of /32, each as large as a provider's, and the whole of ::1/128 (loopback), "
            "fc00::/7 (unique local), fe80::/10 (link local)",
        ),
    ],
)
def test_a_whole_address_range_is_broad(network: str, covers: str) -> None:
    assert BREADTH.of_range(ip_network(network)) == f"a whole address range: it covers {covers}"


@each_row(
    "text", ["http", "*$all", "/.*/$all", "||com", ".com", "|https://*$all", "@@*$document", "||www.", "*$script"]
)
def test_a_filter_that_fits_nearly_every_url_is_broad(text: str) -> None:
    rule = Rule(parse_filter(text), Terms(Action.BLOCK, "l", "f"), 1)
    assert BREADTH.of_rule(rule) == "it fits hosts that nobody has named"


@each_row(
    "text",
    ["||a.example^", "/ads/*.js", "*$domain=a.example", "||com.example", "-ads-", "abc", "789", "/^https?:\\/\\/ads/"],
)
def test_a_filter_of_some_urls_is_not_broad(text: str) -> None:
    assert parse_filter(text).why_broad(BREADTH) is None


def test_every_address_for_everything_is_the_broadest() -> None:
    assert BREADTH.of_range(ip_network("0.0.0.0/0")) == (
        "a whole address range: it covers 4,294,967,296 addresses, and the whole of 0.0.0.0/8 (this network), "
        "10.0.0.0/8 (private use), 100.64.0.0/10 (shared by a provider's customers), 127.0.0.0/8 (loopback), "
        "169.254.0.0/16 (link local), 172.16.0.0/12 (private use), 192.168.0.0/16 (private use)"
    )


@each_row(
    "network",
    [
        "8.0.0.0/9",
        "192.0.2.0/24",
        "192.0.2.1/32",
        "10.0.0.0/9",
        "127.0.0.1/32",
        "2a00::/21",
        "2001:db8::/32",
        "::2/128",
    ],
)
def test_a_part_of_a_provider_or_of_a_special_block_is_not(network: str) -> None:
    assert BREADTH.of_range(ip_network(network)) is None
