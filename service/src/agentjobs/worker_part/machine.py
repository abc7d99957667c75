"""The worker's part of this machine, for commands that check or clean it.

The protocol between service and workers replaces this module.
"""

from agentjobs_worker.agents.readiness import Readiness, check_installed
from agentjobs_worker.environments.images.tool_sandbox import TOOLS, missing_tools
from agentjobs_worker.environments.snapshots import SNAPSHOTS, remove_repo_snapshots
from agentjobs_worker.sandbox.description import describe_sandbox
from agentjobs_worker.sandbox.protocol import SandboxDescription

__all__ = [
    "SNAPSHOTS",
    "TOOLS",
    "Readiness",
    "SandboxDescription",
    "check_installed",
    "describe_sandbox",
    "missing_tools",
    "remove_repo_snapshots",
]
