"""Serves one client on stdin and stdout until it closes them."""

from mcp.server.stdio import stdio_server

from agentjobs.cli.contexts.connection import Connection
from agentjobs.cli.mcp.remote_api import RemoteApi
from agentjobs.web.mcp.server import build_server


async def serve(connection: Connection) -> None:
    ca_file = connection.ca_file
    async with RemoteApi(connection.url, connection.api_key, ca_file=ca_file) as api:
        server = build_server(api)
        async with stdio_server() as (requests, responses):
            await server.run(requests, responses, server.create_initialization_options())
