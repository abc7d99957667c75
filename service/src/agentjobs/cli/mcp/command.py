"""`agentjobs mcp`: the Model Context Protocol on stdin and stdout, as a client of the HTTP API."""

from agentjobs.cli.contexts.connection import Connection, ContextName, choose_connection


def mcp(context: ContextName = None) -> None:
    """Serve the Model Context Protocol (MCP) on stdin and stdout.

    For clients such as Claude Code, Cursor and VS Code, which start this command themselves. Uses
    the service of `agentjobs login`, or AGENTJOBS_URL and AGENTJOBS_API_KEY.
    """
    import asyncio
    import signal

    # Before the slow imports, so that a wrong setting is reported at once.
    connection = choose_connection(context)
    # Otherwise Ctrl-C would wait for the thread that reads stdin.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    asyncio.run(_serve(connection))


async def _serve(connection: Connection) -> None:
    """Serves one client until it closes stdin."""
    from agentjobs.web.mcp.server import build_server
    from agentjobs.web.mcp.tool_client import ToolClient, current_client

    ca_file = connection.ca_file
    async with ToolClient(connection.url, connection.api_key, ca_file=ca_file) as client:
        current_client.set(client)
        await build_server().run_stdio_async()
