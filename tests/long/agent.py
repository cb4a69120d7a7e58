"""A small A2A v0.3 agent that behaves as badly as it is told: `agent.py PORT`. Standard library alone; JSON-RPC on /.

It prints `ready PORT`. The last line of a message decides what becomes of it; `!cut` and so on are in BEHAVIOURS below. Without
one it answers `given N`, N being how many lines of a record stood in front. `GET /__stats` tells how many connections are open,
and how many there ever were.
"""

import asyncio
import json
import random
import socket
import struct
import sys
import uuid

OVER = ("completed", "failed", "canceled", "rejected")
BEHAVIOURS = ("normal", "slow", "cut", "half", "reset", "silent", "500", "lies", "later", "forgets", "works")
HANG = 60  # so long a silent connection is kept, unless the other side ends it


class Gone(Exception):
    """The agent ends the connection."""


def sse(result, call_id):
    return b"data: " + json.dumps({"jsonrpc": "2.0", "id": call_id, "result": result}).encode() + b"\n\n"


def status(task, state, text=None):
    told = {"state": state}
    if text:
        words = {"kind": "message", "role": "agent", "messageId": str(uuid.uuid4()), "parts": [{"kind": "text", "text": text}]}
        told["message"] = words
    return {"kind": "status-update", **ids(task), "status": told, "final": state in OVER}


def ids(task):
    return {"taskId": task["id"], "contextId": task["contextId"]}


def artifact(text):
    return {"artifactId": "response", "name": "response", "parts": [{"kind": "text", "text": text}]}


def update(task, text, append):
    return {"kind": "artifact-update", **ids(task), "artifact": artifact(text), "append": append, "lastChunk": False}


class Agent:
    def __init__(self):
        self.open = self.ever = 0
        self.tasks = {}

    async def connection(self, reader, writer):
        self.open += 1
        self.ever += 1
        try:
            while await self.request(reader, writer):
                pass
        except (Gone, ConnectionError, asyncio.IncompleteReadError, ValueError):
            pass
        finally:
            self.open -= 1
            writer.close()

    async def request(self, reader, writer):
        first = await reader.readline()
        if not first.strip():
            return False
        length = 0
        while (line := await reader.readline()).strip():
            name, _, value = line.partition(b":")
            if name.lower() == b"content-length":
                length = int(value)
        body = await reader.readexactly(length)
        if first.startswith(b"GET /__stats"):
            whole(writer, {"open": self.open, "ever": self.ever})
        elif first.startswith(b"GET /.well-known/agent-card.json"):
            whole(writer, self.card)
        elif first.startswith(b"POST"):
            await self.call(json.loads(body), reader, writer)
        else:
            whole(writer, {}, "404 Not Found")
        await writer.drain()
        return True

    async def call(self, call, reader, writer):
        call_id, params = call["id"], call.get("params", {})
        if call["method"] in ("message/send", "message/stream"):
            lines = "".join(part.get("text", "") for part in params["message"]["parts"]).split("\n")
            told = lines[-1].split()[0].removeprefix("!") if lines[-1].startswith("!") else ""
            given = sum(line.startswith('{"turn"') for line in lines)
            task = {"kind": "task", "id": str(uuid.uuid4()), "contextId": params["message"].get("contextId") or str(uuid.uuid4())}
            act = self.stream if call["method"] == "message/stream" else self.block
            await act(told, task, call_id, f"given {given}", reader, writer, lines[-1])
        elif call["method"] == "tasks/get" and params.get("id") in self.tasks:
            task, state = self.tasks[params["id"]]
            whole(writer, {"jsonrpc": "2.0", "id": call_id, "result": task | {"status": {"state": state}}})
        elif call["method"] == "tasks/resubscribe" and params.get("id") in self.tasks:
            head(writer, "text/event-stream")
            await self.silence(reader)
        else:
            whole(writer, {"jsonrpc": "2.0", "id": call_id, "error": {"code": -32001, "message": "Task not found"}})

    async def silence(self, reader):
        """Says nothing until the other side leaves."""
        try:
            await asyncio.wait_for(reader.read(1), HANG)
        except TimeoutError:
            pass
        raise Gone

    def remember(self, told, task, text):
        """What Get tells of a task that was left at work."""
        if told == "later":
            self.tasks[task["id"]] = (task | {"artifacts": [artifact(text)]}, "completed")
        elif told == "works":
            self.tasks[task["id"]] = (task, "working")

    async def block(self, told, task, call_id, text, reader, writer, line):
        done = {"jsonrpc": "2.0", "id": call_id, "result": task | {"status": {"state": "completed"}, "artifacts": [artifact(text)]}}
        match told:
            case "long":
                done["result"]["artifacts"] = [artifact("x" * int(line.split()[1]))]
            case "slow":
                await asyncio.sleep(random.uniform(0.2, 1))
            case "cut":
                data = json.dumps(done).encode()
                head(writer, "application/json", len(data))
                writer.write(data[: random.randrange(len(data))])
                raise Gone
            case "half":
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Le")
                raise Gone
            case "reset":
                reset(writer)
            case "silent":
                await self.silence(reader)
            case "500":
                return plain_500(writer)
            case "lies":
                return lie(writer, random.randrange(8), done, call_id)
            case "later" | "forgets" | "works":
                self.remember(told, task, text)
                return whole(writer, {"jsonrpc": "2.0", "id": call_id, "result": task | {"status": {"state": "working"}}})
        whole(writer, done)

    async def stream(self, told, task, call_id, text, reader, writer, line):
        if told == "500":
            return plain_500(writer)
        if told == "wait":
            text = "waited"
        head(writer, "text/event-stream")

        def say(result):
            chunk(writer, sse(result, call_id))

        say(task | {"status": {"state": "submitted"}})
        say(status(task, "working"))
        if told == "silent":
            await writer.drain()
            await self.silence(reader)
        if told == "wait":
            await writer.drain()
            await asyncio.sleep(float(line.split()[1]))
        for n in range(20):
            if told in ("slow", "hush"):
                await asyncio.sleep(random.uniform(0.01, 0.08))
            if n == 10:
                match told:
                    case "cut":
                        writer.write(b"0\r\n\r\n")
                        raise Gone
                    case "half":
                        chunk(writer, sse(update(task, "no more", True), call_id)[:-30])
                        raise Gone
                    case "reset":
                        await writer.drain()
                        reset(writer)
                    case "later" | "forgets" | "works":
                        self.remember(told, task, text)
                        raise Gone
                    case "hush":
                        await writer.drain()
                        await self.silence(reader)
                    case "lies":
                        lie_in_stream(writer, random.randrange(6), task, call_id)
                        writer.write(b"0\r\n\r\n")
                        raise Gone
            say(update(task, f"{text} and so on" if n else text, n > 0))
            await writer.drain()
        say(status(task, "completed"))
        writer.write(b"0\r\n\r\n")


def head(writer, kind, length=None, code="200 OK"):
    framing = "Transfer-Encoding: chunked" if length is None else f"Content-Length: {length}"
    writer.write(f"HTTP/1.1 {code}\r\nContent-Type: {kind}\r\n{framing}\r\n\r\n".encode())


def chunk(writer, data):
    writer.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")


def whole(writer, value, code="200 OK"):
    data = json.dumps(value).encode()
    head(writer, "application/json", len(data), code)
    writer.write(data)


def plain_500(writer):
    head(writer, "text/plain", 9, "500 Internal Server Error")
    writer.write(b"no answer")


def reset(writer):
    writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()
    raise Gone


def lie(writer, kind, done, call_id):
    match kind:
        case 0:  # no JSON
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 8\r\n\r\n{\"a\": 1,")
        case 1:  # another request's answer
            whole(writer, done | {"id": "another"})
        case 2:
            whole(writer, {"jsonrpc": "2.0", "id": call_id, "result": None})
        case 3:  # more than its length
            data = json.dumps(done).encode()
            head(writer, "application/json", len(data))
            writer.write(data + b"HTTP/1.1 200 OK\r\n" + data)
            raise Gone
        case 4:  # a stream that nobody asked for
            head(writer, "text/event-stream")
            chunk(writer, b"data: " + json.dumps(done).encode() + b"\n\n")
            writer.write(b"0\r\n\r\n")
        case 5:
            writer.write(b"\x00\xff" * 100)
            raise Gone
        case 6:  # a state that there is none of
            whole(writer, done | {"result": done["result"] | {"status": {"state": "perhaps"}}})
        case 7:  # compressed, it says
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Encoding: gzip\r\nContent-Length: 5\r\n\r\nhello")


def lie_in_stream(writer, kind, task, call_id):
    other = {"id": str(uuid.uuid4()), "contextId": str(uuid.uuid4())}
    match kind:
        case 0:
            chunk(writer, b"data: {\n\n")
        case 1:  # another task's end
            chunk(writer, sse(status(other, "completed"), call_id))
        case 2:  # another request's end
            chunk(writer, sse(status(task, "completed"), "another"))
        case 3:  # two ends
            chunk(writer, sse(status(task, "completed"), call_id) + sse(status(task, "failed", "no"), call_id))
        case 4:
            writer.write(b"zz\r\n" + sse(status(task, "completed"), call_id))
        case 5:  # an event without end
            for _ in range(64):
                chunk(writer, b"data: " + b"x" * 4096)


async def main():
    # The protocol is named, since asyncio sets TCP_NODELAY only where it is.
    sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    sock.bind(("127.0.0.1", int(sys.argv[1])))
    agent, port = Agent(), sock.getsockname()[1]
    agent.card = {
        "name": "Bad",
        "description": "Behaves as it is told",
        "version": "1.0.0",
        "protocolVersion": "0.3.0",
        "url": f"http://127.0.0.1:{port}/",
        "preferredTransport": "JSONRPC",
        "capabilities": {"streaming": True},
        "defaultInputModes": ["text/plain"],
        "defaultOutputModes": ["text/plain"],
        "skills": [],
    }
    server = await asyncio.start_server(agent.connection, sock=sock, backlog=1024)
    print(f"ready {port}", flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())
