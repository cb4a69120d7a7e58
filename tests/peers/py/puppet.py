"""What the drivers on the Python SDKs share: their options, and the lines that they read and write."""

import argparse
import asyncio
import inspect
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
    print(json.dumps(line), flush=True, file=sys.__stdout__)  # a framework may have taken sys.stdout for itself


def told(error):
    return {"type": type(error).__name__, "text": str(error)}


async def puppet(connect):
    """One line in, one line out, until the input ends.

    `connect()` gives the name of the transport and, by name, what can be done: each gets the order, and is a generator
    of events or gives one result.
    """
    try:
        transport, can = await connect()
    except Exception as error:  # whatever an SDK raises is a finding, told as such
        answer(error=told(error))
        return
    answer(transport=transport, can=sorted(can))
    while line := await asyncio.to_thread(sys.stdin.readline):
        order = json.loads(line)
        events = []
        try:
            found = can[order["op"]](order)
            if inspect.isasyncgen(found):
                async for event in found:
                    events.append(event)
                answer(events=events)
            else:
                answer(result=await found)
        except Exception as error:
            answer(events=events, error=told(error))
