"""`agentjobs demo`: the whole way of a job, on a service and a repository made for the occasion."""

import sys


def demo() -> None:
    """Start a service, run a job on a sample repository and show its pull request."""
    import asyncio
    import tempfile
    from pathlib import Path

    from agentjobs.cli.demo.screen import screen_for
    from agentjobs.cli.demo.story import tell

    on_a_terminal = sys.stdin.isatty() and sys.stdout.isatty()
    with (
        tempfile.TemporaryDirectory(prefix="agentjobs-demo-", ignore_cleanup_errors=True) as place,
        screen_for(on_a_terminal) as screen,
    ):
        asyncio.run(tell(Path(place), screen, stay_open=on_a_terminal))
