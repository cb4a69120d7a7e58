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
    async with httpx.AsyncClient(timeout=30) as http:

        async def connect():
            config = ClientConfig(httpx_client=http, streaming=given.streaming)
            how = {"client_config": config} if given.streaming else {"a2a_client_factory": ClientFactory(config)}
            agent = A2AAgent(given.url, timeout=30, **how)
            await agent.get_agent_card()

            async def send(order):
                reply = await agent.invoke_async(order["text"])
                texts = [block["text"] for block in reply.message["content"]]
                asks = texts if reply.stop_reason == "interrupt" else []
                yield {"texts": texts, "asks": asks}

            return "strands-agents", {"send": send}

        await puppet(connect)


asyncio.run(main())
