#!/usr/bin/env python3
"""Holds the conversations of talk.py in both dialects at once: each message in another one than the message before it.

    mixed.py --agent AGENT_URL --turns "0.3 blocking, 1.0 streaming" URL

URL is the proxy's, AGENT_URL that of an agent behind it that speaks v0.3 and v1.0 on one URL. The messages go out as
--turns has it, round and round; so a question is asked in one dialect and answered in the other, on the same task. Every
Get is made in both, and has to tell the same. No SDK here: JSON-RPC by hand, so that nothing translates.
"""

import argparse
import http.client
import itertools
import json
import sys
import urllib.parse
import uuid

import talk

EXTENSION = "https://github.com/a2aproject/A2A/issues/2061#v1"
SEND = {
    ("0.3", "blocking"): "message/send",
    ("0.3", "streaming"): "message/stream",
    ("1.0", "blocking"): "SendMessage",
    ("1.0", "streaming"): "SendStreamingMessage",
}


class Mixed(talk.Talk):
    def __init__(self, options):
        self.options = options
        self.passed = self.failed = self.needs = 0
        self.marks = set()
        self.where = "start"
        self.turns = itertools.cycle([tuple(turn.split()) for turn in options.turns.split(",")])
        at = urllib.parse.urlsplit(options.url)
        self.line = http.client.HTTPConnection(at.hostname, at.port, timeout=talk.CALL_SECONDS)

    def call(self, dialect, method, params):
        """The results of a call, in order, and its error; and how it was answered."""
        call_id = str(uuid.uuid4())
        body = json.dumps({"jsonrpc": "2.0", "id": call_id, "method": method, "params": params})
        headers = {"Content-Type": "application/json"} | ({"A2A-Version": "1.0"} if dialect == "1.0" else {})
        self.line.request("POST", "/", body.encode(), headers)
        answer = self.line.getresponse()
        kind = answer.headers.get_content_type()
        text = answer.read().decode()
        answers = [text]
        if kind == "text/event-stream":
            fields = [[line[5:].removeprefix(" ") for line in event.splitlines() if line.startswith("data:")]
                      for event in text.replace("\r\n", "\n").split("\n\n")]  # fmt: skip
            answers = ["\n".join(lines) for lines in fields if lines]
        answers = [json.loads(one) for one in answers]
        self.check("each answer has the id of the call", {one["id"] for one in answers} == {call_id}, answers)
        results = [one["result"] for one in answers if "result" in one]
        errors = [one["error"] for one in answers if "error" in one]
        for result in results:
            self.check(f"the answer is {dialect} throughout", *spelled(result, dialect))
        return results, errors[0] if errors else None, kind

    def order(self, op, text=None, contextId=None, taskId=None):
        if op == "get":
            return self.both_gets(taskId)
        dialect, how = next(self.turns)
        scene = self.where
        self.where += f", {dialect} {how}"
        message = {"messageId": str(uuid.uuid4())}
        message |= {name: given for name, given in (("contextId", contextId), ("taskId", taskId)) if given}
        if dialect == "0.3":
            message |= {"kind": "message", "role": "user", "parts": [{"kind": "text", "text": text}]}
        else:
            message |= {"role": "ROLE_USER", "parts": [{"text": text}]}
        events, error, kind = self.call(dialect, SEND[dialect, how], {"message": message})
        self.equal("a stream where one was asked for", kind == "text/event-stream", how == "streaming")
        if how == "streaming" and not error:
            self.check("one closing event, the last", *closes_once(events, dialect))
        self.where = scene
        return {"events": events} | ({"error": error} if error else {})

    def both_gets(self, task):
        found = []
        for dialect, method in (("0.3", "tasks/get"), ("1.0", "GetTask")):
            results, error, _ = self.call(dialect, method, {"id": task, "historyLength": 100})
            if error:
                return {"error": error}
            found.append(results[0])
        told = []
        for task in found:
            seen = talk.Seen([{"task": task}])
            ids = [one.get("messageId") for one in task.get("history") or []]
            told.append([seen.facts(), seen.sides(), ids, (task.get("metadata") or {}).get(EXTENSION)])
        self.equal("Get tells the same in both dialects", told[0], told[1])
        return {"result": found[0]}


def spelled(value, dialect):
    """Whether everything in a result is spelled as the dialect has it."""
    bare = {"events": value}
    wrong = []
    for role in talk.members(bare, "role"):
        if role.startswith("ROLE_") != (dialect == "1.0"):
            wrong.append(role)
    for state in talk.members(bare, "state"):
        if state.startswith("TASK_STATE_") != (dialect == "1.0"):
            wrong.append(state)
    if dialect == "1.0":
        wrong += [name for name in ("kind", "final") if list(talk.members(bare, name))]
    elif "kind" not in value:
        wrong.append("no kind")
    for parts in talk.members(bare, "parts"):
        wrong += [part for part in parts if ("kind" in part) != (dialect == "0.3")]
    return not wrong, f"{wrong[:3]} in {value}"


def closes_once(events, dialect):
    seen = [talk.Seen([event]) for event in events]
    closing = [at for at, one in enumerate(seen) if one.kind == "message" or one.state not in (None, "submitted", "working")]
    good = closing == [len(events) - 1]
    return good, events


def two_and_two(talk_):
    """a question asked in one dialect and answered in the other"""
    for by in ("both", "task"):
        one = talk.Context()
        asked = talk_.turn(one, "book a room", "Which city do you mean?", "input-required", by="nothing")
        booked = talk_.turn(one, "Oslo", "Booked a room in Oslo.", task=asked.task, by=by)
        talk.only_reply(talk_, booked)
        talk_.turn(one, "My name is Zoë", "Nice to meet you, Zoë.")
        talk_.turn(one, "What is my name?", "Your name is Zoë.")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("url")
    parser.add_argument("--agent", required=True)
    parser.add_argument("--turns", default="0.3 blocking, 1.0 streaming")
    parser.add_argument("--scene", action="append", help="only scenes whose name has this word in it")
    options = parser.parse_args()
    options.direct = False
    held = Mixed(options)
    for scene in [two_and_two, *talk.SCENES]:
        if options.scene and not any(word in scene.__name__ for word in options.scene):
            continue
        held.where = scene.__doc__
        held.marks.clear()
        try:
            scene(held)
        except Exception as error:  # a scene that breaks is a failed check, and the others go on
            held.check("the scene could be played to its end", False, repr(error))
    print(f"# {held.passed} passed, {held.failed} failed")
    sys.exit(1 if held.failed else 0)


main()
