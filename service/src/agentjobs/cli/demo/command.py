"""`agentjobs demo`: runs a job from start to pull request on a temporary service."""

import sys


def demo() -> None:
    """Run a sample job on a temporary service.

    Starts a service, runs a job on a sample repository and shows its pull request.
    """
    import asyncio
    import tempfile
    from pathlib import Path

    from agentjobs.cli.demo.steps import run_demo

    is_interactive = sys.stdin.isatty() and sys.stdout.isatty()
    with tempfile.TemporaryDirectory(
        prefix="agentjobs-demo-", ignore_cleanup_errors=True
    ) as directory:
        asyncio.run(run_demo(Path(directory), stay_open=is_interactive))
