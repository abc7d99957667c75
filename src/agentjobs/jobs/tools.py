"""What a worker needs to run a job: the rooms below, wired once."""

from collections.abc import Mapping
from dataclasses import dataclass

from agentjobs.forges.protocol import Forge
from agentjobs.jobs.context import JobsContext
from agentjobs.sandbox.protocol import Sandbox
from agentjobs.workspace.checkout import Workspaces
from agentjobs.workspace.mirror import Mirrors


@dataclass(frozen=True, slots=True)
class JobTools:
    context: JobsContext
    mirrors: Mirrors
    workspaces: Workspaces
    sandbox: Sandbox
    forges: Mapping[str, Forge]
