#!/usr/bin/env python3
"""Does all that an official client offers twice, with the agent itself and through the proxy, and compares what comes out.

    surface.py --name "py03 js03" --agent AGENT_URL [--streaming true] [--binding HTTP+JSON] [--protocol 0.3] URL -- CLIENT...

URL is the proxy's, AGENT_URL that of the agent behind it, CLIENT the command of a client driver, as for talk.py. Of each
step the two outcomes (results, events, errors as the SDK raises them) are compared, ids, times and URLs put aside. What
differs has to be what a line of EXPECTED, in differences.py, allows; everything else is a failure. The lines that were
met are printed, so that tests/run can tell one that nobody meets any more.
"""

import argparse
import json
import re
import sys
import time

import talk
from differences import EXPECTED

UUID = re.compile(r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}")
NOBODY = "00000000-0000-4000-8000-000000000000"
NOTHING = "nothing"
CODES = {
    "TaskNotFound": -32001,
    "TaskNotCancelable": -32002,
    "PushNotificationNotSupported": -32003,
    "UnsupportedOperation": -32004,
    "InvalidRequest": -32600,
    "RequestMalformed": -32600,
    "InvalidParams": -32602,
    "InternalError": -32603,
}  # by a word in the names that the SDKs have for them
WRAPPED = ("task", "message", "statusUpdate", "artifactUpdate", "assembled")


class Side:
    """One client driver at one URL, and what came of each step."""

    def __init__(self, options, url):
        self.url = url.rstrip("/")
        self.options = options
        self.talk = talk.Talk(argparse.Namespace(**{**vars(options), "url": url}))
        self.talk.where = url
        self.hello = self.talk.hear()
        self.can = set(self.hello.get("can", []))
        self.answers = {}
        self.names = {}  # a task's or a context's id is called after the step that met it first

    def step(self, name, op, until=None, **order):
        if op not in self.can:
            return
        answer = self.talk.order(op=op, **order)
        while until and "error" not in answer and not until(answer):
            time.sleep(0.02)  # between two looks at a state that comes by itself
            answer = self.talk.order(op=op, **order)
        self.answers[name] = answer
        for kind, value in self.ids(name).items():
            if value:
                self.names.setdefault(value, f"{kind} of {name}")

    def send(self, name, text, to=None, by=("contextId",), **more):
        ids = {kind: value for kind, value in self.ids(to).items() if kind in by} if to else {}
        self.step(name, "send", text=text, **ids, **more)

    def on(self, name, op, of, until=None, **more):
        """An operation on the task of an earlier step, or on one that nobody has."""
        self.step(name, op, until, **(self.ids(of) if of else {"taskId": NOBODY}), **more)

    def ids(self, step):
        """The ids in the first event, or in the one result, of a step."""
        answer = self.answers[step]
        first = (answer.get("events") or [answer.get("result")])[0]
        if not isinstance(first, dict):
            return {}
        value = next((first[kind] for kind in WRAPPED if kind in first), first)
        task = value.get("taskId") or (value.get("id") if "status" in value else None)
        return {"taskId": task, "contextId": value.get("contextId")}

    def told(self, step):
        """What an answer tells of its task: ids, state, words, artifacts. Chunks that its events append are put together."""
        answer = self.answers[step]
        result = answer.get("result")
        tasks = result.get("tasks", [result]) if result else []
        seen = talk.Seen(answer.get("events") or [{"task": task} for task in tasks], answer.get("error"))
        return seen.facts(), seen.sides() if "result" in answer else []

    def plain(self, value, key=None):
        """A value without what differs from run to run."""
        if isinstance(value, dict):
            return {name: self.plain(one, name) for name, one in value.items()}
        if isinstance(value, list):
            return [self.plain(one) for one in value]
        if not isinstance(value, str):
            return value
        if key in ("timestamp", "messageId", "nextPageToken"):
            return f"some {key}" if value else value
        for known, name in self.names.items():
            value = value.replace(known, f"<{name}>")
        return UUID.sub("<some id>", value.replace(self.url, "<url>"))

    def outcome(self, step):
        plain = self.plain(self.answers[step])
        if "error" in plain:
            plain["error"] = refusal(**plain["error"])
        if "error" in plain and plain.get("events") == []:
            del plain["events"]
        return plain


def refusal(type, text):
    """An error by its code where the SDK tells one, by a type or in the text; else by the type."""
    named = re.search(r'(?:code=|Code: |"code":)(-\d+)', text)
    code = int(named[1]) if named else next((code for word, code in CODES.items() if word in type), None)
    return {"code": code, "text": text} if code else {"type": type, "text": text}


def sends(s):
    s.send("a first message", "!say Hello there.")
    s.on("get it", "get", "a first message")
    for text in ("!say Once more.", "!status The light is green.", "!two The kettle is on.", "!data", "!file", "!silent"):
        s.send(text, text, to="a first message")
        s.on(f"get {text}", "get", text)
    s.send("a stream of chunks", "!stream 4 10 One, two, three, four.", to="a first message")
    s.send("a bare message", "!message Good day.")
    s.send("a failure", "!fail The milk is gone.")
    s.on("get the failure", "get", "a failure")
    s.send("a refusal of the agent's", "!nothing")
    if not (s.options.name.startswith("py03 ") and s.options.streaming == "true"):  # that server's stream never ends then
        s.send("an agent that throws", "!raise It broke.")


def asks(s):
    s.send("the agent's own question", "!input Which colour?")
    s.on("get the agent's own question", "get", "the agent's own question")
    s.send("its answer", "Blue", to="the agent's own question", by=("taskId", "contextId"))
    s.send("a request for a login", "!auth Please log in.")
    s.send("a question told as completed", "book a room")
    s.on("get the question", "get", "a question told as completed")
    s.send("the answer to the question", "Oslo", to="a question told as completed", by=("taskId", "contextId"))
    s.on("get the answered question", "get", "a question told as completed")
    s.send("another question", "book a room")
    s.on("get another question", "get", "another question")
    s.on("list another question", "list", "another question", artifacts=True)
    s.on("subscribe to the question", "subscribe", "another question")
    s.on("cancel the question", "cancel", "another question")
    s.on("get the cancelled question", "get", "another question")
    s.on("list the cancelled question", "list", "another question", artifacts=True)
    s.send("a name", "My name is Ada")
    s.send("what was the name", "What is my name?", to="a name")


def refusals(s):
    s.send("to a finished task", "More", to="a first message", by=("taskId", "contextId"))
    s.step("to a task that nobody has", "send", text="Hi", taskId=NOBODY)
    for op in ("get", "cancel", "subscribe"):
        s.on(f"{op} a task that nobody has", op, None)
    s.on("cancel a finished task", "cancel", "a first message")
    s.on("subscribe to a finished task", "subscribe", "a first message")


def works(answer):
    return talk.Seen([{"task": answer["result"]}]).state == "working"


def running(s):
    s.send("an answer at once", "!sleep 0.6 Rested.", now=True)
    s.on("get until it works", "get", "an answer at once", until=works)
    s.on("subscribe", "subscribe", "an answer at once")
    s.on("get what was subscribed to", "get", "an answer at once")
    s.send("a long one", "!sleep 60 Never.", now=True)
    s.on("get until the long one works", "get", "a long one", until=works)
    s.on("cancel", "cancel", "a long one")
    s.on("get what was cancelled", "get", "a long one")
    s.on("cancel what was cancelled", "cancel", "a long one")
    s.send("after the cancel", "!say Free again.", to="a long one")


def lists(s):
    s.send("list: one", "!say One.")
    s.send("list: two", "!say Two.", to="list: one")
    s.send("list: three", "!fail Three.", to="list: one")
    s.on("list", "list", "list: one")
    s.on("list with artifacts", "list", "list: one", artifacts=True)
    s.on("list what failed", "list", "list: one", status=4)
    s.on("list a page of two", "list", "list: one", pageSize=2)
    page = s.answers.get("list a page of two", {}).get("result", {}).get("nextPageToken")
    s.on("list the next page", "list", "list: one", pageSize=2, pageToken=page)
    s.on("list with a token of nobody's", "list", "list: one", pageToken="bm9uc2Vuc2U=")
    s.step("list a context that nobody has", "list", contextId=NOBODY)


def pushes(s):
    hook = {"url": "http://127.0.0.1:9/hook", "token": "a token"}
    s.on("push: set", "push_set", "a first message", id="p1", **hook)
    s.on("push: set another", "push_set", "a first message", id="p2", **hook)
    s.on("push: get", "push_get", "a first message", id="p1")
    s.on("push: list", "push_list", "a first message")
    s.on("push: delete", "push_delete", "a first message", id="p1")
    s.on("push: get what was deleted", "push_get", "a first message", id="p1")
    s.on("push: list the rest", "push_list", "a first message")
    s.on("push: set for a task that nobody has", "push_set", None, id="p1", **hook)
    s.send("push: with the send", "!say Told.", push={"id": "p3", **hook})


# What has to tell of a task the same, whoever asks in which way: an answer, and how it is asked for again.
AGREE = (
    ("a first message", "get it"),
    ("a failure", "get the failure"),
    ("the agent's own question", "get the agent's own question"),
    ("a question told as completed", "get the question"),
    ("the answer to the question", "get the answered question"),
    ("another question", "get another question"),
    ("get another question", "list another question"),
    ("get another question", "subscribe to the question"),
    ("cancel the question", "get the cancelled question"),
    ("get the cancelled question", "list the cancelled question"),
    ("subscribe", "get what was subscribed to"),
    ("cancel", "get what was cancelled"),
)


def cards(s):
    s.step("the extended card", "card")


SCENES = (sends, asks, refusals, running, lists, pushes, cards)


def kind_of(event):
    return event.get("kind") or next(iter(event))


def differences(path, one, other):
    """Where two outcomes differ, as (path, the agent's, the proxy's)."""
    if isinstance(one, dict) and isinstance(other, dict):
        for name in sorted(one.keys() | other.keys()):
            yield from differences(f"{path}.{name}" if path else name, one.get(name, NOTHING), other.get(name, NOTHING))
    elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        for at, (first, second) in enumerate(zip(one, other)):
            yield from differences(f"{path}[{at}]", first, second)
    elif path == "events" and NOTHING not in (one, other):
        yield path, *([kind_of(event) for event in side] for side in (one, other))
    elif one != other:
        yield path, one, other


class Compared:
    def __init__(self, options):
        self.options = options
        self.passed = self.failed = 0
        self.met = set()

    def check(self, name, good, detail=""):
        self.passed, self.failed = (self.passed + 1, self.failed) if good else (self.passed, self.failed + 1)
        print(f"ok    {name}" if good else f"FAIL  {name}: {detail}", flush=True)

    def compare(self, step, direct, through):
        wrong = []
        for path, one, other in differences("", direct, through):
            lines = [line for line in EXPECTED if line.allows(self.options, step, path, one, other)]
            self.met.update(lines)
            if not lines:
                wrong.append(f"\n      {path}\n        direct  {json.dumps(one)}\n        through {json.dumps(other)}")
        self.check(step, not wrong, "".join(wrong))


    def agree(self, side, one, other):
        answers = [side.answers.get(step, {"error": None}) for step in (one, other)]
        if not any("error" in answer for answer in answers):  # whether it should be one has been looked at
            (told, history), (again, later) = side.told(one), side.told(other)
            same = told == again and (history == later or not (history and later))  # not every answer has the history
            self.check(f"the proxy tells the same: {one}, {other}", same, f"\n      {told}, {history}\n      {again}, {later}")


def play(side, compared):
    for scene in SCENES:
        try:
            scene(side)
        except Exception as error:  # a scene that breaks is a failed check, and the others go on
            compared.check(f"{scene.__name__} at {side.url}: played to its end", False, repr(error))
    side.talk.client.stdin.close()
    side.talk.client.wait(timeout=talk.CALL_SECONDS)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("url")
    parser.add_argument("--name", required=True, help="agent and client, for the lines of EXPECTED")
    parser.add_argument("--agent", required=True)
    parser.add_argument("--streaming", choices=["true", "false"], default="false")
    parser.add_argument("--binding", default="JSONRPC")
    parser.add_argument("--protocol")
    options = talk.command_line(parser)
    compared = Compared(options)
    direct, through = Side(options, options.agent), Side(options, options.url)
    compared.check("the client takes the same way to both", direct.can and direct.hello == through.hello, through.hello)
    for side in (direct, through):
        play(side, compared)
    compared.check("the same steps on both sides", direct.answers.keys() == through.answers.keys())
    for step in direct.answers:
        compared.compare(step, direct.outcome(step), through.outcome(step))
    for one, other in AGREE:
        compared.agree(through, one, other)
    for line in compared.met:
        print(f"# met: {line.why}")
    print(f"# {compared.passed} passed, {compared.failed} failed")
    sys.exit(1 if compared.failed else 0)


main()
