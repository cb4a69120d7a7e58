"""Strands' A2AAgent, driven by lines like the clients; see ../talk.py. It names no context and no task, whatever it is told.

`with_strands.py URL --streaming true|false`
"""

import loopback  # noqa: F401 (first)

import asyncio
import warnings

import httpx
from a2a.client import ClientConfig, ClientFactory
from puppet import options, puppet
from strands.agent.a2a_agent import A2AAgent

warnings.filterwarnings("ignore", category=DeprecationWarning)  # its only way to a client that does not stream


async def main():
    given = options()

    async def connect():
        sessions = {}

        def session(name):
            if name not in sessions:
                # Its one way to say which conversation a message is of, to a proxy that is told to look there.
                http = httpx.AsyncClient(timeout=30, headers={"X-Conversation": name})
                config = ClientConfig(httpx_client=http, streaming=given.streaming)
                how = {"client_config": config} if given.streaming else {"a2a_client_factory": ClientFactory(config)}
                sessions[name] = A2AAgent(given.url, timeout=30, **how)
            return sessions[name]

        async def send(order):
            agent = session(order["session"])
            reply = await agent.invoke_async(order["text"])
            texts = [block["text"] for block in reply.message["content"]]
            asks = texts if reply.stop_reason == "interrupt" else []
            yield {"texts": texts, "asks": asks}

        await session("the card").get_agent_card()
        return "strands-agents", {"send": send}

    await puppet(connect)


asyncio.run(main())
