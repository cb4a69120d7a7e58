#!/usr/bin/env python3
"""Has an official client register a webhook through the proxy with an agent that pushes, and checks what the webhook is told.

    pushes.py --agent AGENT_URL [--streaming true] [--protocol 0.3] URL -- CLIENT...

URL is the proxy's, AGENT_URL that of the agent behind it, CLIENT the command of a client driver, as for talk.py. The
webhook is a server of this script's on 127.0.0.1, which the proxy must be allowed to call without TLS.
"""

import argparse
import http.server
import json
import queue
import sys
import threading
import time

import talk

PATIENCE = 15
SOON = 4  # seconds, less than the proxy's own first look: what comes sooner came by the agent's push
QUIET = 0.7


class Webhook(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        self.server.told.put((self.path, dict(self.headers.items()), json.loads(body)))
        self.send_response(200)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


class Pushes(talk.Talk):
    def __init__(self, options):
        super().__init__(options)
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Webhook)
        self.server.told = queue.Queue()
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.count = 0

    def hook(self):
        """A webhook of its own for each scene."""
        self.count += 1
        return {"id": f"p{self.count}", "url": f"{self.host()}/{self.count}?x=1", "token": f"token {self.count}"}

    def host(self):
        return f"http://127.0.0.1:{self.server.server_port}"

    def told(self, hook, last, patience=PATIENCE):
        """The tasks that the webhook is told until one has this state and nothing comes behind it."""
        tasks, end = [], time.monotonic() + patience
        while True:
            try:
                path, headers, body = self.server.told.get(timeout=max(end - time.monotonic(), 0.01))
            except queue.Empty:
                break
            self.equal("the webhook is the scene's", path, hook["url"].removeprefix(self.host()))
            self.equal("the client's token", headers.get("x-a2a-notification-token"), hook["token"])
            wrapped = set(body) == {"task"}
            self.equal("a bare task in 0.3, a stream's response in 1.0", wrapped, self.dialect() == "1.0")
            task = body["task"] if wrapped else body
            task["state"] = task["status"]["state"].removeprefix("TASK_STATE_").lower().replace("_", "-")
            tasks.append(task)
            if task["state"] == last:
                end = time.monotonic() + QUIET
        return tasks

    def dialect(self):
        return self.options.protocol or self.options.dialect

    def send(self, text, **more):
        answer = self.order(op="send", text=text, **more)
        self.check("the send is taken", "error" not in answer, answer)
        return talk.Seen(answer["events"])

    def states(self, tasks, wanted):
        """Which changes, in order: `submitted` and `working` come as the agent passes through them."""
        found = [task["state"] for task in tasks]
        self.equal("each change once, and nothing else", found, wanted(found) if callable(wanted) else wanted)


def passing(last):
    return lambda found: [state for state in ("submitted", "working") if state in found] + [last]


def a_question_and_its_answer(talk):
    """a question and its answer"""
    hook = talk.hook()
    asked = talk.send("book a room", push=hook)
    told = talk.told(hook, "input-required")
    talk.states(told, passing("input-required"))
    question = told[-1]
    talk.equal("the client's task", (question["id"], question["contextId"]), (asked.task, asked.context))
    talk.equal("the question", text_of(question["status"]["message"]), "Which city do you mean?")
    answer = talk.send("Oslo", taskId=asked.task, contextId=asked.context)
    talk.equal("the answer is on the task", answer.task, asked.task)
    told = talk.told(hook, "completed")
    talk.states(told, ["working", "completed"])
    done = told[-1]
    talk.equal("the same task", (done["id"], done["contextId"]), (asked.task, asked.context))
    talk.equal("the reply", [text_of(one) for one in done["artifacts"]], ["Booked a room in Oslo."])
    talk.equal("the client's own words", [text_of(one) for one in done["history"]],
               ["book a room", "Which city do you mean?", "Oslo"])  # fmt: skip


def what_comes_later(talk):
    """a reply that comes later"""
    hook = talk.hook()
    begun = talk.send("!sleep 1 Later.", push=hook, now=True)
    talk.check("the send returns at once", begun.state in ("submitted", "working"), begun.state)
    told = talk.told(hook, "completed", SOON)
    talk.states(told, passing("completed"))
    talk.equal("the reply", [text_of(one) for one in told[-1]["artifacts"]], ["Later."])


def a_webhook_that_is_set_later(talk):
    """a webhook that is set while the task runs"""
    hook = talk.hook()
    begun = talk.send("!sleep 2 Later.", now=True)
    answer = talk.order(op="push_set", taskId=begun.task, **hook)
    talk.check("it is taken", "error" not in answer, answer)
    got = talk.order(op="push_get", taskId=begun.task, id=hook["id"])
    talk.equal("and shown as it was set", got.get("result"), answer.get("result"))
    told = talk.told(hook, "completed", SOON + 2)
    talk.states(told, lambda found: ["working"] * ("working" in found) + ["completed"])


def nobody_else_knows(talk):
    """the agent"""
    raw = [str(call) for call in talk.agent("GET")]
    talk.check("it is never told the webhook", not any(talk.host() in call for call in raw), raw[:1])
    talk.check("nor the token", not any("token 1" in call for call in raw), raw[:1])


SCENES = (a_question_and_its_answer, what_comes_later, a_webhook_that_is_set_later, nobody_else_knows)


def text_of(value):
    return talk.text_of(value["parts"])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("url")
    parser.add_argument("--agent", required=True)
    parser.add_argument("--streaming", choices=["true", "false"], default="false")
    parser.add_argument("--dialect", choices=["0.3", "1.0"], required=True, help="what the client speaks of itself")
    parser.add_argument("--protocol")
    options = talk.command_line(parser)
    options.binding, options.direct = "JSONRPC", False

    held = Pushes(options)
    held.where = "start"
    hello = held.hear()
    held.check("the client reads the agent card", "transport" in hello, hello)
    for scene in SCENES if "transport" in hello else []:
        held.where = scene.__doc__
        try:
            scene(held)
        except Exception as error:  # a scene that breaks is a failed check, and the others go on
            held.check("the scene could be played to its end", False, repr(error))
    held.client.stdin.close()
    held.client.wait(timeout=talk.CALL_SECONDS)
    print(f"# {held.passed} passed, {held.failed} failed")
    sys.exit(1 if held.failed else 0)


main()
