#!/usr/bin/env python3
"""Holds a conversation with a question in its middle through an agent framework, and checks what its user is shown.

    frameworks.py --agent AGENT_URL --dialect 0.3|1.0 [--streaming true] URL -- FRAMEWORK...

URL is the proxy's, AGENT_URL that of the agent behind it, FRAMEWORK the command of a driver (frameworks/with_adk.py and so
on), which is driven by lines like the clients of talk.py, but sends in a session instead of under ids: which ids a
message carries is the framework's own affair. No model is asked anything.

    {"op": "send", "session": S, "text": T}  ->  {"events": [{"texts": [...], "asks": [...], "task": K}]}, or "error"

`texts` is what the user reads, `asks` what waits for the user's answer.
"""

import argparse
import json
import sys
import urllib.request
import uuid

import talk

QUESTION = "Which city do you mean?"


class Conversation:
    def __init__(self):
        self.session = str(uuid.uuid4())
        self.sides = []
        self.tasks = []


class Framework(talk.Talk):
    name = ""

    def shows(self, text, reply, asks):
        """How this framework shows a reply of the agent's: (texts, asks)."""
        streamed = self.options.streaming == "true"
        if self.name == "strands-agents":  # it tells a question by the stream alone
            return [reply], [reply] if asks and streamed else []
        if not asks:
            return [reply], []
        # A question that came in an artifact's chunks has been read by the time it turns out to be one.
        chunks = streamed and self.name != "crewai" and not text.startswith("!input")
        return [reply] if chunks else [], [reply]

    def turn(self, one, text, reply, asks=False, on=None, asked=None):
        """One message of the user's. `on` is the task that it goes on, `asked` the question that it answers."""
        scene = self.where
        self.where += f', "{text}"'
        self.agent("DELETE")
        answer = self.order(op="send", session=one.session, text=text)
        events = answer.get("events", [])
        errors = [event["error"] for event in events if event.get("error")]
        self.check("no exception and no error", "error" not in answer and not errors, (answer.get("error"), errors))
        shown = tuple([said for event in events for said in event[kind]] for kind in ("texts", "asks"))
        wanted = self.shows(text, reply, asks)
        if asked and self.name == "crewai" and self.options.streaming == "false":
            # It puts the agent's newest message in the history in front of what the task holds, whoever asked.
            wanted = ([f"{asked} {reply}"], []) if not asks else wanted
        self.equal("what the user is shown", shown, wanted)

        given = talk.Given(self.calls(), text)
        self.equal("the agent was called once", len(given.texts), 1)
        self.check("the new message came last and whole", given.whole, given.text)
        if one.sides:
            self.equal("the agent was given each earlier turn once, in order", given.sides, one.sides)
        else:
            self.equal("the first message came as it was sent", given.text, text)
        one.sides += [("user", text), ("agent", reply)]
        tasks = {event["task"] for event in events if event.get("task")}
        if self.name != "strands-agents":
            self.equal("one task", len(tasks), 1)
            task = next(iter(tasks), None)
            self.check("the same task" if on else "a task of its own", (task == on) if on else task not in one.tasks, task)
            one.tasks.append(task)
            self.equal("its state", self.get(task).state, "input-required" if asks else "completed")
        self.where = scene
        return one.tasks[-1] if one.tasks else None

    def get(self, task):
        method, version = ("tasks/get", {}) if self.options.dialect == "0.3" else ("GetTask", {"A2A-Version": "1.0"})
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {"id": task, "historyLength": 100}}
        headers = {"Content-Type": "application/json", **version}
        request = urllib.request.Request(self.options.url, json.dumps(body).encode(), headers)
        with urllib.request.urlopen(request, timeout=talk.CALL_SECONDS) as response:
            return talk.Seen([{"task": json.load(response)["result"]}])


def three_turns(f):
    """three turns with a question in the middle"""
    one = Conversation()
    f.turn(one, "My name is Ada", "Nice to meet you, Ada.")
    asked = f.turn(one, "book a room", QUESTION, asks=True)
    f.turn(one, "Oslo", "Booked a room in Oslo.", on=asked, asked=QUESTION)
    got = f.get(asked)
    wanted = [("user", "book a room"), ("agent", QUESTION), ("user", "Oslo")]
    f.equal("question and answer are the task's history", got.sides()[:3], wanted)
    f.equal("the task holds the answer's artifact alone", [text for _, text in got.artifacts.values()], ["Booked a room in Oslo."])
    f.turn(one, "What is my name?", "Your name is Ada.")
    f.where += ", then another conversation"
    f.turn(Conversation(), "What is my name?", "I don't know your name.")


def three_rounds(f):
    """three rounds of questions on one task"""
    one = Conversation()
    where, day, nights = "Where would you like to go?", "On which day do you want to leave?", "How many nights will you stay?"
    task = f.turn(one, "plan a trip", where, asks=True)
    f.turn(one, "Lisbon", day, asks=True, on=task, asked=where)
    f.turn(one, "Monday", nights, asks=True, on=task, asked=day)
    f.turn(one, "three", "Planned a trip: Lisbon, Monday, three.", on=task, asked=nights)
    f.turn(one, "Thank you", "I heard: Thank you.")


def own_question(f):
    """the agent's own question is shown as the proxy's is"""
    one = Conversation()
    asked = f.turn(one, f"!input {QUESTION}", QUESTION, asks=True)
    f.turn(one, "Oslo", "I heard: Oslo.", on=asked, asked=QUESTION)


def without_ids(f):
    """a framework that names no context: each message is a conversation of its own"""
    for text, reply, asks in (
        ("My name is Ada", "Nice to meet you, Ada.", False),
        ("book a room", QUESTION, True),
        ("Oslo", "I heard: Oslo.", False),
        ("What is my name?", "I don't know your name.", False),
        (f"!input {QUESTION}", QUESTION, True),
    ):
        f.turn(Conversation(), text, reply, asks)


def by_header(f):
    """a framework that names no context, and a proxy that reads it in a header"""
    one = Conversation()
    f.turn(one, "My name is Ada", "Nice to meet you, Ada.")
    f.turn(one, "book a room", QUESTION, asks=True)
    f.turn(one, "Oslo", "Booked a room in Oslo.")
    f.turn(one, "What is my name?", "Your name is Ada.")
    f.where += ", then another conversation"
    f.turn(Conversation(), "What is my name?", "I don't know your name.")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("url")
    parser.add_argument("--agent", required=True)
    parser.add_argument("--dialect", choices=["0.3", "1.0"], required=True, help="one that the agent speaks, to look at its tasks in")
    parser.add_argument("--streaming", choices=["true", "false"], default="false")
    parser.add_argument("--by-header", action="store_true", help="the proxy takes X-Conversation for the context")
    parser.add_argument("--scene", action="append", help="only scenes whose name has this word in it")
    options = talk.command_line(parser, "framework command")
    options.binding, options.protocol, options.direct = "JSONRPC", None, False
    talk.CALL_SECONDS = 90  # a framework that is imported for the first time on a busy machine takes its time
    f = Framework(options)
    f.where = "start"
    hello = f.hear()
    f.check("the framework reads the agent card", "transport" in hello, hello)
    f.name = hello.get("transport")
    scenes = [three_turns, three_rounds, own_question]
    if f.name == "strands-agents":
        scenes = [by_header] if options.by_header else [without_ids]
    for scene in scenes if f.name else []:
        if options.scene and not any(word in scene.__name__ for word in options.scene):
            continue
        f.where = scene.__doc__
        try:
            scene(f)
        except Exception as error:  # a scene that breaks is a failed check, and the others go on
            f.check("the scene could be played to its end", False, repr(error))
    f.client.stdin.close()
    f.client.wait(timeout=talk.CALL_SECONDS)
    print(f"# {f.passed} passed, {f.failed} failed")
    sys.exit(1 if f.failed else 0)


main()
