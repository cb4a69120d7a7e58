"""The official a2a-sdk 0.3 client, driven by lines on its standard input; see ../talk.py for the lines.

`client03.py URL --streaming true|false [--binding JSONRPC|HTTP+JSON]`
"""

import asyncio
import uuid

import httpx
from a2a.client import A2ACardResolver, ClientConfig, ClientFactory
from a2a.types import Message, Part, Role, TaskQueryParams, TextPart, TransportProtocol
from puppet import options, puppet


def plain(value):
    return value.model_dump(mode="json", by_alias=True, exclude_none=True)


async def main():
    given = options()
    async with httpx.AsyncClient(timeout=30) as http:

        async def connect():
            card = await A2ACardResolver(http, given.url).get_agent_card()
            config = ClientConfig(
                httpx_client=http,
                streaming=given.streaming,
                supported_transports=[TransportProtocol(given.binding)],
                use_client_preference=True,
            )
            client = ClientFactory(config).create(card)

            async def send(text, context_id, task_id):
                message = Message(
                    message_id=str(uuid.uuid4()),
                    role=Role.user,
                    parts=[Part(root=TextPart(text=text))],
                    context_id=context_id,
                    task_id=task_id,
                )
                task = None
                async for event in client.send_message(message):
                    if isinstance(event, Message):
                        yield plain(event)
                    else:
                        task, update = event
                        yield plain(update or task)
                if task is not None:
                    yield {"assembled": plain(task)}

            async def get(task_id):
                return plain(await client.get_task(TaskQueryParams(id=task_id, history_length=100)))

            return type(client._transport).__name__, send, get

        await puppet(connect)


asyncio.run(main())
