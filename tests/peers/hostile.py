#!/usr/bin/env python3
"""What no official client does, done to a proxy in front of a real agent: by hand, on sockets.

    hostile.py --agent AGENT_URL [--dialect 1.0] [--rest PREFIX] URL

URL is the proxy's, AGENT_URL that of the agent behind it (its /__seen tells what reached it), PREFIX where that agent serves
HTTP+JSON. Each line is a check, `ok` or `FAIL`; after each scene the proxy has to be as good as new.
"""

import argparse
import gzip
import json
import re
import socket
import struct
import sys
import threading
import time
import urllib.parse
import urllib.request
import uuid

SECONDS = 20
PROMPT = 5  # what is answered without a turn is answered in this time
LIMIT = 16 << 20  # [limits] request_bytes

METHODS = {
    "0.3": {
        "send": "message/send",
        "stream": "message/stream",
        "get": "tasks/get",
        "cancel": "tasks/cancel",
        "subscribe": "tasks/resubscribe",
        "push set": "tasks/pushNotificationConfig/set",
        "push get": "tasks/pushNotificationConfig/get",
        "push list": "tasks/pushNotificationConfig/list",
        "push delete": "tasks/pushNotificationConfig/delete",
    },
    "1.0": {
        "send": "SendMessage",
        "stream": "SendStreamingMessage",
        "get": "GetTask",
        "cancel": "CancelTask",
        "subscribe": "SubscribeToTask",
        "push set": "CreateTaskPushNotificationConfig",
        "push get": "GetTaskPushNotificationConfig",
        "push list": "ListTaskPushNotificationConfigs",
        "push delete": "DeleteTaskPushNotificationConfig",
    },
}


class Answer:
    def __init__(self, status, headers, body, whole):
        self.status, self.headers, self.body, self.whole = status, headers, body, whole

    @property
    def results(self):
        """What stands in it: the one JSON-RPC answer, or those of a stream."""
        if self.headers.get("content-type", "").startswith("text/event-stream"):
            events = self.body.decode().replace("\r\n", "\n").split("\n\n")
            texts = ["".join(line[5:] for line in one.split("\n") if line.startswith("data:")) for one in events]
            return [json.loads(text) for text in texts if text.strip()]
        return [json.loads(self.body)]

    @property
    def task(self):
        """The task, as the last thing that tells one has it: id, contextId, state."""
        ids, state = {}, None
        for result in self.results:
            value = result.get("result") or {}
            value = value if "kind" in value or "id" in value else next(iter(value.values()), {})
            if "status" in value:
                state = value["status"]["state"].lower().removeprefix("task_state_").replace("_", "-")
                ids = {"taskId": value.get("taskId") or value.get("id"), "contextId": value.get("contextId")}
        return {**ids, "state": state}

    @property
    def code(self):
        try:
            return next((one["error"]["code"] for one in self.results if "error" in one), None)
        except (ValueError, KeyError, TypeError):
            return f"not JSON-RPC: {self.body[:200]!r}"


class Wire:
    """A connection on which bytes go out as they are, and answers are read one after the other."""

    def __init__(self, address):
        self.sock = socket.create_connection(address, SECONDS)
        self.buffer = b""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.sock.close()

    def write(self, data):
        self.sock.sendall(data)
        return self

    def reset(self):
        """Goes with a reset instead of an end."""
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.sock.close()

    def more(self):
        data = self.sock.recv(1 << 16)
        self.buffer += data
        return data

    def until(self, mark):
        while mark not in self.buffer:
            if not self.more():
                return None
        found, self.buffer = self.buffer.split(mark, 1)
        return found

    def take(self, length):
        while len(self.buffer) < length:
            if not self.more():
                return None
        found, self.buffer = self.buffer[:length], self.buffer[length:]
        return found

    def answer(self, seconds=SECONDS, bodyless=False):
        """The next answer; None where the connection ends without one."""
        self.sock.settimeout(seconds)
        try:
            return self.read_answer(bodyless)
        except ConnectionError:
            return None

    def read_answer(self, bodyless):
        head = self.until(b"\r\n\r\n")
        if head is None:
            return None
        first, *lines = head.decode("latin1").split("\r\n")
        status = int(first.split()[1])
        if status == 100:
            return self.read_answer(bodyless)
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        body, whole = b"", True
        if bodyless or status in (204, 304):
            pass
        elif headers.get("transfer-encoding") == "chunked":
            while True:
                size = self.until(b"\r\n")
                piece = None if size is None else self.take(int(size, 16) + 2)
                if piece is None:
                    whole = False
                    break
                body += piece[:-2]
                if int(size, 16) == 0:
                    break
        elif "content-length" in headers:
            body = self.take(int(headers["content-length"]))
            whole, body = body is not None, body or b""
        else:
            while self.more():
                pass
            body, self.buffer = self.buffer, b""
        return Answer(status, headers, body, whole)

    def is_over(self):
        """Whether the other side ends the connection, soon."""
        self.sock.settimeout(PROMPT)
        try:
            return not self.more()
        except ConnectionError:
            return True
        except TimeoutError:
            return False


class Hostile:
    def __init__(self, options):
        self.options = options
        at = urllib.parse.urlsplit(options.url)
        self.address = (at.hostname, at.port)
        self.methods = METHODS[options.dialect]
        self.passed = self.failed = 0
        self.where = ""

    def check(self, name, good, detail=""):
        self.passed += bool(good)
        self.failed += not good
        line = f"ok    {self.where}: {name}" if good else f"FAIL  {self.where}: {name}: {str(detail)[:500]}"
        print(line, flush=True)

    def equal(self, name, found, wanted):
        self.check(name, found == wanted, f"found {found!r}, wanted {wanted!r}")

    # The agent

    def seen(self, method="GET"):
        request = urllib.request.Request(self.options.agent.rstrip("/") + "/__seen", method=method)
        with urllib.request.urlopen(request, timeout=SECONDS) as response:
            return json.load(response)

    def texts(self):
        """The texts of the messages that reached the agent; of what cannot be read, its target."""
        found = []
        for request in self.seen():
            try:
                parts = json.loads(request["body"])["params"]["message"]["parts"]
                found.append("\n".join(part["text"] for part in parts))
            except (ValueError, KeyError, TypeError):
                found.append(f"{request['method']} {request['target']}")
        return found

    # Requests

    def message(self, text, **ids):
        if self.options.dialect == "0.3":
            part, more = {"kind": "text", "text": text}, {"kind": "message", "role": "user"}
        else:
            part, more = {"text": text}, {"role": "ROLE_USER"}
        return {"message": {"messageId": str(uuid.uuid4()), **more, "parts": [part], **ids}}

    def call(self, op, params, call_id="x"):
        return json.dumps({"jsonrpc": "2.0", "id": call_id, "method": self.methods.get(op, op), "params": params}).encode()

    def http(self, body, *more, who=None, line="POST / HTTP/1.1", length=True):
        lines = [line, f"Host: {self.address[0]}:{self.address[1]}", "Content-Type: application/json"]
        lines += ["A2A-Version: 1.0"] if self.options.dialect == "1.0" else []
        lines += [f"Authorization: Bearer {who}"] if who else []
        lines += [f"Content-Length: {len(body)}"] if length else []
        return "\r\n".join([*lines, *more, "", ""]).encode() + body

    def send(self, text, *, op="send", who=None, **ids):
        with Wire(self.address) as wire:
            return wire.write(self.http(self.call(op, self.message(text, **ids)), who=who)).answer()

    def ask(self, data, seconds=PROMPT, bodyless=False):
        """One exchange on a connection of its own; None where nothing comes, or not in time."""
        with Wire(self.address) as wire:
            try:
                return wire.write(data).answer(seconds, bodyless)
            except TimeoutError:
                return None

    def as_good_as_new(self):
        answer = self.send("My name is Zoë")
        good = answer is not None and answer.status == 200 and b"Nice to meet you" in answer.body
        self.check("afterwards a message is answered", good, answer and answer.body)
        ready = self.ask(self.http(b"", line="GET /readyz HTTP/1.1", length=False))
        self.equal("afterwards it is ready", ready and ready.status, 200)

    def next_turn(self, context, text, who=None, seconds=10):
        """The next turn of a context, asked for again while another is in flight."""
        until = time.monotonic() + seconds
        while True:
            answer = self.send(text, who=who, contextId=context)
            if answer.task.get("state") != "failed" or time.monotonic() > until:
                return answer
            time.sleep(0.2)


def is_refusal(answer):
    """Whether it is an error, of HTTP or of JSON-RPC, or the connection's end."""
    return answer is None or isinstance(answer, Answer) and (answer.status >= 400 or isinstance(answer.code, int))


# The scenes


def pipelined(h):
    """requests that do not wait for answers"""
    ops = ["send", "stream", "send", "get", "stream", "send"]
    calls = [h.call(op, h.message(f"number {n}") if op != "get" else {"id": "none"}, n) for n, op in enumerate(ops)]
    with Wire(h.address) as wire:
        wire.write(b"".join(h.http(call) for call in calls))
        answers = [wire.answer() for _ in calls]
    h.equal("every one is answered", [answer and answer.status for answer in answers], [200] * len(ops))
    ids = [{one["id"] for one in answer.results} for answer in answers]
    h.equal("in the order of the requests", ids, [{n} for n in range(len(ops))])
    said = [op == "get" or f"number {n}".encode() in answers[n].body for n, op in enumerate(ops)]
    h.check("each with its own reply", all(said), [answer.body for answer in answers])
    # On one context the second message comes when the first has been answered: never refused.
    ids = h.send("Hello").task
    with Wire(h.address) as wire:
        both = [h.http(h.call("send", h.message(text, contextId=ids["contextId"]))) for text in ("one", "two")]
        wire.write(both[0] + both[1])
        answers = [wire.answer().task["state"] for _ in both]
    h.equal("two on one context, one after the other", answers, ["completed", "completed"])


def half_closed(h):
    """clients that close their side after the request"""
    for op, text, reply in (("send", "!sleep 0.5 Late.", "Late."), ("stream", "!stream 4 100 One two three four", "four")):
        with Wire(h.address) as wire:
            wire.write(h.http(h.call(op, h.message(text))))
            wire.sock.shutdown(socket.SHUT_WR)
            answer = wire.answer()
            good = answer and answer.whole and reply.encode() in answer.body and answer.task["state"] == "completed"
            h.check(f"{op}: the answer still comes, whole", good, answer and answer.body)
            h.check(f"{op}: then the connection ends", wire.is_over())


def leaves_in_the_request(h):
    """clients that leave in their request"""
    whole = h.http(h.call("send", h.message("half a message")))
    body = whole.index(b"\r\n\r\n") + 4
    chunked = h.http(b"", "Transfer-Encoding: chunked", length=False) + b"10\r\n" + whole[body : body + 7]
    for name, data in {
        "in the first line": whole[:9],
        "in the head": whole[: body - 10],
        "before the body": whole[:body],
        "in the body": whole[:-5],
        "in a chunk": chunked,
        "after a chunk": chunked + whole[body + 7 : body + 16] + b"\r\n",
    }.items():
        for way in ("closes", "closes its side", "resets"):
            with Wire(h.address) as wire:
                wire.write(data)
                time.sleep(0.02)
                if way == "resets":
                    wire.reset()
                elif way == "closes its side":
                    wire.sock.shutdown(socket.SHUT_WR)
                    answer = wire.answer(PROMPT)
                    h.check(f"{name}: an error or the end", is_refusal(answer), answer and answer.body)
    time.sleep(0.3)
    h.equal("none of it reached the agent", h.texts(), [])


def leaves_in_the_answer(h):
    """clients that leave in the answer"""
    for op, text, after in (
        ("stream", "!stream 10 50 One two three four five six", b"data:"),
        ("stream", "!stream 10 50 One two three four five six", None),
        ("send", "!sleep 0.5 One two three four five six", None),
    ):
        for way in ("closes", "resets"):
            context = h.send("Hello").task["contextId"]
            with Wire(h.address) as wire:
                wire.write(h.http(h.call(op, h.message(text, contextId=context))))
                if after:
                    wire.until(after)
                else:
                    time.sleep(0.1)
                if way == "resets":
                    wire.reset()
            name = f"{op}, {way} {'after an event' if after else 'before one'}"
            begun = time.monotonic()
            h.seen("DELETE")
            answer = h.next_turn(context, "And now?")
            h.check(f"{name}: the next message is answered", b"I heard: And now?" in answer.body, answer.body)
            h.check(f"{name}: within 3 s", time.monotonic() - begun < 3, time.monotonic() - begun)
            given = [one for one in h.texts() if "And now?" in one]
            h.check(f"{name}: the turn was recorded", len(given) == 1 and "four five six" in given[0], given)


def framing(h):
    """framing that two servers may read in two ways"""
    inner = h.http(h.call("send", h.message("smuggled")))
    call = h.call("send", h.message("outer"))
    chunks = f"{len(call):x}\r\n".encode() + call + b"\r\n0\r\n\r\n"
    length, chunked = f"Content-Length: {len(call)}", "Transfer-Encoding: chunked"

    def raw(*lines):
        return h.http(b"", *lines, length=False)

    # What must not be taken: at most an error, and the connection's end.
    for name, data in {
        "two lengths": raw(length, "Content-Length: 5") + call,
        "a length with a sign": raw(f"Content-Length: +{len(call)}") + call,
        "a length in a list": raw(f"Content-Length: {len(call)}, 5") + call,
        "a negative length": raw("Content-Length: -1") + call,
        "a length beyond all": raw("Content-Length: 99999999999999999999") + call,
        "chunked, then something": raw("Transfer-Encoding: chunked, identity") + chunks,
        "not chunked": raw("Transfer-Encoding: identity") + chunks,
        "chunked in HTTP/1.0": h.http(b"", chunked, line="POST / HTTP/1.0", length=False) + chunks,
        "a chunk of no size": raw(chunked) + b"\r\n" + call,
        "a chunk beyond all": raw(chunked) + b"fffffffffffffffff\r\n" + call,
        "a chunk longer than it says": raw(chunked) + b"5\r\n" + call + b"\r\n0\r\n\r\n",
        "a space before the colon": raw(f"Content-Length : {len(call)}") + call,
        "a folded line": raw("X-A: b", f" {chunked}", length) + call,
        "a bare CR": raw(f"X-A: b\r{chunked}", length) + call,
        "NUL in a header": raw("X-A: b\0c", length) + call,
        "no such version": h.http(call, line="POST / HTTP/3.9"),
        "no first line": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
        "a head without end": raw(*[f"X-{n}: {'a' * 1000}" for n in range(1000)]),
    }.items():
        h.seen("DELETE")
        with Wire(h.address) as wire:
            try:
                wire.write(data + inner)
            except ConnectionError:
                pass
            try:
                answer = wire.answer(PROMPT)
                over = answer is None or wire.is_over()
            except TimeoutError:
                answer, over = "nothing in time", False
        h.check(f"{name}: an error or the end", is_refusal(answer), getattr(answer, "body", answer))
        h.check(f"{name}: the connection ends", over, answer)
        h.equal(f"{name}: nothing reached the agent", h.texts(), [])

    # A length beside chunks: an error, or read by its chunks; nothing of it may be taken for another request, by the agent either.
    for name, lines in {"length and chunks": (length, chunked), "chunks and length": (chunked, "Content-Length: 3")}.items():
        h.seen("DELETE")
        with Wire(h.address) as wire:
            wire.write(raw(*lines) + chunks)
            answer = wire.answer(PROMPT)
        reached = h.texts()
        taken = answer and answer.status == 200 and reached == ["outer"]
        h.check(f"{name}: one request or none", taken or (reached == [] and is_refusal(answer)), reached)
        if taken:
            headers = [name.lower() for name, _ in h.seen()[0]["headers"]]
            h.equal(f"{name}: the agent sees one framing", sum(headers.count(one) for one in ("content-length", "transfer-encoding")), 1)


def other_methods(h):
    """methods that are none of A2A's"""
    card = "/.well-known/agent-card.json"
    with Wire(h.address) as wire:
        wire.write(h.http(b"", line=f"HEAD {card} HTTP/1.1", length=False))
        head = wire.answer(PROMPT, bodyless=True)
        h.check("HEAD of the card", head.status == 200 or head.status == 405, head.status)
        wire.write(h.http(b"", line=f"GET {card} HTTP/1.1", length=False))
        got = wire.answer(PROMPT)
        h.check("then GET of it on the same connection", got and got.status == 200 and json.loads(got.body)["name"], got)
        if head.status == 200 and "content-length" in head.headers:
            h.equal("HEAD tells the length that GET has", head.headers["content-length"], str(len(got.body)))
        wire.write(h.http(b"", line="HEAD / HTTP/1.1", length=False))
        h.check("HEAD of the interface", wire.answer(PROMPT, bodyless=True).status in (200, 404, 405))
        wire.write(h.http(b"", line="HEAD /readyz HTTP/1.1", length=False))
        h.equal("HEAD of readyz", wire.answer(PROMPT, bodyless=True).status, 200)
        wire.write(h.http(b"", line="OPTIONS / HTTP/1.1", length=False))
        options = wire.answer(PROMPT)
        h.check("OPTIONS of the interface", options and options.status < 500, options)
        wire.write(h.http(b"", "Origin: https://a.example", "Access-Control-Request-Method: POST", line="OPTIONS / HTTP/1.1", length=False))
        options = wire.answer(PROMPT)
        h.check("a browser's question is not granted of the proxy's own", "access-control-allow-origin" not in options.headers, options.headers)
        wire.write(h.http(h.call("send", h.message("Good day"))))
        answer = wire.answer()
        h.check("and a message on the same connection", answer and b"I heard: Good day" in answer.body, answer)
    h.seen("DELETE")
    lines = ["OPTIONS *", "TRACE /", "CONNECT 127.0.0.1:22", "BREW /", "PUT /", "DELETE /"]
    for line in [*(f"{one} HTTP/1.1" for one in lines), "PRI * HTTP/2.0"]:
        answer = h.ask(h.http(b"", line=line))
        h.check(f"{line}: an answer or the end, and no success", answer is None or answer.status >= 400 or line.startswith("OPTIONS"), answer and answer.status)
    # Some other request that has a message in it.
    call = h.call("send", h.message("by another method"))
    for method in ("PUT", "GET", "PATCH", "post"):
        h.ask(h.http(call, line=f"{method} / HTTP/1.1"), bodyless=False)
    answer = h.ask(h.http(call, "A2A-Multiturn-Hop: 1"), SECONDS)
    # `post` is read as the call that a lenient agent would take it for, so the agent may see two; each is the proxy's own.
    posts = [one for one in h.seen() if "by another method" in one["body"] and one["method"] == "POST"]
    hops = [[name for name, _ in one["headers"]].count("a2a-multiturn-hop") for one in posts]
    h.check("who says that it is a proxy is not believed", answer and hops and set(hops) == {1}, hops)
    context = answer.task["contextId"]
    h.seen("DELETE")
    h.ask(h.http(h.call("send", h.message("once more", contextId=context)), "A2A-Multiturn-Hop: 1", "Connection: A2A-Multiturn-Hop"), SECONDS)
    h.check("and gets the record like anybody", "by another method" in h.texts()[0], h.texts())


def too_large(h):
    """requests larger than the limit"""
    body = h.call("send", h.message("x" * (17 << 20)), "large")
    assert len(body) > LIMIT

    def chunks():
        for at in range(0, len(body), 1 << 16):
            piece = body[at : at + (1 << 16)]
            yield f"{len(piece):x}\r\n".encode() + piece + b"\r\n"
        yield b"0\r\n\r\n"

    packed = gzip.compress(body, 1)
    for name, pieces in {
        "with a length": [h.http(body)],
        "in chunks": [h.http(b"", "Transfer-Encoding: chunked", length=False), *chunks()],
        "compressed": [h.http(packed, "Content-Encoding: gzip")],
        "compressed with rubbish": [h.http(b"\x1f\x8b" + b"x" * 100, "Content-Encoding: gzip")],
        "compressed in a way that nobody knows": [h.http(body[:50], "Content-Encoding: rot13")],
    }.items():
        h.seen("DELETE")
        with Wire(h.address) as wire:

            def write():
                try:
                    for piece in pieces:
                        wire.write(piece)
                except OSError:
                    pass

            writer = threading.Thread(target=write)
            writer.start()
            try:
                answer = wire.answer()
            except TimeoutError:
                answer = None
            good = answer and (answer.status in (413, 415) or answer.code in (-32602, -32600))
            h.check(f"{name}: it is refused, as JSON-RPC has it", good and answer.code in (-32602, -32600), answer and (answer.status, answer.body[:200]))
            over = answer is None or "close" in answer.headers.get("connection", "")
            if not over:
                writer.join()
                try:
                    again = wire.write(h.http(h.call("get", {"id": "none"}, "again"))).answer(PROMPT)
                except (TimeoutError, ConnectionError):
                    again = None
                sane = again is None or again.results[0]["id"] == "again"
                h.check(f"{name}: what follows on the connection is read as it is, or not at all", sane, again and again.body[:200])
        writer.join()
        h.equal(f"{name}: nothing reached the agent", h.texts(), [])

    # Clients write all of it before they read; what they cannot write they leave.
    with Wire(h.address) as wire:
        try:
            wire.write(h.http(body))
        except ConnectionError:
            pass
        answer = wire.answer()
        h.check("who writes all before it reads gets the answer", answer and answer.status == 413, answer)
    # What a request says of itself is believed: it need not be sent.
    for name, expect in {"who tells the length": [], "who asks whether to go on": ["Expect: 100-continue"]}.items():
        with Wire(h.address) as wire:
            wire.write(h.http(body[:100], f"Content-Length: {len(body)}", *expect, length=False))
            answer = wire.answer(PROMPT)
            h.check(f"{name} is told at once", answer and answer.status == 413, answer)


def unreadable(h):
    """bodies that are none, or that say two things"""
    good = h.call("send", h.message("twice"))
    deep = b"[" * 100_000 + b"]" * 100_000
    twice = good.replace(b'"method"', b'"method": "none", "method"')
    for name, body, codes in (
        ("no JSON", b"{", (-32700,)),
        ("a half", good[:-3], (-32700,)),
        ("more behind it", good + b"}", (-32700,)),
        ("two requests", good + good, (-32700,)),
        ("a batch", b"[" + good + b"]", (-32600,)),
        ("a member twice", twice, (-32600, -32602)),
        ("a message twice", good.replace(b'"message": {', b'"message": {}, "message": {'), (-32600, -32602)),
        ("no id", good.replace(b'"id": "x", ', b""), (-32600,)),
        ("an id that is an object", good.replace(b'"id": "x"', b'"id": {"a": 1}'), (-32600,)),
        ("an id that is a list", good.replace(b'"id": "x"', b'"id": [1]'), (-32600,)),
        ("not UTF-8", good.replace(b"twice", b"\xff\xfe"), (-32700,)),
        ("half a surrogate", good.replace(b"twice", b"\\ud800"), None),
        ("nested a hundred thousand deep", good.replace(b'"params": ', b'"deep": %s, "params": ' % deep), (-32700, -32600)),
        ("a contextId of 1 MiB", h.call("send", h.message("twice", contextId="c" * (1 << 20))), (-32602,)),
        ("a contextId that is a number", h.call("send", h.message("twice", contextId=5)), None),
        ("a taskId of 1 MiB", h.call("get", {"id": "t" * (1 << 20)}), (-32001, -32602)),
        ("no message", h.call("send", {}), (-32602, -32600, -32603)),
    ):
        h.seen("DELETE")
        answer = h.ask(h.http(body))
        if codes is None:
            h.check(f"{name}: an answer", answer and answer.status in (200, 400), answer and answer.body[:200])
            continue
        h.check(f"{name}: refused", answer and answer.code in codes, answer and answer.body[:200])
        if name != "no message":
            h.equal(f"{name}: nothing reached the agent", h.texts(), [])


def other_principals(h):
    """ids of somebody else"""
    ada = {"who": "ada"}
    done = h.send("My name is Ada", **ada).task
    asked = h.send("book a room", **ada).task
    h.equal("the one is over, the other waits", (done["state"], asked["state"]), ("completed", "input-required"))
    with Wire(h.address) as wire:
        wire.write(h.http(h.call("stream", h.message("!sleep 4 Done at last.")), who="ada"))
        while not (running := ids_in(wire.buffer)):
            wire.more()
        for name, theirs in {"over": done, "waiting": asked, "running": running}.items():
            for who in ("eve", None):
                foreign(h, name, theirs, who)
        rest = wire.answer()
        h.check("the running turn went on to its end", rest and b"Done at last." in rest.body, rest and rest.body[-500:])
    # In somebody else's context there is a new one.
    h.seen("DELETE")
    answer = h.send("What is my name?", who="eve", contextId=done["contextId"])
    h.check("a contextId of somebody else is a new, empty context", b"I don't know your name." in answer.body, answer.body)
    h.equal("with no record given", h.texts(), ["What is my name?"])
    h.equal("under the id that was named", answer.task["contextId"], done["contextId"])
    own = h.send("What is my name?", contextId=done["contextId"], **ada)
    h.check("whose it is has lost nothing", b"Your name is Ada." in own.body, own.body)
    booked = h.send("Oslo", taskId=asked["taskId"], contextId=asked["contextId"], **ada)
    h.check("and answers her question", b"Booked a room in Oslo." in booked.body, booked.body)


def foreign(h, name, theirs, who):
    """Every operation with the ids of a task of somebody else's, and with ids that nobody has: the same bytes but for the id."""
    task, context = theirs["taskId"], theirs["contextId"]
    none, nowhere = re.sub("[0-9a-f]", "0", task), re.sub("[0-9a-f]", "0", context)

    def cases(task, context):
        url = {"url": "http://127.0.0.1:9/"}
        if h.options.dialect == "0.3":
            push = {
                "push set": {"taskId": task, "pushNotificationConfig": url},
                "push get": {"id": task},
                "push list": {"id": task},
                "push delete": {"id": task, "pushNotificationConfigId": "p"},
            }
        else:
            push = {
                "push set": {"taskId": task, **url},
                "push get": {"taskId": task, "id": "p"},
                "push list": {"taskId": task},
                "push delete": {"taskId": task, "id": "p"},
            }
        return {
            "get": ("get", {"id": task}),
            "get with history": ("get", {"id": task, "historyLength": 100}),
            "cancel": ("cancel", {"id": task}),
            "subscribe": ("subscribe", {"id": task}),
            "send": ("send", h.message("mine", taskId=task)),
            "send in its context": ("send", h.message("mine", taskId=task, contextId=context)),
            "send in another context": ("send", h.message("mine", taskId=task, contextId="c")),
            "stream": ("stream", h.message("mine", taskId=task)),
            "stream in its context": ("stream", h.message("mine", taskId=task, contextId=context)),
            **{op: (op, params) for op, params in push.items()},
        }

    h.seen("DELETE")
    found, missing = cases(task, context), cases(none, nowhere)
    for case in found:
        told = []
        for op, params in (found[case], missing[case]):
            answer = h.ask(h.http(h.call(op, params), who=who))
            if answer is None:
                told.append("nothing")
                continue
            headers = {key: value for key, value in answer.headers.items() if key != "date"}
            body = answer.body.replace(task.encode(), b"TASK").replace(none.encode(), b"TASK")
            told.append((answer.status, headers, body.replace(context.encode(), b"CONTEXT").replace(nowhere.encode(), b"CONTEXT")))
        label = f"{name}, {case}, by {who or 'nobody'}"
        h.check(f"{label}: as for an id that nobody has", told[0] == told[1], told)
        h.check(f"{label}: refused", b'"error"' in told[0][2], told[0])
    h.equal(f"{name}, by {who or 'nobody'}: nothing reached the agent", h.texts(), [])


def other_bindings(h):
    """spellings and bindings that are not served"""
    prefix = h.options.rest
    message = json.dumps({**h.message("past the guard"), "request": h.message("past the guard")["message"]}).encode()
    paths = [
        "/message:send",
        "/message:stream",
        "/message%3Asend",
        "/%6dessage:send",
        "/message:send/",
        "//message:send",
        "/message:send?a=b",
        "/MESSAGE:SEND",
        "/Message:Send",
        "/tenant/message:send",
        "/v1/message:send",
        "/v1/message:stream",
        "/V1/message:send",
        "/v1//message:send",
        "/v1/./message:send",
        "/v1/x/../message:send",
        "/v1/x/%2e%2e/message:send",
        "/v1/tasks/none:cancel",
        "/tasks/none:cancel",
        "/tasks/none/pushNotificationConfigs",
    ]
    for start in dict.fromkeys(["", prefix]):
        for path in paths:
            for line in (f"POST {start}{path} HTTP/1.1", f"POST http://{h.address[0]}:{h.address[1]}{start}{path} HTTP/1.1"):
                h.seen("DELETE")
                answer = h.ask(h.http(message, line=line))
                h.check(f"{line}: no success", answer is None or answer.status >= 300, answer and (answer.status, answer.body[:200]))
                ran = answer is not None and b"past the guard" in answer.body
                h.check(f"{line}: no turn of the agent's", not ran, answer and answer.body[:300])
                to = answer.headers.get("location", "") if answer else ""
                h.check(f"{line}: not sent to the agent itself", h.options.agent.rstrip("/") not in to, to)
    h.seen("DELETE")
    odd = ("/TASKS", "/V1/Tasks/none", "/tasks/", "/tasks/none/", "/tasks%2Fnone", "/tasks/none%3Asubscribe", "/v1//card")
    for path in ("/tasks/none", "/v1/tasks/none", "/tenant/tasks/none", *odd):
        answer = h.ask(h.http(b"", line=f"GET {prefix}{path} HTTP/1.1", length=False))
        h.equal(f"GET {prefix}{path}: there is none", answer and answer.status, 404)
    for method in ("HEAD", "get", "PUT", "DELETE", "TRACE"):
        answer = h.ask(h.http(b"", line=f"{method} {prefix}/tasks/none HTTP/1.1", length=False), bodyless=method == "HEAD")
        h.equal(f"{method} {prefix}/tasks/none: not with this method", answer and answer.status, 405)
    for name in ("X-HTTP-Method-Override", "X-HTTP-Method", "X-Method-Override"):
        answer = h.ask(h.http(message, f"{name}: GET", line=f"POST {prefix}/tasks/none HTTP/1.1"))
        h.equal(f"{name}: no other method than the request's own", answer and answer.status, 400)
    frame = b"\0" + struct.pack(">I", 3) + b"abc"
    for kind in ("application/grpc", "application/grpc+proto", "Application/gRPC-Web"):
        lines = [f"POST /lf.a2a.v1.A2AService/SendMessage HTTP/1.1", "Host: x", f"Content-Type: {kind}", f"Content-Length: {len(frame)}", "", ""]
        answer = h.ask("\r\n".join(lines).encode() + frame)
        h.equal(f"{kind}: UNIMPLEMENTED", answer and answer.headers.get("grpc-status"), "12")
    h.equal("none of these reached the agent", h.texts(), [])


def ids_in(data):
    """The ids in what was read of a stream so far."""
    text = data.decode("latin1")
    task = re.search(r'"(?:taskId|id)": ?"([0-9a-f]{8}-[^"]+)"', text)
    context = re.search(r'"contextId": ?"([^"]+)"', text)
    return {"taskId": task[1], "contextId": context[1]} if task and context else None


SCENES = [
    pipelined,
    half_closed,
    leaves_in_the_request,
    leaves_in_the_answer,
    framing,
    other_methods,
    too_large,
    unreadable,
    other_principals,
    other_bindings,
]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("url")
    parser.add_argument("--agent", required=True)
    parser.add_argument("--dialect", choices=METHODS, default="0.3")
    parser.add_argument("--rest", default="")
    parser.add_argument("--scene", action="append", help="only scenes whose name has this word in it")
    options = parser.parse_args()
    h = Hostile(options)
    for scene in SCENES:
        if options.scene and not any(word in scene.__name__ for word in options.scene):
            continue
        h.where = scene.__doc__
        h.seen("DELETE")
        try:
            scene(h)
        except Exception as error:  # a scene that breaks is a failed check, and the others go on
            h.check("the scene could be played to its end", False, repr(error))
        h.as_good_as_new()
    print(f"# {h.passed} passed, {h.failed} failed")
    sys.exit(1 if h.failed else 0)


main()
