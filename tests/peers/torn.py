#!/usr/bin/env python3
"""Streams that end badly or say too much, read through the proxy by an official client in strict mode.

    torn.py --dialect 0.3|1.0 PROXY_BINARY -- CLIENT...

Starts an agent of its own and the proxy in front of it. For each case of CASES the client reads one stream and then sends
the next message of the context. It must raise nothing of its own (a JSON-RPC error that the proxy tells is listed), see
one closing state, the last, and have its next message taken.
"""

import argparse
import http.server
import json
import pathlib
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time

import talk

TEXT = "One, two, three."
CLOSING = {"completed", "failed", "canceled", "rejected", "input-required", "auth-required"}
WORKS = {"submitted", "working"}


class Says:
    """What an agent says of a task in a dialect, as results of JSON-RPC."""

    def __init__(self, dialect, task, context):
        self.old = dialect == "0.3"
        self.ids = {"taskId": task, "contextId": context}
        self.task_ids = {"id": task, "contextId": context}

    def state(self, state):
        return {"state": state if self.old else "TASK_STATE_" + state.upper().replace("-", "_")}

    def artifact(self, text, name="response"):
        part = {"kind": "text", "text": text} if self.old else {"text": text}
        return {"artifactId": name, "name": name, "parts": [part]}

    def bare_task(self, state, text=None):
        task = self.task_ids | {"status": self.state(state)}
        if text is not None:
            task["artifacts"] = [self.artifact(text)]
        return task | ({"kind": "task"} if self.old else {})

    def task(self, state, text=None):
        task = self.bare_task(state, text)
        return task if self.old else {"task": task}

    def status(self, state, final=None, **ids):
        update = self.ids | ids | {"status": self.state(state)}
        if self.old:
            return update | {"kind": "status-update", "final": state in CLOSING if final is None else final}
        return {"statusUpdate": update}

    def piece(self, text, append=False, **ids):
        update = self.ids | ids | {"artifact": self.artifact(text), "append": append, "lastChunk": False}
        return update | {"kind": "artifact-update"} if self.old else {"artifactUpdate": update}

    def whole(self):
        return [
            self.task("submitted"),
            self.status("working"),
            self.piece(TEXT[:5]),
            self.piece(TEXT[5:], True),
            self.status("completed"),
        ]


ERROR = {"error": {"code": -32603, "message": "It broke."}}
DONE = ("completed", TEXT)

# Each: steps from what the agent says, and what GetTask answers (state and text, or nothing: not found). A step is a
# result, an error, bytes as they are, seconds of silence, or "reset".


def cases(dialect):
    def case(name, steps, known=DONE):
        return name, steps, known

    for name, known in (("completed", DONE), ("working", ("working", None)), ("not found", None)):
        for count in range(5):
            yield case(f"ends after {count} events, {name}", lambda s, n=count: s.whole()[:n], known)
            yield case(f"reset after {count} events, {name}", lambda s, n=count: [*s.whole()[:n], "reset"], known)
        yield case(f"ends amid an event, {name}", lambda s: [*s.whole()[:3], b'data: {"jsonrpc":"2.0","id":'], known)
        yield case(f"reset amid an event, {name}", lambda s: [*s.whole()[:3], b"data: {", "reset"], known)
        yield case(f"silence, then the end, {name}", lambda s: [*s.whole()[:3], 1.5], known)
    yield case("an error", lambda s: [ERROR], None)
    yield case("an error after events", lambda s: [*s.whole()[:3], ERROR], None)
    named = b"event: error\r\ndata: " + json.dumps({"jsonrpc": "2.0", "id": 1} | ERROR).encode() + b"\r\n\r\n"
    yield case("event: error", lambda s: [*s.whole()[:3], named], None)
    yield case("event: error with text", lambda s: [*s.whole()[:3], b"event: error\ndata: It broke.\n\n"], None)
    yield case("the closing event twice", lambda s: [*s.whole(), s.status("completed")])
    yield case("two closing events", lambda s: [*s.whole(), s.status("failed")])
    yield case("a snapshot after the closing event", lambda s: [*s.whole(), s.task("completed", TEXT)])
    yield case("a snapshot before the closing event", lambda s: [*s.whole()[:4], s.task("working", TEXT), s.status("completed")])
    yield case("a snapshot as the closing event", lambda s: [*s.whole()[:4], s.task("completed", TEXT)])
    yield case("only a snapshot", lambda s: [s.task("completed", TEXT)])
    yield case("input-required, not final", lambda s: [*s.whole()[:4], s.status("input-required", final=False)])
    yield case("completed, not final", lambda s: [*s.whole()[:4], s.status("completed", final=False)])
    yield case("working, final", lambda s: [*s.whole()[:4], s.status("working", final=True)])
    yield case("status first, then artifacts", lambda s: [s.whole()[0], s.status("completed"), *s.whole()[2:4]])
    yield case("no task first", lambda s: s.whole()[1:])
    yield case("an artifact first", lambda s: s.whole()[2:])
    yield case("another contextId", lambda s: [*s.whole()[:3], s.piece(TEXT[5:], True, contextId="other"), s.status("completed", contextId="other")])  # fmt: skip
    yield case("another taskId", lambda s: [*s.whole()[:3], s.piece(TEXT[5:], True, taskId="other"), s.status("completed", taskId="other")])  # fmt: skip
    yield case("comments between", lambda s: [x for one in s.whole() for x in (b": ping\n\n", one, b":\r\n\r\n")])
    yield case("nothing but comments", lambda s: [b": ping\n\n"] * 3, None)
    if dialect == "0.3":
        wrapped = {"task": "task", "status-update": "statusUpdate", "artifact-update": "artifactUpdate"}
        yield case("wrapped as in 1.0", lambda s: [{wrapped[one["kind"]]: one} for one in s.whole()])


class Agent(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    dialect = "0.3"
    now = None  # the case
    known = {}
    count = 0

    def log_message(self, *_):
        pass

    def reply(self, value):
        body = json.dumps(value).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        url = f"http://{self.headers['Host']}/"
        card = {
            "name": "torn", "description": "streams badly", "version": "1", "capabilities": {"streaming": True},
            "defaultInputModes": ["text/plain"], "defaultOutputModes": ["text/plain"], "skills": [],
        }  # fmt: skip
        if self.dialect == "0.3":
            card |= {"url": url, "protocolVersion": "0.3.0", "preferredTransport": "JSONRPC"}
        else:
            card["supportedInterfaces"] = [{"url": url, "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}]
        self.reply(card)

    def do_POST(self):
        call = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        answer = {"jsonrpc": "2.0", "id": call["id"]}
        method = call["method"]
        if method in ("message/stream", "SendStreamingMessage"):
            return self.stream(call, answer)
        says = self.known.get(call["params"].get("id"))
        if method in ("tasks/get", "GetTask") and says:
            return self.reply(answer | {"result": says})
        self.reply(answer | {"error": {"code": -32001 if method in ("tasks/get", "GetTask") else -32004, "message": "no"}})

    def stream(self, call, answer):
        cls = type(self)
        cls.count += 1
        message = call["params"]["message"]
        says = Says(self.dialect, f"t-{cls.count}", message.get("contextId") or f"c-{cls.count}")
        if any("next" == part.get("text", "").split("\n")[-1] for part in message["parts"]):
            steps, known = says.whole(), DONE
        else:
            steps, known = self.now[1](says), self.now[2]
        if known:
            cls.known[f"t-{cls.count}"] = says.bare_task(*known)
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        self.close_connection = True
        for step in steps:
            if step == "reset":
                time.sleep(0.05)  # so that what was sent is read before the reset throws it away
                self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                self.rfile.close()
                self.wfile.close()
                self.connection.close()
                return
            if isinstance(step, float):
                time.sleep(step)
                continue
            if isinstance(step, dict):
                step = b"data: " + json.dumps(answer | (step if "error" in step else {"result": step})).encode() + b"\n\n"
            try:
                self.wfile.write(step)
                self.wfile.flush()
            except OSError:
                return  # the proxy has read what it needs

    def finish(self):
        try:
            super().finish()
        except (OSError, ValueError):
            pass


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def shutdown_request(self, request):
        try:
            super().shutdown_request(request)
        except OSError:
            pass

    def handle_error(self, *_):
        pass


SETTINGS = """
[listener]
address = "127.0.0.1:{port}"
[upstream]
url = "{agent}"
[timeouts]
idle = "1s"
look = "500ms"
[guard]
watch = "200ms"
max_turn = "3s"
"""


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as sock:
        return sock.getsockname()[1]


# What the SDKs raise for an error that JSON-RPC tells: all else is a failure to read.
TOLD = {"0.3": "A2AClientJSONRPCError", "1.0": "InternalError"}

# What an agent of 0.3 says in a form that its client cannot read goes through as it is; without the proxy the client raises the same.
KNOWN = {
    "wrapped as in 1.0": "validation errors",
}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dialect", choices=["0.3", "1.0"], required=True)
    parser.add_argument("binary")
    options = talk.command_line(parser, required=False)
    Agent.dialect = options.dialect
    server = Server(("127.0.0.1", 0), Agent)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    port = free_port()
    with tempfile.TemporaryDirectory() as folder:
        settings = pathlib.Path(folder) / "proxy.toml"
        settings.write_text(SETTINGS.format(port=port, agent=f"http://127.0.0.1:{server.server_port}"))
        log = (pathlib.Path(folder) / "log").open("w")
        command = [options.binary, "serve", "--config", settings, "--store", f"disk:{folder}/store"]
        proxy = subprocess.Popen(command, stdout=log, stderr=log)
        try:
            for _ in range(100):
                try:
                    socket.create_connection(("127.0.0.1", port), 1).close()
                    break
                except OSError:
                    time.sleep(0.1)
            options.url, options.streaming, options.binding = f"http://127.0.0.1:{port}", "true", "JSONRPC"
            options.protocol, options.direct = None, False
            run(talk.Talk(options))
        finally:
            proxy.send_signal(signal.SIGTERM)
            proxy.wait(20)


def closings(events):
    """Where the closing states stand among events that tell a state."""
    seen = [talk.Seen([event]) for event in events if "assembled" not in event]
    return [(at, one.state) for at, one in enumerate(seen) if one.state and one.state not in WORKS], len(seen)


def run(one):
    one.where = "start"
    hello = one.hear()
    one.check("the client reads the agent card", "transport" in hello, hello)
    for number, case in enumerate(cases(Agent.dialect)):
        one.where, Agent.now = case[0], case
        context = f"torn-{number}"
        answer = one.order(op="send", text="hello", contextId=context)
        error, events = answer.get("error"), answer.get("events", [])
        at, count = closings(events)
        if Agent.dialect == "0.3" and case[0] in KNOWN:
            print(f"known {one.where}: {error and error['text'][:100]}")
            one.check("the client's error is the known one", error and KNOWN[case[0]] in error["text"], error)
        elif error and error["type"] == TOLD[Agent.dialect]:
            print(f"told  {one.where}: {error['type']}: {error['text'][:160]}")
            one.check("no closing state before the error", not at, (at, error))
        else:
            one.check("the client raises nothing", error is None, error)
            one.check("one closing state, the last", len(at) == 1 and at[0][0] == count - 1, (at, count, events))
            print(f"      {one.where}: {at and at[-1][1]}")
        after = one.order(op="send", text="next", contextId=context)
        closed, _ = closings(after.get("events", []))
        good = "error" not in after and [state for _, state in closed] == ["completed"]
        one.check("the next message is taken", good, after)
    one.client.stdin.close()
    one.client.wait(timeout=talk.CALL_SECONDS)
    print(f"# {one.passed} passed, {one.failed} failed")
    sys.exit(1 if one.failed else 0)


main()
