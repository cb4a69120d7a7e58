"""The official a2a-sdk 1.x client, driven by lines on its standard input; see ../talk.py for the lines.

`client10.py URL --streaming true|false [--binding JSONRPC|HTTP+JSON] [--protocol 0.3]`
With --protocol 0.3 it sees only the v0.3 interfaces of the card.
"""

import asyncio
import dataclasses
import uuid

import httpx
from a2a.client import A2ACardResolver, ClientConfig, ClientFactory
from a2a.types import (
    CancelTaskRequest,
    DeleteTaskPushNotificationConfigRequest,
    GetExtendedAgentCardRequest,
    GetTaskPushNotificationConfigRequest,
    GetTaskRequest,
    ListTaskPushNotificationConfigsRequest,
    ListTasksRequest,
    Message,
    Part,
    Role,
    SendMessageConfiguration,
    SendMessageRequest,
    SubscribeToTaskRequest,
    TaskPushNotificationConfig,
)
from google.protobuf.json_format import MessageToDict
from puppet import options, puppet


def callback(order):
    return TaskPushNotificationConfig(
        task_id=order.get("taskId", ""), id=order["id"], url=order["url"], token=order["token"]
    )


class Can:
    """What the client offers, by the names of the orders."""

    def __init__(self, card, config, streaming):
        self.streams = ClientFactory(dataclasses.replace(config, streaming=True)).create(card)
        self.waits = ClientFactory(dataclasses.replace(config, streaming=False)).create(card)
        self.client = self.streams if streaming else self.waits

    async def send(self, order):
        message = Message(
            message_id=str(uuid.uuid4()),
            role=Role.ROLE_USER,
            parts=[Part(text=order["text"])],
            context_id=order.get("contextId", ""),
            task_id=order.get("taskId", ""),
        )
        wanted = SendMessageConfiguration(return_immediately="now" in order)
        if "push" in order:
            wanted.task_push_notification_config.CopyFrom(callback(order["push"]))
        client = self.waits if "now" in order else self.client
        async for event in client.send_message(SendMessageRequest(message=message, configuration=wanted)):
            yield MessageToDict(event)

    async def get(self, order):
        return MessageToDict(await self.client.get_task(GetTaskRequest(id=order["taskId"], history_length=100)))

    async def list(self, order):
        wanted = ListTasksRequest(
            context_id=order["contextId"],
            status=order.get("status", 0),
            page_size=order.get("pageSize"),
            page_token=order.get("pageToken", ""),
            include_artifacts="artifacts" in order,
        )
        found = await self.client.list_tasks(wanted)
        return MessageToDict(found, always_print_fields_with_no_presence=False)

    async def cancel(self, order):
        return MessageToDict(await self.client.cancel_task(CancelTaskRequest(id=order["taskId"])))

    async def subscribe(self, order):
        async for event in self.streams.subscribe(SubscribeToTaskRequest(id=order["taskId"])):
            yield MessageToDict(event)

    async def push_set(self, order):
        return MessageToDict(await self.client.create_task_push_notification_config(callback(order)))

    async def push_get(self, order):
        wanted = GetTaskPushNotificationConfigRequest(task_id=order["taskId"], id=order["id"])
        return MessageToDict(await self.client.get_task_push_notification_config(wanted))

    async def push_list(self, order):
        wanted = ListTaskPushNotificationConfigsRequest(task_id=order["taskId"])
        return MessageToDict(await self.client.list_task_push_notification_configs(wanted))

    async def push_delete(self, order):
        wanted = DeleteTaskPushNotificationConfigRequest(task_id=order["taskId"], id=order["id"])
        return await self.client.delete_task_push_notification_config(wanted)

    async def card(self, _):
        return MessageToDict(await self.client.get_extended_agent_card(GetExtendedAgentCardRequest()))


async def main():
    given = options()
    async with httpx.AsyncClient(timeout=30) as http:

        async def connect():
            config = ClientConfig(httpx_client=http, supported_protocol_bindings=[given.binding])
            card = await A2ACardResolver(http, given.url).get_agent_card()
            if given.protocol:
                kept = [one for one in card.supported_interfaces if one.protocol_version.startswith(given.protocol)]
                del card.supported_interfaces[:]
                card.supported_interfaces.extend(kept)
            can = Can(card, config, given.streaming)
            pushes = ("push_set", "push_get", "push_list", "push_delete")
            offered = ("send", "get", "list", "cancel", "subscribe", *pushes, "card")
            return type(can.client._transport).__name__, {name: getattr(can, name) for name in offered}

        await puppet(connect)


asyncio.run(main())
