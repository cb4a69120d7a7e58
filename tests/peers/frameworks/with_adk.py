"""google-adk's RemoteA2aAgent as the root agent of a runner, driven by lines like the clients; see ../talk.py.

`with_adk.py URL --streaming true|false`
"""

import loopback  # noqa: F401 (first)

import asyncio
import warnings

import httpx
from puppet import options, puppet

warnings.filterwarnings("ignore")  # it says of itself that it is experimental

from a2a.client import ClientConfig, ClientFactory  # noqa: E402
from google.adk.agents.remote_a2a_agent import AGENT_CARD_WELL_KNOWN_PATH, RemoteA2aAgent  # noqa: E402
from google.adk.runners import InMemoryRunner  # noqa: E402
from google.genai import types  # noqa: E402


def shown(event):
    """What a user interface shows of an event: text that is no thought, and the calls that wait for the user."""
    parts = event.content.parts or [] if event.content and not event.partial else []
    return {
        "texts": [part.text for part in parts if part.text and not part.thought],
        "asks": [
            part.function_call.args["input_required"]
            for part in parts
            if part.function_call and part.function_call.id in (event.long_running_tool_ids or ())
        ],
        "task": (event.custom_metadata or {}).get("a2a:task_id"),
        "error": event.error_message,
    }


async def main():
    given = options()
    async with httpx.AsyncClient(timeout=30) as http:

        async def connect():
            factory = ClientFactory(ClientConfig(httpx_client=http, streaming=given.streaming))
            card = given.url.rstrip("/") + AGENT_CARD_WELL_KNOWN_PATH
            agent = RemoteA2aAgent(name="remote", agent_card=card, a2a_client_factory=factory)
            runner = InMemoryRunner(agent=agent, app_name="conversation")
            sessions = {}

            async def send(order):
                name = order["session"]
                if name not in sessions:
                    sessions[name] = await runner.session_service.create_session(app_name="conversation", user_id="ada")
                message = types.Content(role="user", parts=[types.Part(text=order["text"])])
                async for event in runner.run_async(
                    user_id="ada", session_id=sessions[name].id, new_message=message
                ):
                    yield shown(event)

            return "google-adk", {"send": send}

        await puppet(connect)


asyncio.run(main())
