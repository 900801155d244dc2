"""Who changes a policy at the page must be able to change it back."""

from __future__ import annotations

from pathlib import Path

import pytest

from hushlist.extensions.policy_edits.policy_trial import Editor
from support.policies import read_whole

HASH = "scrypt$n=32768,r=8,p=1$FF/lesFn3JMqoLvUO0V5JrtcLJ86cdbF+7pOUJbLaWM$CXwQiDSS76ksIiRADMfw4x83bFh1FHOH08JdSf7fNEk"
ANNA = f"{{name: anna, role: manage, passphrase: '{HASH}'}}"
LIVE = "live: {clients: [10.0.0.0/8]}\n"
JO = f"{{name: jo, role: approve, passphrase: '{HASH}'}}"


@pytest.mark.parametrize(
    ("text", "name", "why"),
    [
        (f"admin: [{ANNA}]\n{LIVE}", "anna", None),
        (f"admin: [{ANNA}]\n{LIVE}", "", None),  # a program's token
        (f"admin: [{ANNA}]\nlive: {{clients: [10.1.0.0/16]}}\n", "anna", "'live' has to allow 10.0.0.7"),
        (f"admin: [{ANNA}]\nlive: off\n", "anna", "'live' has to allow 10.0.0.7"),
        (LIVE, "anna", "nobody could sign in who may change it back"),
        (f"admin: [{JO}]\n{LIVE}", "jo", "nobody could sign in who may change it back"),
        (f"admin: [{ANNA}, {JO}]\n{LIVE}", "jo", "'admin' has to name jo with the role manage"),
        (
            f"admin: [{ANNA}]\n{LIVE}extensions: [dashboard, unblock, databases]\n",
            "anna",
            "'extensions' leaves out policy_edits",
        ),
    ],
)
def test_a_policy_that_would_lock_its_editor_out_is_named(
    tmp_path: Path, text: str, name: str, why: str | None
) -> None:
    policy, errors = read_whole(tmp_path, f"{text}layers: []\n")
    assert errors == []
    said = Editor(name, "10.0.0.7", None).lock_out(policy)
    assert (said is None) is (why is None)
    assert why is None or why in str(said)
