"""Who may see the live page."""

from functools import partial

from hushlist.core.policy.groups import Client
from support.readings import read_key
from unit.rows import each_row

read = partial(read_key, "live")


@each_row(
    ("text", "client", "may"),
    [
        ("on", Client("127.0.0.1"), True),
        ("on", Client("127.9.9.9"), True),
        ("on", Client("::1"), True),
        ("on", Client("::ffff:127.0.0.1"), True),
        ("on", Client("192.168.1.7"), False),
        ("on", Client(""), False),
        ("on", Client("localhost"), False),
        ("{}", Client("127.0.0.1"), True),
        ("{clients: [192.168.1.0/24]}", Client("192.168.1.7"), True),
        ("{clients: [192.168.1.0/24]}", Client("127.0.0.1"), True),
        ("{clients: [192.168.1.0/24], users: [admin]}", Client("192.168.1.7"), False),
        ("{clients: [192.168.1.0/24], users: [admin]}", Client("192.168.1.7", "anna"), False),
        ("{clients: [192.168.1.0/24], users: [admin]}", Client("192.168.1.7", "admin"), True),
        ("{users: [admin]}", Client("192.168.1.7", "admin"), False),
        ("{users: [admin]}", Client("127.0.0.1", "admin"), True),
    ],
)
def test_the_client_s_address_and_user_both_have_to_fit(text: str, client: Client, may: bool) -> None:
    live, errors = read(text)
    assert errors == []
    assert live is not None
    assert live.fits(client) is may


@each_row(
    ("text", "why"),
    [
        ("maybe", "expected on, off or a mapping with clients, users"),
        ("{clients: []}", "expected some clients, not an empty list"),
        ("{users: []}", "expected some users, not an empty list"),
        ("{clients: [10.0.0.7/8]}", "the network is 10.0.0.0/8"),
        ("{ports: [80]}", "unknown key"),
    ],
)
def test_what_is_wrong_is_told_with_its_line(text: str, why: str) -> None:
    _, errors = read(text)
    assert len(errors) == 1
    assert errors[0].startswith("p:1: ")
    assert why in errors[0]


@each_row("text", ["{clients: [nonsense]}", "{users: ['']}", "{clients: []}", "{users: []}"])
def test_what_is_wrong_opens_it_to_nobody_else(text: str) -> None:
    live, errors = read(text)
    assert errors
    assert live is None or not live.fits(Client("192.168.1.7", "admin"))
