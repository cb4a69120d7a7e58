"""The assistant as an A2A v0.3 agent on a2a-sdk 0.3: `agent03.py PORT`. JSON-RPC on /, HTTP+JSON under /v1."""

import asyncio
import base64
import sys

import assistant
import httpx
from a2a.server.agent_execution import AgentExecutor
from a2a.server.apps import A2ARESTFastAPIApplication, A2AStarletteApplication
from a2a.server.request_handlers import DefaultRequestHandler
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
    DataPart,
    FilePart,
    FileWithBytes,
    Part,
    TaskState,
    TextPart,
)
from a2a.utils import new_task


def sdk_part(part):
    kind, value, *about = part
    if kind == "text":
        return Part(root=TextPart(text=value))
    if kind == "data":
        return Part(root=DataPart(data=value))
    content = base64.b64encode(value).decode()
    return Part(root=FilePart(file=FileWithBytes(bytes=content, mime_type=about[0], name=about[1])))


class Assistant(AgentExecutor):
    async def execute(self, context, event_queue):
        given = "\n".join(part.root.text for part in context.message.parts if part.root.kind == "text")
        reply = assistant.reply_to(given)
        updater = TaskUpdater(event_queue, context.task_id, context.context_id)
        if reply.message is not None:
            message = updater.new_agent_message([sdk_part(("text", reply.message))])
            message.task_id = None
            await event_queue.enqueue_event(message)
            return
        if context.current_task is None:
            context.message.task_id, context.message.context_id = context.task_id, context.context_id
            await event_queue.enqueue_event(new_task(context.message))
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
        words = None if reply.words is None else updater.new_agent_message([sdk_part(("text", reply.words))])
        await updater.update_status(TaskState(reply.state), message=words, final=True)

    async def cancel(self, context, event_queue):
        await TaskUpdater(event_queue, context.task_id, context.context_id).cancel()


def main():
    sock, base = assistant.listen(int(sys.argv[1]))
    card = AgentCard(
        name="Stateless assistant",
        description="Knows only what it is given",
        version="1.0.0",
        protocol_version="0.3.0",
        url=f"{base}/",
        preferred_transport="JSONRPC",
        additional_interfaces=[
            AgentInterface(url=f"{base}/", transport="JSONRPC"),
            AgentInterface(url=base, transport="HTTP+JSON"),
        ],
        capabilities=AgentCapabilities(streaming=True, push_notifications=True),
        default_input_modes=["text/plain"],
        default_output_modes=["text/plain"],
        skills=[AgentSkill(id="talk", name="Talk", description="Answers", tags=["talk"])],
        supports_authenticated_extended_card=True,
    )
    extended = card.model_copy(update={"description": "Tells more to those who ask"})
    configs = InMemoryPushNotificationConfigStore()
    handler = DefaultRequestHandler(
        agent_executor=Assistant(),
        task_store=InMemoryTaskStore(),
        push_config_store=configs,
        push_sender=BasePushNotificationSender(httpx.AsyncClient(), configs),
    )
    app = A2ARESTFastAPIApplication(agent_card=card, http_handler=handler, extended_agent_card=extended).build()
    rpc = A2AStarletteApplication(agent_card=card, http_handler=handler, extended_agent_card=extended)
    rpc.add_routes_to_app(app)
    asyncio.run(assistant.serve(app, sock))


main()
