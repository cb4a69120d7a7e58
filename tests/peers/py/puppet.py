"""What the client drivers on the Python SDKs share: their options, and the lines that they read and write."""

import argparse
import asyncio
import json
import sys


def options():
    known = argparse.ArgumentParser()
    known.add_argument("url")
    known.add_argument("--streaming", choices=["true", "false"], default="false")
    known.add_argument("--binding", default="JSONRPC")
    known.add_argument("--protocol")
    given = known.parse_args()
    given.streaming = given.streaming == "true"
    return given


def answer(**line):
    print(json.dumps(line), flush=True)


def told(error):
    return {"type": type(error).__name__, "text": str(error)}


async def puppet(connect):
    """One line in, one line out, until the input ends. `connect()` gives (name of the transport, send, get)."""
    try:
        transport, send, get = await connect()
    except Exception as error:  # whatever an SDK raises is a finding, told as such
        answer(error=told(error))
        return
    answer(transport=transport)
    while line := await asyncio.to_thread(sys.stdin.readline):
        order = json.loads(line)
        events = []
        try:
            if order["op"] == "get":
                answer(task=await get(order["taskId"]))
            else:
                async for event in send(order["text"], order.get("contextId"), order.get("taskId")):
                    events.append(event)
                answer(events=events)
        except Exception as error:
            answer(events=events, error=told(error))
