#!/usr/bin/env python3
"""Has a2a-proof hold the contracts in proof/ against an agent through the proxy.

    proof.py --agent AGENT_URL [--binding HTTP+JSON] PROXY_URL -- A2A-PROOF    proof/conversation.yaml, the proxy in front of
        an agent of tests/peers; and against that agent alone, where the scenarios with a star have to be broken, no others
    proof.py --binary PROXY -- A2A-PROOF    the other contracts, with a2a-proof's own recording agent behind the proxy
"""

import argparse
import http.server
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request

import talk

CONTRACTS = pathlib.Path(__file__).parent / "proof"
RECORDED = ("recorded-question.yaml", "recorded-statement.yaml")
SECONDS = 150


class Checks:
    passed = failed = 0

    def check(self, name, good, detail=""):
        self.passed, self.failed = (self.passed + 1, self.failed) if good else (self.passed, self.failed + 1)
        print(f"ok    {name}" if good else f"FAIL  {name}: {detail}", flush=True)


def held(options, contract, **replaced):
    """The scenarios of a contract by name, as a2a-proof found them."""
    text = (CONTRACTS / contract).read_text()
    for key, value in replaced.items():
        text, times = re.subn(rf"^(  {key}: ).*# replaced$", rf"\g<1>{value}", text, flags=re.MULTILINE)
        assert times == 1, f"{contract} has {times} places for {key}"
    with tempfile.TemporaryDirectory() as folder:
        path, report = pathlib.Path(folder) / contract, pathlib.Path(folder) / "report.json"
        path.write_text(text)
        command = [*options.client, "run", path, "--format", "json", "--output", report, "--transport", options.binding]
        ran = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS)
        if not report.exists():
            raise RuntimeError(f"exit code {ran.returncode}: {ran.stdout}{ran.stderr}")
        found = json.loads(report.read_text())
    return found.get("card"), {one["name"]: one for one in found["scenarios"]}


def why(scenario):
    trials = scenario["trials"]
    turns = [turn for trial in trials for turn in trial["turns"] if not turn["passed"]]
    return [trial["error"] for trial in trials if trial["error"]] + [
        (turn["index"], turn["failures"], turn["state"], turn["text"][:300]) for turn in turns
    ]


def conversation(checks, options):
    card, through = held(options, "conversation.yaml", url=options.url)
    checks.check("the card", card["passed"], card)
    for name, scenario in through.items():
        checks.check(name, scenario["passed"], why(scenario))
    _, alone = held(options, "conversation.yaml", url=options.agent)
    broken = {name for name, scenario in alone.items() if not scenario["passed"]}
    starred = {name for name in alone if name.endswith("*")}
    checks.check("the agent alone breaks what has a star, and nothing else", broken == starred, broken ^ starred)


class CardOnly(http.server.BaseHTTPRequestHandler):
    """Shows the card that the recording agent is going to have: it comes up when a2a-proof has read the proxy's."""

    protocol_version = "HTTP/1.1"

    def do_GET(self):
        base = f"http://127.0.0.1:{self.server.server_address[1]}"
        interface = {"url": f"{base}/a2a", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}
        modes = {"defaultInputModes": ["text/plain"], "defaultOutputModes": ["text/plain"]}
        card = {"name": "a2a-proof downstream", "description": "Records", "version": "1.0.0", "skills": [], "capabilities": {}}
        body = json.dumps({**card, **modes, "supportedInterfaces": [interface]}).encode()
        self.send_response(200 if self.path == "/.well-known/agent-card.json" else 404)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(body)
        self.rfile.read()  # who closes first keeps the port for a while: here another is to listen on it

    def log_message(self, *_):
        pass


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


def recorded(checks, options, contract):
    cards = http.server.ThreadingHTTPServer(("127.0.0.1", 0), CardOnly)
    threading.Thread(target=cards.serve_forever, daemon=True).start()
    behind, port = cards.server_address[1], free_port()
    url = f"http://127.0.0.1:{port}"
    command = [options.binary, "serve", "--listen", f"127.0.0.1:{port}", "--upstream", f"http://127.0.0.1:{behind}"]
    with tempfile.TemporaryFile() as log:
        proxy = subprocess.Popen(command, stdout=log, stderr=log)
        try:
            until_it_shows_the_card(url)
            cards.shutdown()
            cards.server_close()
            _, found = held(options, contract, url=url, listen_port=behind)
            for name, scenario in found.items():
                checks.check(name, scenario["passed"], why(scenario))
        finally:
            proxy.send_signal(signal.SIGTERM)
            proxy.wait(talk.CALL_SECONDS)
            log.seek(0)
            if checks.failed:
                sys.stdout.write(log.read().decode())


def until_it_shows_the_card(url):
    for _ in range(100):
        try:
            with urllib.request.urlopen(f"{url}/.well-known/agent-card.json", timeout=5) as answer:
                return answer.read()
        except OSError:
            time.sleep(0.1)
    raise RuntimeError("the proxy did not come up")


def main():
    os.environ["no_proxy"] = "127.0.0.1"
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("url", nargs="?")
    parser.add_argument("--agent")
    parser.add_argument("--binary")
    parser.add_argument("--binding", default="JSONRPC")
    options = talk.command_line(parser, "a2a-proof command")
    checks = Checks()
    if options.binary:
        for contract in RECORDED:
            recorded(checks, options, contract)
    else:
        conversation(checks, options)
    print(f"# {checks.passed} passed, {checks.failed} failed")
    sys.exit(1 if checks.failed else 0)


main()
