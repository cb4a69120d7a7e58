"""The assistant as an A2A v1.0 agent on a2a-sdk 1.x: `agent10.py PORT [--compat]`.

JSON-RPC on /, HTTP+JSON under /rest. With --compat the same URLs also speak v0.3 and the card says so.
"""

import argparse
import asyncio

import assistant
import httpx
from a2a.server.agent_execution import AgentExecutor
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.routes import create_agent_card_routes, create_jsonrpc_routes, create_rest_routes
from a2a.server.tasks import (
    BasePushNotificationSender,
    InMemoryPushNotificationConfigStore,
    InMemoryTaskStore,
    TaskUpdater,
)
from a2a.types import (
    AgentCapabilities,
    AgentCard,
    AgentInterface,
    AgentSkill,
    Part,
    Task,
    TaskState,
    TaskStatus,
)
from google.protobuf.json_format import ParseDict
from google.protobuf.struct_pb2 import Value
from starlette.applications import Starlette


def sdk_part(part):
    kind, value, *about = part
    if kind == "text":
        return Part(text=value)
    if kind == "data":
        return Part(data=ParseDict(value, Value()))
    return Part(raw=value, media_type=about[0], filename=about[1])


def sdk_state(name):
    return TaskState.Value("TASK_STATE_" + name.upper().replace("-", "_"))


class Assistant(AgentExecutor):
    async def execute(self, context, event_queue):
        given = "\n".join(part.text for part in context.message.parts if part.HasField("text"))
        reply = assistant.reply_to(given)
        task = context.current_task
        # To a follow-up that names only its task the SDK gives a context id of its own making: the task knows better.
        context_id = task.context_id if task else context.context_id
        updater = TaskUpdater(event_queue, context.task_id, context_id)
        if reply.message is not None:
            message = updater.new_agent_message([Part(text=reply.message)])
            message.ClearField("task_id")
            await event_queue.enqueue_event(message)
            return
        if task is None:
            submitted = TaskStatus(state=sdk_state("submitted"))
            await event_queue.enqueue_event(
                Task(id=context.task_id, context_id=context_id, status=submitted, history=[context.message])
            )
        await updater.start_work()
        await asyncio.sleep(reply.wait)
        if reply.error is not None:
            raise RuntimeError(reply.error)
        for chunk in reply.chunks:
            await asyncio.sleep(chunk.wait)
            await updater.add_artifact(
                [sdk_part(part) for part in chunk.parts],
                artifact_id=chunk.artifact,
                name=chunk.artifact,
                append=chunk.append,
                last_chunk=chunk.last,
            )
        words = None if reply.words is None else updater.new_agent_message([Part(text=reply.words)])
        await updater.update_status(sdk_state(reply.state), message=words)

    async def cancel(self, context, event_queue):
        await TaskUpdater(event_queue, context.task_id, context.context_id).cancel()


async def main():
    options = argparse.ArgumentParser()
    options.add_argument("port", type=int)
    options.add_argument("--compat", action="store_true")
    options = options.parse_args()
    sock, base = assistant.listen(options.port)
    versions = ["1.0", "0.3"] if options.compat else ["1.0"]
    card = AgentCard(
        name="Stateless assistant",
        description="Knows only what it is given",
        version="1.0.0",
        supported_interfaces=[
            AgentInterface(url=base + path, protocol_binding=binding, protocol_version=version)
            for version in versions
            for binding, path in (("JSONRPC", "/"), ("HTTP+JSON", "/rest"))
        ],
        capabilities=AgentCapabilities(streaming=True, push_notifications=True, extended_agent_card=True),
        default_input_modes=["text/plain"],
        default_output_modes=["text/plain"],
        skills=[AgentSkill(id="talk", name="Talk", description="Answers", tags=["talk"])],
    )
    extended = AgentCard()
    extended.CopyFrom(card)
    extended.description = "Tells more to those who ask"
    configs = InMemoryPushNotificationConfigStore()
    handler = DefaultRequestHandler(
        agent_executor=Assistant(),
        task_store=InMemoryTaskStore(),
        agent_card=card,
        extended_agent_card=extended,
        push_config_store=configs,
        push_sender=BasePushNotificationSender(httpx.AsyncClient(), configs),
    )
    compat = options.compat
    app = Starlette(
        routes=[
            *create_agent_card_routes(agent_card=card),
            *create_jsonrpc_routes(request_handler=handler, rpc_url="/", enable_v0_3_compat=compat),
            *create_rest_routes(request_handler=handler, path_prefix="/rest", enable_v0_3_compat=compat),
        ]
    )
    await assistant.serve(app, sock)


asyncio.run(main())
