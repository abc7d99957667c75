"""`agentjobs mcp`: the Model Context Protocol on stdin and stdout, as a client of the HTTP API."""

from agentjobs.cli.contexts.connection import ContextName, choose_connection


def mcp(context: ContextName = None) -> None:
    """Serve the Model Context Protocol (MCP) on stdin and stdout.

    For clients such as Claude Code, Cursor and VS Code, which start this command themselves. Uses
    the service of `agentjobs login`, or AGENTJOBS_URL and AGENTJOBS_API_KEY.
    """
    import asyncio
    import signal

    # Before the slow imports, so that a wrong setting is reported at once.
    connection = choose_connection(context)

    from agentjobs.cli.mcp.stdio import serve

    # Otherwise Ctrl-C would wait for the thread that reads stdin.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    asyncio.run(serve(connection))
