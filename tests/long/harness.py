"""What the long runs share: an agent, the proxy in front of it, and what the system tells of a process."""

import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent


def binary():
    """The proxy: A2A_MULTITURN_BIN, or the release build if it is as new as its sources, or the debug build."""
    if given := os.environ.get("A2A_MULTITURN_BIN"):
        return given
    target = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    release = target / "release/a2a-multiturn"
    newest = max(path.stat().st_mtime for path in [ROOT / "Cargo.lock", *(ROOT / "src").rglob("*.rs")])
    if release.exists() and release.stat().st_mtime > newest:
        return str(release)
    subprocess.run(["cargo", "build", "--quiet", "--locked", "--bin", "a2a-multiturn"], cwd=ROOT, check=True)
    return str(target / "debug/a2a-multiturn")


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as sock:
        return sock.getsockname()[1]


class Checks:
    def __init__(self):
        self.passed = self.failed = 0

    def check(self, name, good, detail=""):
        self.passed += bool(good)
        self.failed += not good
        print(f"ok    {name}" if good else f"FAIL  {name}: {detail}", flush=True)

    def end(self):
        print(f"{self.passed} passed, {self.failed} failed")
        sys.exit(1 if self.failed else 0)


class Pair:
    """The agent and the proxy, as processes that end with this."""

    def __init__(self, settings):
        self.folder = tempfile.TemporaryDirectory()
        self.processes = []
        try:
            self.start(pathlib.Path(self.folder.name), settings)
        except BaseException:
            self.__exit__()
            raise

    def start(self, folder, settings):
        self.agent = self.run([sys.executable, str(HERE / "agent.py"), "0"], stdout=subprocess.PIPE, text=True)
        self.agent_port = int(re.fullmatch(r"ready (\d+)\n", self.agent.stdout.readline())[1])
        self.port = free_port()
        config = folder / "proxy.toml"
        config.write_text(settings.format(port=self.port, agent=self.agent_port))
        self.log_path = folder / "proxy.log"
        with self.log_path.open("w") as log:
            state = {**os.environ, "XDG_STATE_HOME": str(folder / "state")}
            self.proxy = self.run([binary(), "serve", "--config", str(config)], stderr=log, env=state)
        until = time.monotonic() + 30
        while self.get("/readyz") != 200:
            if self.proxy.poll() is not None or time.monotonic() > until:
                raise SystemExit(f"FAIL  the proxy did not come up\n{self.log()}")
            time.sleep(0.05)

    def run(self, command, **more):
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, **more)
        self.processes.append(process)
        return process

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in self.processes:
            if process.poll() is None:
                process.send_signal(signal.SIGKILL)
                process.wait()
        self.folder.cleanup()

    def log(self):
        return self.log_path.read_text()

    def get(self, path):
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=5) as response:
                return response.status
        except OSError as error:
            return getattr(error, "code", None)

    def stats(self):
        with urllib.request.urlopen(f"http://127.0.0.1:{self.agent_port}/__stats", timeout=5) as response:
            return json.load(response)


def sockets(pid):
    return sum(is_socket(f"/proc/{pid}/fd/{one}") for one in os.listdir(f"/proc/{pid}/fd"))


def is_socket(link):
    try:
        return os.readlink(link).startswith("socket:")
    except FileNotFoundError:  # closed meanwhile
        return False


def status(pid):
    """Threads, and resident MiB."""
    text = pathlib.Path(f"/proc/{pid}/status").read_text()
    number = lambda name: int(re.search(rf"^{name}:\s+(\d+)", text, re.M)[1])  # noqa: E731
    return number("Threads"), number("VmRSS") / 1024
