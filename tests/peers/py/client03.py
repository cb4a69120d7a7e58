"""The official a2a-sdk 0.3 client, driven by lines on its standard input; see ../talk.py for the lines.

`client03.py URL --streaming true|false [--binding JSONRPC|HTTP+JSON]`
"""

import asyncio
import dataclasses
import uuid

import httpx
from a2a.client import A2ACardResolver, ClientConfig, ClientFactory
from a2a.types import (
    GetTaskPushNotificationConfigParams,
    Message,
    MessageSendConfiguration,
    Part,
    PushNotificationConfig,
    Role,
    TaskIdParams,
    TaskPushNotificationConfig,
    TaskQueryParams,
    TextPart,
    TransportProtocol,
)
from puppet import options, puppet


def plain(value):
    return value.model_dump(mode="json", by_alias=True, exclude_none=True)


def callback(order):
    return PushNotificationConfig(id=order["id"], url=order["url"], token=order["token"])


class Can:
    """What the client offers, by the names of the orders."""

    def __init__(self, card, config, streaming):
        self.streams = ClientFactory(dataclasses.replace(config, streaming=True)).create(card)
        self.waits = ClientFactory(dataclasses.replace(config, streaming=False)).create(card)
        self.client = self.streams if streaming else self.waits

    async def events(self, found):
        task = None
        async for event in found:
            if isinstance(event, Message):
                yield plain(event)
            else:
                task, update = event
                yield plain(update or task)
        if task is not None:
            yield {"assembled": plain(task)}

    def send(self, order):
        message = Message(
            message_id=str(uuid.uuid4()),
            role=Role.user,
            parts=[Part(root=TextPart(text=order["text"]))],
            context_id=order.get("contextId"),
            task_id=order.get("taskId"),
        )
        wanted = {"blocking": False} if "now" in order else {}
        if "push" in order:
            wanted["push_notification_config"] = callback(order["push"])
        client = self.waits if "now" in order else self.client
        return self.events(client.send_message(message, configuration=MessageSendConfiguration(**wanted)))

    async def get(self, order):
        return plain(await self.client.get_task(TaskQueryParams(id=order["taskId"], history_length=100)))

    async def cancel(self, order):
        return plain(await self.client.cancel_task(TaskIdParams(id=order["taskId"])))

    def subscribe(self, order):
        return self.events(self.streams.resubscribe(TaskIdParams(id=order["taskId"])))

    async def push_set(self, order):
        wanted = TaskPushNotificationConfig(task_id=order["taskId"], push_notification_config=callback(order))
        return plain(await self.client.set_task_callback(wanted))

    async def push_get(self, order):
        wanted = GetTaskPushNotificationConfigParams(id=order["taskId"], push_notification_config_id=order["id"])
        return plain(await self.client.get_task_callback(wanted))

    async def card(self, _):
        return plain(await self.client.get_card())


async def main():
    given = options()
    async with httpx.AsyncClient(timeout=30) as http:

        async def connect():
            card = await A2ACardResolver(http, given.url).get_agent_card()
            config = ClientConfig(
                httpx_client=http,
                supported_transports=[TransportProtocol(given.binding)],
                use_client_preference=True,
            )
            can = Can(card, config, given.streaming)
            offered = ("send", "get", "cancel", "subscribe", "push_set", "push_get", "card")
            return type(can.client._transport).__name__, {name: getattr(can, name) for name in offered}

        await puppet(connect)


asyncio.run(main())
