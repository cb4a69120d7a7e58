#!/usr/bin/env python3
"""Records how an agent streams: the body of each answer to a streaming call, byte for byte as it came.

    record.py --peer NAME --dialect 0.3|1.0 [--http BASE] --into FOLDER URL

URL is the agent's own, BASE the path under which it serves HTTP+JSON, where that is to be recorded. Each case is one message in a conversation of its own, whose answer goes to
FOLDER/NAME-CASE.sse, or to NAME-CASE.torn.sse where the connection broke before the end. Raw sockets, so that nothing reads the stream on the way: all that is undone is HTTP's chunking.
The request's ids are the same in each recording (1, and `m-1` for the message); those that the agent made are as they came.
"""

import argparse
import json
import pathlib
import socket
import urllib.parse

CASES = {
    "stream": "!stream 3 0 One, two — 你好 🙂, three.",
    "say": "!say The kettle is on.",
    "ask": "!ask Which city do you mean?",
    "status": "!status The light is green.",
    "message": "!message The door is shut.",
    "input": "!input Please name a colour.",
    "auth": "!auth Please log in.",
    "fail": "!fail The milk is gone.",
    "raise": "!raise The roof is off.",
    "two": "!two The kettle is on.",
    "silent": "!silent",
}
SECONDS = 20


def request(dialect, text, http):
    message = {"messageId": "m-1"}
    if http is not None:
        return {"message": message | {"role": "ROLE_USER", "content" if dialect == "0.3" else "parts": [{"text": text}]}}
    if dialect == "0.3":
        message |= {"kind": "message", "role": "user", "parts": [{"kind": "text", "text": text}]}
    else:
        message |= {"role": "ROLE_USER", "parts": [{"text": text}]}
    method = "message/stream" if dialect == "0.3" else "SendStreamingMessage"
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": {"message": message}}


def unchunked(raw):
    """The body, and whether it came to its end."""
    body = b""
    while raw:
        size, _, raw = raw.partition(b"\r\n")
        size = int(size.partition(b";")[0], 16)
        if size == 0:
            return body, True
        body, raw = body + raw[:size], raw[size + 2 :]
    return body, False


def answer(url, dialect, text, http):
    """The media type of the answer, its body, and whether that came to its end."""
    at = urllib.parse.urlsplit(url)
    body = json.dumps(request(dialect, text, http)).encode()
    head = [
        f"POST {'/' if http is None else http + '/message:stream'} HTTP/1.1",
        f"Host: {at.netloc}",
        "Content-Type: application/json",
        "Accept: text/event-stream",
        f"Content-Length: {len(body)}",
        "Connection: close",
    ]
    if dialect == "1.0":
        head.append("A2A-Version: 1.0")
    raw = b""
    with socket.create_connection((at.hostname, at.port), timeout=SECONDS) as line:
        line.sendall("".join(f"{one}\r\n" for one in head).encode() + b"\r\n" + body)
        while piece := line.recv(1 << 16):
            raw += piece
    head, _, body = raw.partition(b"\r\n\r\n")
    fields = dict(one.lower().split(": ", 1) for one in head.decode("latin-1").split("\r\n")[1:])
    body, whole = unchunked(body) if fields.get("transfer-encoding") == "chunked" else (body, True)
    return fields.get("content-type", ""), body, whole


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peer", required=True)
    parser.add_argument("--dialect", required=True, choices=["0.3", "1.0"])
    parser.add_argument("--http")
    parser.add_argument("--into", required=True, type=pathlib.Path)
    parser.add_argument("url")
    options = parser.parse_args()
    for case, text in CASES.items():
        kind, body, whole = answer(options.url, options.dialect, text, options.http)
        if not kind.startswith("text/event-stream"):
            print(f"left out: {options.peer} answers {case} with {kind}: {body[:200]!r}")
            continue
        name = f"{options.peer}-{case}{'' if whole else '.torn'}.sse"
        (options.into / name).write_bytes(body)
        print(f"{name}: {len(body)} bytes")


main()
