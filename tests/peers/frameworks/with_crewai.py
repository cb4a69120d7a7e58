"""CrewAI's delegation to an A2A agent, driven by lines like the clients; see ../talk.py. No crew and no model around it.

`with_crewai.py URL --streaming true|false`. What its own loop keeps between two delegations is kept here the same way.
"""

import loopback  # noqa: F401 (first)

import asyncio
import os
import sys

sys.stdout = sys.stderr  # it prints what goes on
os.environ |= {"CREWAI_DISABLE_TELEMETRY": "true", "OTEL_SDK_DISABLED": "true", "CREWAI_TRACING_ENABLED": "false"}

from a2a.types import TaskState  # noqa: E402
from crewai.a2a.updates import PollingConfig, StreamingConfig  # noqa: E402
from crewai.a2a.utils.delegation import aexecute_a2a_delegation  # noqa: E402
from puppet import options, puppet  # noqa: E402


class Conversation:
    """What CrewAI remembers: the ids in the newest message of the history, and the tasks that are done."""

    def __init__(self):
        self.history = []
        self.context_id = self.task_id = None
        self.done = []
        self.turn = 0

    def after(self, result):
        self.history = result.get("history", [])
        if self.history:
            self.task_id = self.history[-1].task_id or self.task_id
            self.context_id = self.history[-1].context_id or self.context_id
        task = self.task_id
        if result["status"] == TaskState.completed and task:
            self.done.append(task)
            self.task_id = None
        return task


async def main():
    given = options()

    async def connect():
        endpoint = given.url.rstrip("/") + "/.well-known/agent-card.json"
        sessions = {}

        async def send(order):
            here = sessions.setdefault(order["session"], Conversation())
            here.turn += 1
            result = await aexecute_a2a_delegation(
                endpoint=endpoint,
                auth=None,
                timeout=30,
                task_description=order["text"],
                context_id=here.context_id,
                task_id=here.task_id,
                reference_task_ids=here.done or None,
                conversation_history=here.history,
                turn_number=here.turn,
                updates=StreamingConfig() if given.streaming else PollingConfig(interval=0.05),
            )
            asks = [result["error"]] if result["status"] == TaskState.input_required else []
            texts = [result["result"]] if result.get("result") else []
            yield {"texts": texts, "asks": asks, "state": result["status"], "task": here.after(result)}

        return "crewai", {"send": send}

    await puppet(connect)


asyncio.run(main())
