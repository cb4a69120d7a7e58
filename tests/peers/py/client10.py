"""The official a2a-sdk 1.x client, driven by lines on its standard input; see ../talk.py for the lines.

`client10.py URL --streaming true|false [--binding JSONRPC|HTTP+JSON] [--protocol 0.3]`
With --protocol 0.3 it sees only the v0.3 interfaces of the card.
"""

import asyncio
import uuid

import httpx
from a2a.client import A2ACardResolver, ClientConfig, ClientFactory
from a2a.types import GetTaskRequest, Message, Part, Role, SendMessageRequest
from google.protobuf.json_format import MessageToDict
from puppet import options, puppet


async def main():
    given = options()
    async with httpx.AsyncClient(timeout=30) as http:

        async def connect():
            config = ClientConfig(
                httpx_client=http, streaming=given.streaming, supported_protocol_bindings=[given.binding]
            )
            factory = ClientFactory(config)
            card = await A2ACardResolver(http, given.url).get_agent_card()
            if given.protocol:
                kept = [one for one in card.supported_interfaces if one.protocol_version.startswith(given.protocol)]
                del card.supported_interfaces[:]
                card.supported_interfaces.extend(kept)
            client = factory.create(card)

            async def send(text, context_id, task_id):
                message = Message(
                    message_id=str(uuid.uuid4()),
                    role=Role.ROLE_USER,
                    parts=[Part(text=text)],
                    context_id=context_id or "",
                    task_id=task_id or "",
                )
                async for event in client.send_message(SendMessageRequest(message=message)):
                    yield MessageToDict(event)

            async def get(task_id):
                return MessageToDict(await client.get_task(GetTaskRequest(id=task_id, history_length=100)))

            return type(client._transport).__name__, send, get

        await puppet(connect)


asyncio.run(main())
