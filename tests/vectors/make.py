#!/usr/bin/env python3
"""Makes digest.jsonl: conversations with their digests, for whoever implements the history digest.

    make.py            writes digest.jsonl beside this file
    make.py --check    fails where it would write anything else

It shares no code with the proxy and needs the standard library alone, so it is also the definition once more, step by step:

1. A JSON value is written by RFC 8785 (`canonical`): members sorted by their names' UTF-16 code units, no white space, strings with the least
   of escapes, numbers as ECMAScript writes a double. H(value) is SHA-256 of that, in UTF-8, written "sha256:" and 64 lower-case hex digits.
2. A part counts by its content alone, whatever dialect it is spelled in (`part`): {"text": ...}, {"data": ...} or {"file": {...}}, the latter
   with those of `name`, `mediaType`, `url` that it has and, where bytes came with it, their `size` (as a string) and `sha256`.
   Metadata, `kind`, ids and members that nobody knows do not count; nor does a part of no known kind.
3. A number in data counts as the double next to it where that, as RFC 8785 writes it, is the same number; else as a string with
   the literal text (`number`).
4. A message is H({"parts": [...], "role": "user" | "agent"}). The agent's message is its reply: the text in one part, then the other parts.
5. A turn is H({"agent": message, "artifacts": [{"artifactId": ..., "taskId": ...}, ...], "user": message}), with ids as the client saw them.
6. What was accepted is H({"history": [entry, ...], "message": message}): an entry is the digest of a turn that was shown, with
   ";head=N;tail=N" behind it where it was shown cut (in bytes); the window oldest first, then turns that the message referred to.
"""

import base64
import hashlib
import json
import math
import pathlib
import sys
from decimal import Decimal, InvalidOperation


class Literal(str):
    """A number, as it is spelled."""


def read(text):
    return json.loads(text, parse_float=Literal, parse_int=Literal)


def canonical(value):
    if value is None:
        return "null"
    if value is True:
        return "true"
    if value is False:
        return "false"
    if isinstance(value, float):
        return ecmascript(value)
    if isinstance(value, str):
        return quoted(value)
    if isinstance(value, list):
        return "[" + ",".join(map(canonical, value)) + "]"
    names = sorted(value, key=lambda name: name.encode("utf-16-be"))
    return "{" + ",".join(quoted(name) + ":" + canonical(value[name]) for name in names) + "}"


SHORT = {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r"}


def quoted(text):
    def escaped(character):
        if character in SHORT:
            return SHORT[character]
        return f"\\u{ord(character):04x}" if character < " " else character

    return '"' + "".join(map(escaped, text)) + '"'


def ecmascript(double):
    """Number::toString of ECMA-262, from the shortest digits that give the same double, which Python's repr finds."""
    if double == 0:
        return "0"
    sign, digits, exponent = Decimal(repr(double)).as_tuple()
    digits = "".join(map(str, digits))
    point = len(digits) + exponent  # where the decimal point stands, counted from the first digit
    digits = digits.rstrip("0")
    if 0 < point <= 21:
        text = digits.ljust(point, "0")
        if len(digits) > point:
            text = digits[:point] + "." + digits[point:]
    elif -6 < point <= 0:
        text = "0." + "0" * -point + digits
    else:
        mantissa = digits[0] + ("." + digits[1:] if len(digits) > 1 else "")
        text = f"{mantissa}e{point - 1:+d}"
    return ("-" if sign else "") + text


def number(literal):
    double = float(literal)
    if not math.isfinite(double):
        return str(literal)
    if not any(digit in "123456789" for digit in literal.lower().split("e")[0]):
        return 0.0
    try:
        return double if Decimal(literal) == Decimal(repr(double)) else str(literal)
    except InvalidOperation:
        return str(literal)  # an exponent that even Decimal does not hold


def data(value):
    if isinstance(value, Literal):
        return number(value)
    if isinstance(value, list):
        return [data(element) for element in value]
    if isinstance(value, dict):
        return {name: data(member) for name, member in value.items()}
    return value


def decoded(text):
    text = text.rstrip("=").translate(str.maketrans("-_", "+/"))
    return base64.b64decode(text + "=" * (-len(text) % 4), validate=True)


def part(spelled):
    if isinstance(spelled.get("text"), str):
        return {"text": spelled["text"]}
    if "data" in spelled:
        return {"data": data(spelled["data"])}
    file = spelled.get("file", spelled)  # 0.3 nests it
    members = {
        "name": file.get("name", file.get("filename")),
        "mediaType": file.get("mimeType", file.get("mediaType")),
        "url": next((file[name] for name in ("uri", "url", "fileWithUri") if name in file), None),
        "size": file.get("size"),  # of bytes that are no longer there
        "sha256": file.get("sha256"),
    }
    for name in ("bytes", "raw", "fileWithBytes"):
        if name in file:
            content = decoded(file[name])
            members.update(size=str(len(content)), sha256=hashlib.sha256(content).hexdigest())
    members = {name: member for name, member in members.items() if member is not None}
    return {"file": members} if "url" in members or "sha256" in members else None


def H(value):
    return "sha256:" + hashlib.sha256(canonical(value).encode()).hexdigest()


def message(role, spelled):
    parts = [part(one) for one in spelled.get("parts", spelled.get("content"))]
    return H({"parts": [one for one in parts if one is not None], "role": role})


def turn(user, agent, artifacts):
    return H({"agent": agent, "artifacts": artifacts, "user": user})


def accepted(history, user):
    return H({"history": history, "message": user})


def text(words):
    return '{"parts":[{"text":%s}]}' % json.dumps(words, ensure_ascii=False)


# Each: what it shows; the user's message and the agent's reply as they are spelled; task id and artifact id of each artifact; and the turns
# that were shown, by number, with what is behind the digest of one that was cut.
TURNS = [
    (
        "text",
        text("My name is Ada"),
        text("Hello Ada."),
        [("t-1", "response")],
        [],
    ),
    (
        "escapes, in both dialects; an escaped member name; members that do not count",
        r'{"messageId":"m-2","role":"user","kind":"message","parts":[{"kind":"text","text":"caf\u00e9 \"quoted\" back\\slash \/ tab\tline\nfeed\u000c\b\u0001\u007f"},{"kind":"new"}],"metadata":{"x":1}}',
        '{"parts":[{"te\\u0078t":"pair \\ud83d\\ude00 and plain 😀 \\u2028 ￿ é","metadata":{"thought":false}}]}',
        [("t-2", "response")],
        [1],
    ),
    (
        "data: numbers that a double holds, however they are spelled, and some that it does not",
        '{"parts":[{"data":{"n":[0,-0,-0.0,1.0,1e3,100,0.10,1e-1,1e21,1E+20,123456789012345680000,0.000001,1e-7,5e-324,'
        '1.7976931348623157e308,9007199254740992,9007199254740993,0.1000000000000000055511151231257827,'
        '123456789012345678901234567890,1e999,-1e999,1e-999,0e99999999999999999999,1e23,4.35,-1.5e-9,333333333.33333329,1071043517320029.20,1071043517320029.3]}}]}',
        '{"parts":[{"kind":"text","text":"Thanks."},{"kind":"data","data":[null,true,false,"",[],{}]}]}',
        [("t-3", "response"), ("t-3", "table")],
        [1, 2],
    ),
    (
        "data: order of names, by UTF-16 code units; nested members called data",
        '{"parts":[ { "data" : {"\\ue000":1, "😀":2, "z":{"b":1,"a":{"data":{"data":[1]}}}, "é":3, "":4, "a\\nb":5, "10":6, "9":7} } ]}',
        '{"parts":[{"data":"just a string"},{"data":null},{"data":0.5}]}',
        [("t-4", "response")],
        [1, 2, 3],
    ),
    (
        "files with bytes, in both dialects; base64 without padding in the other alphabet; a receipt for bytes that are gone",
        '{"parts":[{"kind":"file","file":{"bytes":"dGNr","mimeType":"text/plain","name":"o.txt"}},'
        '{"raw":"-_-_AA","filename":"é.bin","mediaType":"application/octet-stream"},{"raw":""}]}',
        '{"parts":[{"text":"Read."},{"file":{"name":"o.txt","mediaType":"text/plain","size":"3",'
        '"sha256":"%s"}}]}' % hashlib.sha256(b"tck").hexdigest(),
        [("t-5", "response")],
        [1, 2, 3, 4],
    ),
    (
        "files that are elsewhere, in both dialects, and 0.3 over HTTP+JSON",
        '{"parts":[{"kind":"file","file":{"uri":"https://e.example/a?b=c&d","name":"a"}},{"url":"https://e.example/a?b=c&d","filename":"a"}]}',
        '{"content":[{"text":"Both."},{"file":{"fileWithUri":"https://e.example/b","mimeType":"image/png"}}]}',
        [],
        [1, 2, 3, 4, 5],
    ),
    (
        "an empty reply",
        text("Say nothing."),
        '{"parts":[]}',
        [],
        [1, 2, 3, 4, 5, 6],
    ),
    (
        "a long turn, which the next one shows cut",
        text("Tell me a long story."),
        text("Once upon a time " * 8 + "é"),
        [("t-8", "response")],
        [1, 2, 3, 4, 5, 6, 7],
    ),
    (
        "a window whose start has moved, a turn shown cut, and a turn that the message referred to",
        text("Like the table, please."),
        text("Which table do you mean?"),
        [("t-9", "response")],
        [5, 6, 7, (8, ";head=16;tail=16"), 3],
    ),
    (
        "the answer to a question, on the same task: its artifact has a number behind its id",
        text("The second."),
        text("Here it is."),
        [("t-9", "response~2"), ("t-9", "table")],
        [5, 6, 7, (8, ";head=16;tail=16"), 9],
    ),
    (
        "a credential, as its receipt; nothing was shown",
        '{"parts":[{"data":{"credential":{"length":"8","hmac":"%s"}}}]}' % ("0f" * 32),
        text("Signed in."),
        [("t-11", "response")],
        [],
    ),
    (
        "a message without reply as yet",
        text("And now?"),
        None,
        [],
        [9, 10, 11],
    ),
]


def lines():
    digests = {}
    for at, (shows, user, agent, artifacts, shown) in enumerate(TURNS, start=1):
        artifacts = [{"taskId": task, "artifactId": artifact} for task, artifact in artifacts]
        said = message("user", read(user))
        history = [digests[one] if isinstance(one, int) else digests[one[0]] + one[1] for one in shown]
        members = [("turn", json.dumps(str(at))), ("shows", json.dumps(shows)), ("user", user)]
        if agent is not None:
            members.append(("agent", agent))
        if artifacts:
            members.append(("artifacts", json.dumps(artifacts)))
        if agent is not None:
            digests[at] = turn(said, message("agent", read(agent)), artifacts)
            members.append(("turn_digest", json.dumps(digests[at])))
        members.append(("history_turns", json.dumps(history)))
        members.append(("accepted_history_digest", json.dumps(accepted(history, said))))
        yield "{" + ",".join(f'"{name}":{member}' for name, member in members) + "}\n"


def main():
    path = pathlib.Path(__file__).with_name("digest.jsonl")
    made = "".join(lines())
    if "--check" not in sys.argv[1:]:
        path.write_text(made, encoding="utf-8", newline="")
    elif path.read_bytes() != made.encode():
        sys.exit(f"{path} is not what {sys.argv[0]} makes")


main()
