"""What people do behind the filter of a family: live pages, video, large files, a chat, and the programs of a terminal.

Where something has to flow, the origin holds back the rest until the client has seen the beginning: what arrives only
at its end fails, on any machine.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import shutil
import subprocess
import tarfile
import zipfile
from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from shutil import which
from typing import Any

import pytest

from e2e.browser import BROWSER, CERTUTIL, DRIVER, FIREFOX, Firefox, chromium, firefox, trusting
from e2e.origin import LOOPBACK, PATIENCE
from e2e.proxy import CHECKOUT, Proxy, eventually, mitmdump
from e2e.services import GIT, GIT_BACKEND, Gate, Services, parts_of

pytestmark = [pytest.mark.thorough, pytest.mark.xdist_group("living"), pytest.mark.timeout(600)]

FAMILY = CHECKOUT / "examples" / "family"
MEGABYTE = 1 << 20
#: octets of a large file, and by how much the proxy may grow while it passes
LARGE, MOST_GROWTH = 1 << 30, 150 * MEGABYTE


@pytest.fixture(scope="module")
def services(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Services]:
    with Services(tmp_path_factory.mktemp("services")) as running:
        yield running


@pytest.fixture(scope="module")
def proxy(tmp_path_factory: pytest.TempPathFactory, services: Services) -> Iterator[Proxy]:
    folder = tmp_path_factory.mktemp("family")
    shutil.copytree(FAMILY, folder, dirs_exist_ok=True)
    policy = folder / "policy.yaml"
    at_bedtime = "default: {action: block, during: bedtime-mia}"
    text = policy.read_text()
    assert at_bedtime in text
    policy.write_text(text.replace(at_bedtime, "default: pass"))  # tests run at night, too
    with mitmdump(tmp_path_factory.mktemp("mitmdump"), services, policy=policy) as running:
        yield running


@pytest.fixture
def gate(services: Services) -> Iterator[Callable[[str, int], Gate]]:
    """Makes gates, which stand until the test ends."""

    def make(name: str, free: int) -> Gate:
        services.gates[name] = Gate(free)
        return services.gates[name]

    yield make
    for gate in services.gates.values():
        gate.open()
    services.gates.clear()


@contextmanager
def bounded(proxy: Proxy) -> Iterator[None]:
    """Fail if the proxy's memory grows too much while the block runs; its peak counts."""
    status = Path(f"/proc/{proxy.process.pid}/status")
    Path(f"/proc/{proxy.process.pid}/clear_refs").write_text("5")  # the peak begins anew
    before = octets(status, "VmRSS")
    yield
    grown = octets(status, "VmHWM") - before
    assert grown < MOST_GROWTH, f"the proxy has grown by {grown / MEGABYTE:.0f} MiB"


def octets(status: Path, name: str) -> int:
    match = re.search(rf"^{name}:\s*(\d+) kB", status.read_text(), re.MULTILINE)
    assert match
    return int(match[1]) << 10


# -- browsers --------------------------------------------------------------------------------------------------------


class Chromium:
    """A Chromium that trusts the proxy's authority, as one on a device that is set up."""

    def __init__(self, proxy: Proxy, folder: Path) -> None:
        self.downloads = folder / "downloads"
        self._running = chromium(proxy, folder / "home", trusting(proxy.authority), trusts_all=False)

    def __enter__(self) -> Chromium:
        self._driver = self._running.__enter__()
        self._driver.set_script_timeout(PATIENCE * 3)
        settings = {"behavior": "allow", "downloadPath": str(self.downloads), "eventsEnabled": False}
        self._driver.execute_cdp_cmd("Browser.setDownloadBehavior", settings)
        return self

    def __exit__(self, *error: Any) -> None:
        self._running.__exit__(*error)

    def get(self, url: str) -> None:
        self._driver.get(url)

    def run(self, script: str, *arguments: object) -> Any:
        """What a script of the page gives to its last argument."""
        return self._driver.execute_async_script(script, *arguments)


class FirefoxWindow:
    """A Firefox that trusts the proxy's authority."""

    def __init__(self, proxy: Proxy, folder: Path) -> None:
        self.downloads, home = folder / "downloads", folder / "home"
        home.mkdir()
        settings = {
            "network.proxy.type": 1,
            "network.proxy.http": LOOPBACK,
            "network.proxy.http_port": proxy.port,
            "network.proxy.ssl": LOOPBACK,
            "network.proxy.ssl_port": proxy.port,
            "network.captive-portal-service.enabled": False,
            "network.connectivity-service.enabled": False,
            "network.trr.mode": 5,
            "datareporting.policy.dataSubmissionEnabled": False,
            "app.normandy.enabled": False,
            "services.settings.server": "http://127.0.0.1:9/",
            "dom.security.https_first": False,
            "dom.serviceWorkers.testing.enabled": True,
            "media.autoplay.default": 0,
            "browser.download.folderList": 2,
            "browser.download.dir": str(self.downloads),
            "browser.download.useDownloadDir": True,
            "browser.download.always_ask_before_handling_new_types": False,
            "browser.helperApps.neverAsk.saveToDisk": "application/zip",
        }
        self._running = firefox(home, [proxy.authority], settings)

    def __enter__(self) -> FirefoxWindow:
        self._driver: Firefox = self._running.__enter__()
        self._driver.set_timeouts(script=PATIENCE * 3, page=PATIENCE)
        return self

    def __exit__(self, *error: Any) -> None:
        self._running.__exit__(*error)

    def get(self, url: str) -> None:
        self._driver.get(url)

    def run(self, script: str, *arguments: object) -> Any:
        return self._driver.execute_async_script(script, *arguments)


Browser = Chromium | FirefoxWindow
BROWSERS = [
    pytest.param(
        Chromium, marks=pytest.mark.skipif(not (BROWSER and DRIVER), reason="no Chromium, or no chromedriver")
    ),
    pytest.param(
        FirefoxWindow, marks=pytest.mark.skipif(not (FIREFOX and CERTUTIL), reason="no Firefox, or no certutil")
    ),
]


@pytest.fixture(scope="module", params=BROWSERS)
def browser(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, proxy: Proxy, services: Services
) -> Iterator[Browser]:
    folder = tmp_path_factory.mktemp("browser")
    (folder / "downloads").mkdir()
    services.pages["/"] = ("text/html", b"<!doctype html><title>A page</title><a id=link>file</a>")
    with request.param(proxy, folder) as running:
        yield running


@pytest.mark.parametrize("scheme", ["http", "https"])
class TestBrowsers:
    def test_events_arrive_as_they_are_sent(
        self, browser: Browser, gate: Callable[[str, int], Gate], scheme: str
    ) -> None:
        second = gate("events", 0)
        browser.get(f"{scheme}://events.test/")
        first = browser.run(
            """const done = arguments[0];
            window.source = new EventSource("/events");
            window.messages = [];
            source.onmessage = (event) => { messages.push(event.data); done(event.data); };
            source.onerror = () => done("error");"""
        )
        assert first == "first"
        second.open()
        assert browser.run(
            """const done = arguments[0];
            (function look() { messages.length > 1 ? done(messages) : setTimeout(look, 20); })();"""
        ) == ["first", "second"]
        browser.run("source.close(); arguments[0]()")

    def test_a_recording_plays_and_is_wound_on_by_ranges(
        self, browser: Browser, services: Services, scheme: str
    ) -> None:
        seconds = 6 * 3600
        size = 44 + seconds * 8000
        browser.get(f"{scheme}://files.test/")
        before = len(services.requests)
        shown = browser.run(
            """const [url, place, done] = arguments;
            const video = document.createElement("video");
            video.muted = true;
            video.onerror = () => done("error " + video.error.message);
            video.onseeked = () => done([video.duration, video.currentTime]);
            video.onloadeddata = () => { video.onloadeddata = null; video.play(); video.currentTime = place; };
            video.src = url;
            document.body.append(video);""",
            f"/recording.wav?type=audio/wav&size={size}",
            seconds - 600,
        )
        assert shown == [seconds, pytest.approx(seconds - 600, abs=60)]
        ranges = [request.headers.get("range", "") for request in services.requests[before:]]
        asked = [int(match[1]) for match in map(re.compile(r"bytes=(\d+)-").match, ranges) if match]
        assert max(asked, default=0) > size // 2  # it asked for the place, rather than for all that is before it
        browser.get("about:blank")

    def test_a_download_grows_while_it_comes(
        self, browser: Browser, proxy: Proxy, gate: Callable[[str, int], Gate], scheme: str
    ) -> None:
        name, size = f"{scheme}.zip", LARGE if scheme == "https" else LARGE >> 3
        rest = gate("file", 64 * MEGABYTE)
        browser.get(f"{scheme}://files.test/")
        with bounded(proxy):
            browser.run(
                """const [url, name, done] = arguments;
                link.href = url; link.download = name; link.click(); done();""",
                f"/{name}?size={size}&gate=file",
                name,
            )
            assert eventually(lambda: any(8 * MEGABYTE < received < size for received in sizes(browser.downloads)))
            rest.open()
            assert eventually(lambda: (browser.downloads / name).exists() and sizes(browser.downloads) == [size], 300)
        digest = hashlib.sha256()
        for part in parts_of(size):
            digest.update(part)
        with (browser.downloads / name).open("rb") as stored:
            assert hashlib.file_digest(stored, "sha256").hexdigest() == digest.hexdigest()
        (browser.downloads / name).unlink()

    def test_an_upload_shows_how_far_it_is(
        self, browser: Browser, proxy: Proxy, services: Services, gate: Callable[[str, int], Gate], scheme: str
    ) -> None:
        size, rest = 300 * MEGABYTE, gate("upload", 16 * MEGABYTE)
        browser.get(f"{scheme}://upload.test/")
        with bounded(proxy):
            browser.run(
                """const [size, done] = arguments;
                window.sent = 0; window.status = "";
                const request = new XMLHttpRequest();
                request.upload.onprogress = (event) => { window.sent = event.loaded; };
                request.onloadend = () => { window.status = request.status + " " + request.responseText; };
                request.open("POST", "/upload");
                const part = new Uint8Array(1 << 20).map((_, place) => place & 255);
                request.send(new Blob(Array(size >> 20).fill(part)));
                done();""",
                size,
            )
            assert eventually(lambda: services.arrived > 16 * MEGABYTE)
            # the bar stands where the origin stands, but for what is on its way
            assert browser.run("arguments[0](sent)") < size
            rest.open()
            answer = browser.run(
                """const done = arguments[0];
                (function look() { window.status ? done(window.status) : setTimeout(look, 50); })();"""
            )
        assert answer == f'200 {{"octets": {size}}}'
        assert services.uploads[-1] == (size, hashlib.sha256(bytes(range(256)) * (size // 256)).hexdigest())

    def test_a_blocked_upload_gets_an_answer(self, browser: Browser, services: Services, scheme: str) -> None:
        browser.get(f"{scheme}://upload.test/")
        with services.watch() as arrived:
            status = browser.run(
                """const [url, done] = arguments;
                const request = new XMLHttpRequest();
                request.onloadend = () => done(request.status);
                request.open("POST", url);
                request.send(new Blob(Array(300).fill(new Uint8Array(1 << 20))));""",
                f"{scheme}://casino.example/upload",
            )
        assert "casino.example" not in {request.host for request in arrived.requests}
        assert status in (0, 403)  # a page of another host may not read it

    def test_a_chat_carries_messages_between_two(self, browser: Browser, scheme: str) -> None:
        browser.get(f"{scheme}://chat.test/")
        shown = browser.run(
            """const done = arguments[0], read = [];
            const address = location.origin.replace("http", "ws") + "/room";
            const first = new WebSocket(address), second = new WebSocket(address);
            first.onerror = second.onerror = () => done("error");
            second.onopen = () => second.send("hello");
            first.onmessage = (event) => { read.push(event.data); first.send("and you"); first.onmessage = null; };
            second.onmessage = (event) => { read.push(event.data); if (read.length === 3) done(read); };
            """
        )
        assert sorted(shown) == ["and you", "hello", "hello"]


WORKER = b"""
self.addEventListener("install", (event) => self.skipWaiting());
self.addEventListener("activate", (event) => event.waitUntil(clients.claim()));
self.addEventListener("fetch", (event) => event.respondWith(fetch(event.request).then((answer) =>
    new Response(answer.body, {status: answer.status, headers: {"x-worker": "yes"}}))));
"""


def test_a_service_worker_passes_on_what_flows(
    browser: Browser, services: Services, gate: Callable[[str, int], Gate]
) -> None:
    services.pages["/worker.js"] = ("text/javascript", WORKER)
    rest = gate("file", MEGABYTE)
    browser.get("https://files.test/")
    read = browser.run(
        """const [url, done] = arguments;
        (async () => {
            await navigator.serviceWorker.register("/worker.js");
            await navigator.serviceWorker.ready;
            while (!navigator.serviceWorker.controller) await new Promise((resolve) => setTimeout(resolve, 20));
            const answer = await fetch(url);
            window.reader = answer.body.getReader();
            const {value} = await reader.read();
            done([answer.headers.get("x-worker"), value.length > 0]);
        })().catch((error) => done(String(error)));""",
        f"/file?size={8 * MEGABYTE}&gate=file",
    )
    assert read == ["yes", True]
    rest.open()
    assert (
        browser.run(
            """const done = arguments[0];
        (async () => { while (!(await reader.read()).done); done("end"); })().catch((error) => done(String(error)));"""
        )
        == "end"
    )
    browser.run(
        """const done = arguments[0];
        navigator.serviceWorker.getRegistration().then((worker) => worker.unregister()).then(done, done);"""
    )


def sizes(folder: Path) -> list[int]:
    return [path.stat().st_size for path in folder.iterdir() if path.stat().st_size]


# -- the terminal ----------------------------------------------------------------------------------------------------


def run(proxy: Proxy, folder: Path, *command: str, environment: Mapping[str, str] | None = None) -> str:
    """Run a program that asks the proxy for everything, and knows nothing of this machine; what it prints."""
    kept = {name: os.environ[name] for name in ("PATH", "TMPDIR") if name in os.environ}
    proxies = dict.fromkeys(("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"), proxy.url)
    ended = subprocess.run(
        command,
        cwd=folder,
        env={**kept, "HOME": str(folder), **proxies, **(environment or {})},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=PATIENCE * 5,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout
    return ended.stdout


@pytest.mark.skipif(not (GIT and GIT_BACKEND.exists()), reason="no git, or no git-http-backend")
@pytest.mark.parametrize("version", ["HTTP/1.1", "HTTP/2"])
def test_git_pushes_and_clones_a_large_repository(
    proxy: Proxy, services: Services, tmp_path: Path, version: str
) -> None:
    services.repositories = tmp_path / "served"
    work, size = tmp_path / "work", 200 * MEGABYTE
    work.mkdir()
    identity = ["-c", "user.name=somebody", "-c", "user.email=somebody@test.example", "-c", "core.compression=0"]
    run(proxy, tmp_path, "git", "init", "-q", "--bare", "served/project.git")
    run(proxy, tmp_path, "git", "-C", "served/project.git", "config", "http.receivepack", "true")
    run(proxy, work, "git", "init", "-q")
    (work / "large").write_bytes(os.urandom(size))
    run(proxy, work, "git", "add", "large")
    run(proxy, work, "git", *identity, "commit", "-q", "-m", "A large file")
    secure = ["-c", f"http.sslCAInfo={proxy.authority}", "-c", f"http.version={version}"]
    with bounded(proxy):
        run(proxy, work, "git", *secure, "push", "-q", "https://git.test/project.git", "HEAD:refs/heads/main")
        run(proxy, tmp_path, "git", *secure, "clone", "-q", "-b", "main", "https://git.test/project.git", "clone")
    digests = [hashlib.sha256((folder / "large").read_bytes()).digest() for folder in (work, tmp_path / "clone")]
    assert digests[0] == digests[1]
    assert max(request.body for request in services.requests if request.host == "git.test") >= size


def test_pip_installs_a_large_wheel(proxy: Proxy, services: Services, tmp_path: Path) -> None:
    name = "largepackage-1.0-py3-none-any.whl"
    wheel = tmp_path / name
    with zipfile.ZipFile(wheel, "w") as packed:
        packed.writestr("largepackage/__init__.py", "")
        packed.writestr("largepackage/data.bin", os.urandom(60 * MEGABYTE))
        packed.writestr(
            "largepackage-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: largepackage\nVersion: 1.0\n"
        )
        packed.writestr(
            "largepackage-1.0.dist-info/WHEEL",
            "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        )
        packed.writestr("largepackage-1.0.dist-info/RECORD", "")
    index = tmp_path / "index.html"
    index.write_text(
        f'<!doctype html><a href="/{name}#sha256={hashlib.sha256(wheel.read_bytes()).hexdigest()}">{name}</a>'
    )
    services.files |= {"/simple/largepackage/": index, f"/{name}": wheel}
    pip = ["python3", "-m", "pip", "install", "--isolated", "--no-cache-dir", "--disable-pip-version-check"]
    source = ["--index-url", "https://packages.test/simple/", "--cert", str(proxy.authority), "--proxy", proxy.url]
    run(proxy, tmp_path, *pip, *source, "--target", "installed", "largepackage")
    assert (tmp_path / "installed" / "largepackage" / "data.bin").stat().st_size == 60 * MEGABYTE


@pytest.mark.skipif(not which("npm"), reason="no npm")
def test_npm_installs_a_package(proxy: Proxy, services: Services, tmp_path: Path) -> None:
    packed, content = tmp_path / "large.tgz", os.urandom(20 * MEGABYTE)
    manifest = json.dumps({"name": "large", "version": "1.0.0"}).encode()
    with tarfile.open(packed, "w:gz") as archive:
        for name, octets in (("package/package.json", manifest), ("package/data.bin", content)):
            entry = tarfile.TarInfo(name)
            entry.size = len(octets)
            archive.addfile(entry, io.BytesIO(octets))
    integrity = "sha512-" + b64encode(hashlib.sha512(packed.read_bytes()).digest()).decode()
    described = tmp_path / "large.json"
    dist = {"tarball": "https://packages.test/large.tgz", "integrity": integrity}
    versions = {"1.0.0": {"name": "large", "version": "1.0.0", "dist": dist}}
    described.write_text(json.dumps({"name": "large", "dist-tags": {"latest": "1.0.0"}, "versions": versions}))
    services.files |= {"/large": described, "/large.tgz": packed}
    project = tmp_path / "project"
    project.mkdir()
    (project / "package.json").write_text('{"name": "project", "version": "1.0.0"}')
    settings = ["--registry=https://packages.test/", f"--cafile={proxy.authority}", "--no-audit", "--no-fund"]
    run(proxy, project, "npm", "install", *settings, f"--cache={tmp_path / 'cache'}", "large")
    assert (project / "node_modules" / "large" / "data.bin").read_bytes() == content


@pytest.mark.skipif(not (which("apt-get") and which("dpkg-deb")), reason="no apt")
def test_apt_fetches_a_package(proxy: Proxy, services: Services, tmp_path: Path) -> None:
    built = tmp_path / "built"
    (built / "DEBIAN").mkdir(parents=True)
    about = {"Package": "large-test", "Version": "1.0", "Architecture": "all", "Description": "large"}
    about["Maintainer"] = "Somebody <somebody@test.example>"
    control = "".join(f"{name}: {value}\n" for name, value in about.items())
    (built / "DEBIAN" / "control").write_text(control)
    (built / "data.bin").write_bytes(os.urandom(20 * MEGABYTE))
    package = tmp_path / "large-test_1.0_all.deb"
    run(proxy, tmp_path, "dpkg-deb", "--build", "-Znone", "built", package.name)
    octets = package.read_bytes()
    entry = (
        f"{control}Filename: ./{package.name}\nSize: {len(octets)}\nSHA256: {hashlib.sha256(octets).hexdigest()}\n\n"
    )
    packages, release = tmp_path / "Packages", tmp_path / "Release"
    packages.write_text(entry)
    digest = hashlib.sha256(packages.read_bytes()).hexdigest()
    release.write_text(f"Date: Sat, 01 Jan 2050 00:00:00 UTC\nSHA256:\n {digest} {packages.stat().st_size} Packages\n")
    services.files |= {"/debian/./Packages": packages, "/debian/Packages": packages}
    services.files |= {"/debian/./Release": release, "/debian/Release": release}
    services.files |= {f"/debian/./{package.name}": package, f"/debian/{package.name}": package}
    root = tmp_path / "root"
    for folder in ("state/lists/partial", "cache/archives/partial", "etc"):
        (root / folder).mkdir(parents=True)
    (root / "etc" / "sources.list").write_text("deb [trusted=yes] https://packages.test/debian ./\n")
    (root / "status").write_text("")
    options = {
        "Dir::Etc": root / "etc",
        "Dir::State": root / "state",
        "Dir::State::status": root / "status",
        "Dir::Cache": root / "cache",
        "Acquire::https::CAInfo": proxy.authority,
        "Acquire::https::Proxy": proxy.url,
        "Acquire::Check-Valid-Until": "false",
        "Acquire::Check-Date": "false",
        "APT::Sandbox::User": "",
    }
    apt = ["apt-get", "-q", *(part for name, value in options.items() for part in ("-o", f"{name}={value}"))]
    run(proxy, tmp_path, *apt, "update")
    run(proxy, tmp_path, *apt, "download", "large-test")
    assert package.read_bytes() == octets


@pytest.mark.parametrize("http2", [False, True], ids=["HTTP/1.1", "HTTP/2"])
def test_layers_of_an_image_are_pushed_in_parts_and_pulled(proxy: Proxy, services: Services, http2: bool) -> None:
    layer = os.urandom(64 * MEGABYTE)
    digest = "sha256:" + hashlib.sha256(layer).hexdigest()
    with proxy.client(http2=http2) as client:
        begun = client.post("https://registry.test/v2/image/blobs/uploads/")
        assert begun.status_code == 202
        place = f"https://registry.test{begun.headers['location']}"
        parts = [layer[start : start + 16 * MEGABYTE] for start in range(0, len(layer), 16 * MEGABYTE)]
        for part in parts[:-1]:  # of untold length, as the usual client sends them
            answer = client.patch(
                place, content=(part[start : start + MEGABYTE] for start in range(0, len(part), MEGABYTE))
            )
            assert answer.status_code == 202
        assert client.put(place, params={"digest": digest}, content=parts[-1]).status_code == 201
        assert client.head(f"https://registry.test/v2/image/blobs/{digest}").headers["content-length"] == str(
            len(layer)
        )
        received = hashlib.sha256()
        with client.stream("GET", f"https://registry.test/v2/image/blobs/{digest}") as pulled:
            for part in pulled.iter_raw():
                received.update(part)
    assert "sha256:" + received.hexdigest() == digest


def test_curl_shows_a_download_s_progress_and_resumes_it(
    proxy: Proxy, gate: Callable[[str, int], Gate], tmp_path: Path
) -> None:
    file, size = tmp_path / "file.zip", 64 * MEGABYTE
    gate("file", 8 * MEGABYTE)
    url = f"https://files.test/file.zip?size={size}&gate=file"
    curl = ["curl", "--silent", "--cacert", str(proxy.authority), "--proxy", proxy.url, "-o", str(file)]
    downloading = subprocess.Popen([*curl, url])
    try:
        assert eventually(lambda: file.exists() and file.stat().st_size > MEGABYTE)
    finally:
        downloading.kill()
        downloading.wait()
    assert file.stat().st_size < size
    run(proxy, tmp_path, *curl, "--continue-at", "-", f"https://files.test/file.zip?size={size}")
    assert file.stat().st_size == size
    with file.open("rb") as stored:
        whole = hashlib.sha256(b"".join(parts_of(size))).hexdigest()
        assert hashlib.file_digest(stored, "sha256").hexdigest() == whole
