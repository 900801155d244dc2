"""The example of an extension, installed by pip into an environment that does not have it, with a real mitmdump."""

import re
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path
from shutil import copytree

import httpx
import pytest

from e2e.origin import Origin
from e2e.proxy import CHECKOUT, mitmdump

EXAMPLE = CHECKOUT / "examples" / "extension"
POLICY = """
extensions: [built-in, example]
refuse-types: [application/zip]
layers: [{name: lists, lists: [names.bw, bad.pw]}]
"""

pytestmark = pytest.mark.thorough


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with what this one has, and the example; its Python."""
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder / "env", with_pip=False)
    python = folder / "env" / "bin" / "python"
    site = next((folder / "env").glob("lib/python*/site-packages"))
    (site / "outer.pth").write_text(f"{sysconfig.get_path('purelib')}\n{CHECKOUT / 'addon'}\n")
    install = [sys.executable, "-m", "pip", "--python", str(python), "install", "--no-deps", "--no-build-isolation"]
    copytree(EXAMPLE, folder / "example")  # building leaves files beside it
    done = subprocess.run(
        [*install, "--no-index", "--quiet", str(folder / "example")],
        capture_output=True,
        text=True,
        cwd=folder,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return python


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    (tmp_path / "bad.pw").write_text("Poker\n")
    (tmp_path / "names.bw").write_text("# from their end\ntest.blocked\nno name\n")
    path = tmp_path / "policy.yaml"
    path.write_text(POLICY)
    return path


def run(python: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([python, "-m", "hushlist", *arguments], capture_output=True, text=True, check=False)


def test_it_brings_a_command_and_a_format(environment: Path, policy: Path) -> None:
    assert run(environment, "backwards", "ads.example", "a.b.c").stdout == "example.ads\nc.b.a\n"
    assert "write names from their end" in run(environment, "--help").stdout
    checked = run(environment, "check", "--policy", str(policy), "http://www.blocked.test/x")
    assert checked.returncode == 1
    assert "names.bw:2" in run(environment, "explain", "--policy", str(policy), "http://blocked.test/").stdout


def test_it_brings_a_matcher(environment: Path, policy: Path) -> None:
    urls = [f"http://a.test{path}" for path in ("/online-%70OKER/x", "/?poker", "/chess")]
    checked = run(environment, "check", "--policy", str(policy), *urls)
    assert [line.split()[0] for line in checked.stdout.splitlines()] == ["block", "pass", "pass"]
    assert "bad.pw:1" in checked.stdout


def test_it_is_in_no_policy_that_does_not_name_it(environment: Path, policy: Path) -> None:
    policy.write_text(POLICY.replace(", example", ""))
    checked = run(environment, "check", "--policy", str(policy), "http://blocked.test/")
    assert checked.returncode == 2
    assert re.search(r"policy\.yaml:3: .*refuse-types.*unknown key", checked.stderr)


def test_it_ends_answers_in_a_real_proxy(environment: Path, policy: Path, origin: Origin) -> None:
    origin.pages |= {"/a.zip": ("application/zip", b"PK"), "/a.txt": ("text/plain", b"text")}
    with mitmdump(policy.parent, origin, policy=policy, command=[str(environment)]) as proxy, proxy.client() as client:
        assert client.get("http://a.test/a.txt").text == "text"
        assert client.get("http://blocked.test/").status_code == 403
        with pytest.raises(httpx.RemoteProtocolError):
            client.get("http://a.test/a.zip")
