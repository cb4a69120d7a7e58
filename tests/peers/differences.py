"""In what an official client may see another outcome through the proxy than at the agent: one line each, and why.

surface.py fails on any other difference. `differences.py BINDING FILE` fails on a line for that binding that is not among
those that FILE says were met: tests/run gives it what all the clients met.
"""

import re
import sys
from dataclasses import dataclass
from typing import Any

EXTENSION = "https://github.com/a2aproject/A2A/issues/2061#v1"
NOTHING = "nothing"


def some(value):
    return value != NOTHING


def refused(*codes):
    return lambda error: isinstance(error, dict) and error.get("code") in codes


def extended(metadata):
    said = metadata[EXTENSION]
    return metadata.keys() == {EXTENSION} and said["reason"] == "question" and said["expected_input"] == "free_text"


def left_open(metadata):
    return metadata.keys() == {EXTENSION} and "expected_input" not in metadata[EXTENSION]


def text_of(message):
    return "".join(part["text"] for part in message["parts"])


def asks(message):
    return text_of(message) == "Which city do you mean?" and extended(message["metadata"])


def told(*texts):
    return lambda history: [text_of(one) for one in history] == [*texts]


@dataclass(frozen=True)
class Line:
    """One difference: the steps and the places where it may be, what the agent says and what the proxy says, and why."""

    steps: str
    path: str
    direct: Any
    through: Any
    why: str
    names: str = ".*"  # of agent and client
    streaming: str = ".*"
    binding: str = ".*"

    def allows(self, options, step, path, direct, through):
        words = ((self.steps, step), (self.path, path), (self.names, options.name))
        words += ((self.streaming, options.streaming), (self.binding, options.binding))
        return all(re.fullmatch(*word) for word in words) and fits(self.direct, direct) and fits(self.through, through)


def fits(wanted, value):
    try:
        return wanted(value) if callable(wanted) else wanted == value
    except (AttributeError, KeyError, TypeError):  # it is of another kind
        return False


ASKED = "a question told as completed|get the question|(get |list )?another question|subscribe to the question"
CANCELLED = "(get|list) the cancelled question"
NOBODYS = "(to|get|cancel|subscribe) a task that nobody has|to a task that nobody has"
FINISHED = "(to|cancel|subscribe to) a finished task|cancel what was cancelled"
PUSHES = "push: .*"
DELETED = "push: get what was deleted"
STREAMED_REFUSAL = "what refuses a stream is a stream, which no client masks"

EXPECTED = [
    # What it is for
    Line(ASKED, r".*status\.state", re.compile("(TASK_STATE_)?COMPLETED", re.I).fullmatch,
         re.compile("(TASK_STATE_)?INPUT[-_]REQUIRED", re.I).fullmatch, "a question told as completed is input-required"),
    Line(ASKED, r".*status\.message", NOTHING, asks, "the question stands in the status message"),
    Line(ASKED, r".*\.metadata", NOTHING, extended, "the continuation stands in the metadata of task and status update"),
    Line(ASKED, r".*history", told("book a room"), told("book a room", "Which city do you mean?"),
         "the question is last in the history"),
    Line("subscribe to the question", "error", refused(-32004, -32602), NOTHING, "a question can be subscribed to"),
    Line("subscribe to the question", "events", NOTHING, some, "a question can be subscribed to: its task"),
    Line("cancel the question", "error", refused(-32002), NOTHING, "a question can be cancelled"),
    Line("cancel the question", "result", NOTHING, some, "a question can be cancelled: its task"),
    Line(CANCELLED, r".*status\.state", re.compile("(TASK_STATE_)?COMPLETED", re.I).fullmatch,
         re.compile("(TASK_STATE_)?CANCELED", re.I).fullmatch, "a cancelled question stays cancelled"),
    Line(CANCELLED, r".*\.metadata", NOTHING, left_open, "what a cancelled question was asked on top of can still be read"),
    Line(CANCELLED, r".*history", told("book a room"), told("book a room", "Which city do you mean?"),
         "a cancelled question stays in the history"),
    Line("the answer to the question", "error", some, NOTHING, "the answer to a question goes on on its task"),
    Line("the answer to the question", "events", NOTHING, some, "the answer to a question goes on on its task: the reply"),
    Line("get the answered question", r"result\.artifacts\[0\]\.artifactId", "response", "response~2",
         "an artifact of a later attempt that reuses an id has its number"),
    Line("get the answered question", r"result\.artifacts\[0\]\.parts\[0\]\.text", "Which city do you mean?",
         "Booked a room in Oslo.", "the artifacts of a question leave the task once it is answered"),
    Line("get the answered question", r"result\.history", told("book a room"),
         told("book a room", "Which city do you mean?", "Oslo"), "the history is the whole chain's"),
    Line("what was the name", r".*artifacts?(\[0\])?\.parts\[0\]\.text", "I don't know your name.", "Your name is Ada.",
         "the agent is given what was said before"),
    # Refusals that the proxy answers from what it knows
    Line(f"{NOBODYS}|{FINISHED}|list with a token of nobody's|{PUSHES}", r"error\.text", some, some,
         "the words and the data of a refusal of the proxy's are its own"),
    Line("to a finished task", r"error\.code", lambda code: code in (-32600, -32602), -32004,
         "a message to a finished task is an unsupported operation"),
    Line("(to a finished task|to a task that nobody has)", r"error\.code", NOTHING,
         lambda code: code in (-32001, -32004), STREAMED_REFUSAL, names="js10compat .*03", streaming="true"),
    Line("(to a finished task|to a task that nobody has)", r"error\.type", some, NOTHING,
         f"{STREAMED_REFUSAL} (and the code takes the place of a type)", names="js10compat .*03", streaming="true"),
    Line("subscribe to a finished task", r"error\.code", -32602, -32004,
         "to subscribe to a finished task is an unsupported operation"),
    Line("subscribe to a finished task", "events", some, NOTHING,
         "to subscribe to a finished task is refused, by an agent's server that sends the task too", names="js03 .*"),
    Line("subscribe to a finished task", "error", NOTHING, refused(-32004),
         "to subscribe to a finished task is refused: the error", names="js03 .*"),
    Line("cancel what was cancelled", "result", some, NOTHING,
         "what is cancelled cannot be cancelled", names="js10(compat)? .*"),
    Line("cancel what was cancelled", "error", NOTHING, refused(-32002),
         "what is cancelled cannot be cancelled: the error", names="js10(compat)? .*"),
    # What agents' servers leave out
    Line("subscribe", "events", lambda kinds: "task" not in kinds, lambda kinds: kinds[0] == "task",
         "a subscription begins with the task", names="py03 .*"),
    Line("an agent that throws", r".*(?:taskId|\.id)", lambda task: task in (NOTHING, "<some id>"),
         "<taskId of an agent that throws>", "one task has one id everywhere", names="js03 .*"),
    # Lists
    Line("list.*", r"result\.tasks\[.\]\.history", some, NOTHING, "a list has no histories where none were asked for"),
    # The card
    Line("the extended card", r"result\.capabilities\.extensions", NOTHING,
         lambda declared: [one["uri"] for one in declared] == [EXTENSION], "the card declares the extension"),
    Line("the extended card", r"result\.supportedInterfaces\[\d+\]\.(protocolBinding|protocolVersion|url)", some, some,
         "JSON-RPC stands first in the card", binding="JSONRPC", names="(py|js)10compat .*"),
    # Push configurations
    Line(DELETED, "error", NOTHING, refused(-32001), "a configuration that is deleted is none", names="py03 .*"),
    Line(DELETED, "result", some, NOTHING, "a configuration that is deleted is none, and no other one", names="py03 .*"),
    Line(DELETED, r"error\.code", lambda code: code in (-32603, NOTHING), -32001,
         "a configuration that is deleted is none: its code", names="js03 .*"),
    Line(DELETED, r"error\.type", some, NOTHING,
         "a configuration that is deleted is none: a code in place of a type", names="js03 js10"),
]  # fmt: skip


def main():
    binding, file = sys.argv[1:]
    met = open(file).read().splitlines()
    lines = [line.why for line in EXPECTED if re.fullmatch(line.binding, binding)]
    unmet = [why for why in lines if f"# met: {why}" not in met]
    for why in unmet:
        print(f"FAIL  no client meets this difference any more: {why}")
    sys.exit(1 if unmet else 0)


if __name__ == "__main__":
    main()
