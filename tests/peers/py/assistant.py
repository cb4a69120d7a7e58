"""A stateless assistant: it knows what is in the text that it is given, and nothing else.

No SDK here; the agents on each SDK line turn a `Reply` into their own events. What it does is decided by the LAST
line that is not empty, so whatever stands in front (a record of earlier turns, for one) only adds to what it knows.
The Node agents do the same; see ../js/assistant.mjs and the table in ../README.md.
"""

import asyncio
import json
import re
import secrets
import socket
from dataclasses import dataclass, field

FORMS = {
    "book a room": (["Which city do you mean?"], "Booked a room in {}."),
    "plan a trip": (
        ["Where would you like to go?", "On which day do you want to leave?", "How many nights will you stay?"],
        "Planned a trip: {}, {}, {}.",
    ),
}


@dataclass
class Chunk:
    """A piece of an artifact: parts are ("text", str), ("data", dict) or ("file", bytes, media type, name)."""

    parts: list
    artifact: str = "response"
    append: bool = False
    last: bool = True
    wait: float = 0.0


@dataclass
class Reply:
    """What becomes of one message."""

    chunks: list = field(default_factory=list)
    state: str = "completed"
    words: str | None = None  # the text of the closing status message
    message: str | None = None  # a bare Message and no task
    error: str | None = None  # the agent throws this
    wait: float = 0.0


def says(text):
    return Reply(chunks=[Chunk([("text", text)])])


def reply_to(given):
    lines = [line for line in given.split("\n") if line.strip()]
    last = lines[-1].strip() if lines else ""
    if last.startswith("!"):
        return command(*last[1:].partition(" ")[::2], given)
    if m := re.fullmatch(r"My name is ([\w'-]+)\.?", last):
        return says(f"Nice to meet you, {m[1]}.")
    if last == "What is my name?":
        names = re.findall(r"My name is ([\w'-]+)", given)
        return says(f"Your name is {names[-1]}." if names else "I don't know your name.")
    if last == "mint a secret":
        return says(f"The secret is {secrets.token_hex(16)}.")
    if last == "What was the secret?":
        known = re.findall(r"The secret is ([0-9a-f]{32})", given)
        return says(f"It was {known[-1]}." if known else "I don't know.")
    if last in FORMS:
        return says(FORMS[last][0][0])
    return says(form_answer(turns(lines[:-1]), last) or f"I heard: {last}.")


def turns(lines):
    """The sides of a conversation that are written one JSON object a line, as (who, text)."""
    found = []
    for line in lines:
        try:
            side = json.loads(line)
            found.append((side["from"], side["text"]))
        except (ValueError, TypeError, KeyError):
            pass
    return found


def form_answer(past, answer):
    """The next question of a form, or its result, if the newest thing that the assistant said is one of its questions."""
    starts = [i for i, (who, text) in enumerate(past) if who == "user" and text in FORMS]
    if not starts:
        return None
    questions, result = FORMS[past[starts[-1]][1]]
    after = past[starts[-1] + 1 :]
    if [text for _, text in after[::2]] != questions[: len(after[::2])] or len(after) % 2 == 0:
        return None
    answers = [re.sub(r"^\w+:\s*", "", text) for _, text in after[1::2]] + [re.sub(r"^\w+:\s*", "", answer)]
    return questions[len(answers)] if len(answers) < len(questions) else result.format(*answers)


def command(name, rest, given):
    text = [("text", rest)]
    match name:
        case "say" | "ask":
            return says(rest)
        case "echo":
            return says(given)
        case "long":
            return says("x" * int(rest))
        case "two":
            return Reply(chunks=[Chunk([("text", "a tool's output")], "tool"), Chunk(text)])
        case "data":
            return Reply(chunks=[Chunk([("data", {"colour": "blue", "count": 3})])])
        case "file":
            return Reply(chunks=[Chunk([("file", b"a small file\n", "text/plain", "small.txt")])])
        case "stream":
            count, millis, words = rest.split(" ", 2)
            n = int(count)
            cuts = [len(words) * i // n for i in range(n + 1)]
            return Reply(
                chunks=[
                    Chunk([("text", words[cuts[i] : cuts[i + 1]])], append=i > 0, last=i == n - 1, wait=int(millis) / 1000)
                    for i in range(n)
                ]
            )
        case "sleep":
            seconds, _, words = rest.partition(" ")
            return Reply(chunks=[Chunk([("text", words)])], wait=float(seconds))
        case "status":
            return Reply(words=rest)
        case "message":
            return Reply(message=rest)
        case "silent":
            return Reply()
        case "input":
            return Reply(state="input-required", words=rest)
        case "auth":
            return Reply(state="auth-required", words=rest)
        case "fail":
            return Reply(state="failed", words=rest)
        case "raise":
            return Reply(error=rest)
    return Reply(state="rejected", words=f"There is no command {name}.")


class Recorder:
    """ASGI: keeps every request as it arrived. GET /__seen lists them, DELETE /__seen forgets them."""

    def __init__(self, app):
        self.app = app
        self.seen = []

    async def __call__(self, scope, receive, send):
        if scope["type"] != "http":
            return await self.app(scope, receive, send)
        if scope["path"] == "/__seen":
            return await self.report(scope["method"], send)
        query = scope["query_string"].decode("latin1")
        entry = {
            "method": scope["method"],
            "target": scope["raw_path"].decode("latin1") + (f"?{query}" if query else ""),
            "headers": [[name.decode("latin1"), value.decode("latin1")] for name, value in scope["headers"]],
            "body": b"",
        }
        self.seen.append(entry)

        async def listen():
            event = await receive()
            entry["body"] += event.get("body", b"")
            return event

        await self.app(scope, listen, send)

    async def report(self, method, send):
        if method == "DELETE":
            self.seen.clear()
        shown = [{**entry, "body": entry["body"].decode("utf-8", "backslashreplace")} for entry in self.seen]
        headers = [(b"content-type", b"application/json")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": json.dumps(shown).encode()})


def listen(port):
    """A socket bound before the card is written, so that port 0 works."""
    # The protocol is named, since asyncio sets TCP_NODELAY only where it is; else each reply waits 40 ms for an ACK.
    sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    sock.bind(("127.0.0.1", port))
    sock.listen(128)
    return sock, f"http://127.0.0.1:{sock.getsockname()[1]}"


async def serve(app, sock):
    import uvicorn

    server = uvicorn.Server(uvicorn.Config(Recorder(app), log_level="warning", timeout_graceful_shutdown=1))
    running = asyncio.ensure_future(server.serve(sockets=[sock]))
    while not server.started and not running.done():
        await asyncio.sleep(0.02)
    print(f"ready {sock.getsockname()[1]}", flush=True)
    await running
