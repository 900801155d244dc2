"""Formats by name and by a file's ending."""

from pathlib import PurePosixPath

from hushlist.core.lists.list_formats import FORMATS, list_format_of
from unit.rows import each_row


@each_row(
    ("path", "form"),
    [
        ("ads.yaml", "yaml"),
        ("ads.YML", "yaml"),
        ("folder/x.hashed", "hashed-uris"),
        ("ads.hosts", "hosts"),
        ("ut1/games/domains", "domains"),
        ("ut1/games/urls", "squidguard-urls"),
        ("ut1/adult/domains.0", "domains"),
        ("ut1/adult/urls.12", "squidguard-urls"),
        ("domains.x", None),
        ("hosts.0", None),
        ("etc/dnsmasq.conf", "dnsmasq"),
        ("ads.dnsmasq", "dnsmasq"),
        ("db.rpz", "rpz"),
        ("ads.adblock", "adblock"),
        ("urlhaus.csv", "csv"),
        ("drop.netset", "addresses"),
        ("hidden.sha256", "sha256"),
        ("drop.ipset", "addresses"),
        ("etc/hosts", "hosts"),
        ("list.txt", None),
        ("domains.txt", None),
        ("README", None),
        (".yaml", None),
    ],
)
def test_a_file_s_name_tells_its_format(path: str, form: str | None) -> None:
    assert list_format_of(PurePosixPath(path)) == form  # type: ignore[arg-type]
    assert form is None or form in FORMATS
