"""All presets by id, and the watcher for an agent's run."""

from collections.abc import Mapping

from agentjobs_runtime.agents.definitions import Agent
from agentjobs_worker.agents.presets.aider import AIDER
from agentjobs_worker.agents.presets.claude_code import CLAUDE_CODE
from agentjobs_worker.agents.presets.codex import CODEX
from agentjobs_worker.agents.presets.mini_swe_agent import MINI_SWE_AGENT
from agentjobs_worker.agents.presets.opencode import OPENCODE
from agentjobs_worker.agents.presets.preset import Preset
from agentjobs_worker.agents.run_watcher import RunWatcher

PRESETS: Mapping[str, Preset] = {
    preset.id: preset for preset in (CLAUDE_CODE, CODEX, OPENCODE, AIDER, MINI_SWE_AGENT)
}


def watcher_for(agent: Agent) -> RunWatcher:
    """A watcher for one run: `feed` it output and log the result, then call `end` and
    `failure_reason`."""
    return RunWatcher() if agent.preset is None else PRESETS[agent.preset].watcher()
