"""Microsoft's agent-framework-a2a, driven by lines like the clients; see ../talk.py.

`with_maf.py URL --streaming true|false`
"""

import loopback  # noqa: F401 (first)

import asyncio

import httpx
from a2a.client import A2ACardResolver
from agent_framework import AgentSession
from agent_framework_a2a import A2AAgent
from puppet import options, puppet


def shown(contents):
    """What a user interface shows of contents: texts, and the requests that wait for the user."""
    texts, asks = [], []
    for content in contents:
        if getattr(content, "user_input_request", None):
            asks.append(content.text)
        elif content.type == "text" and content.text:
            texts.append(content.text)
    return texts, asks


async def main():
    given = options()
    async with httpx.AsyncClient(timeout=30) as http:

        async def connect():
            card = await A2ACardResolver(http, given.url).get_agent_card()
            agent = A2AAgent(agent_card=card, http_client=http)
            sessions = {}

            async def send(order):
                session = sessions.setdefault(order["session"], AgentSession())
                if given.streaming:
                    stream = agent.run(order["text"], stream=True, session=session)
                    contents = [content async for update in stream for content in update.contents]
                    reply = await stream.get_final_response()
                else:
                    reply = await agent.run(order["text"], session=session)
                    contents = [content for message in reply.messages for content in message.contents]
                texts, asks = shown(contents)
                yield {"texts": texts, "asks": asks, "task": session.service_session_id["task_id"], "final": reply.text}

            return "agent-framework-a2a", {"send": send}

        await puppet(connect)


asyncio.run(main())
