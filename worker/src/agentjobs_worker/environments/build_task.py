"""One build of an environment, and what every build of a worker uses."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path

from agentjobs_runtime.environments.key import EnvironmentRequest
from agentjobs_runtime.environments.setup_access import SetupAccess
from agentjobs_runtime.mirrors.mirror import Mirrors
from agentjobs_runtime.outbound.guard.addresses import AllowList
from agentjobs_runtime.sandboxes.limits import Limits
from agentjobs_worker.environments.images.images import Images
from agentjobs_worker.environments.snapshots import Snapshots
from agentjobs_worker.sandbox.protocol import Sandbox
from agentjobs_worker.workspace.checkout import Workspaces
from agentjobs_worker.workspace.session import Session


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class BuildTask:
    """The mirror of the repository has the commit."""

    build_id: str
    organization_id: str
    repo_id: str
    commit: str
    request: EnvironmentRequest
    access: SetupAccess


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class BuildTools:
    """Built once per worker. `slots` are sandbox slots for setup alone, one for each place;
    `certificates` is the operator's bundle, if there is one."""

    session: Session
    mirrors: Mirrors
    images: Images
    snapshots: Snapshots
    sandbox: Sandbox
    workspaces: Workspaces
    certificates: Path | None
    allowed: AllowList
    ca_file: str
    slots: Sequence[int]
    setup_seconds: float
    limits: Limits
