"""What a worker needs to run a job: the rooms below, wired once."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import aiohttp

from agentjobs.advisories.chooser import Chooser
from agentjobs.connections.adapters import Platforms
from agentjobs.forges.protocol import Forge
from agentjobs.gateway.prices import Prices
from agentjobs.inventory.repo_facts import FactsCache
from agentjobs.jobs.context import JobsContext
from agentjobs.organizations.sealing import SealingKeys
from agentjobs.outbound.guard.addresses import AllowList
from agentjobs.sandbox.protocol import Sandbox
from agentjobs.tickets.resolve import Tickets
from agentjobs.workspace.checkout import Workspaces
from agentjobs.workspace.mirror import Mirrors


@dataclass(frozen=True, slots=True)
class JobTools:
    context: JobsContext
    mirrors: Mirrors
    workspaces: Workspaces
    sandbox: Sandbox
    # Those of our own; hosts elsewhere are reached through their connections.
    forges: Mapping[str, Forge]
    platforms: Platforms
    tickets: Tickets
    facts: FactsCache
    keys: SealingKeys
    prices: Prices
    allowed: AllowList
    session: aiohttp.ClientSession
    chooser: Chooser
    # The bundle agents are shown; None: the system's own.
    certificates: Path | None = None
