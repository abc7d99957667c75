"""All presets by id, and the watcher for an agent's run."""

from collections.abc import Mapping

from agentjobs.agents.definitions import Agent
from agentjobs.agents.presets.aider import AIDER
from agentjobs.agents.presets.claude_code import CLAUDE_CODE
from agentjobs.agents.presets.codex import CODEX
from agentjobs.agents.presets.mini_swe_agent import MINI_SWE_AGENT
from agentjobs.agents.presets.opencode import OPENCODE
from agentjobs.agents.presets.preset import Preset
from agentjobs.agents.run_watcher import RunWatcher

PRESETS: Mapping[str, Preset] = {
    preset.id: preset for preset in (CLAUDE_CODE, CODEX, OPENCODE, AIDER, MINI_SWE_AGENT)
}


def watcher_for(agent: Agent) -> RunWatcher:
    """A watcher for one run: `feed` it output and log the result, then call `end` and
    `failure_reason`."""
    return RunWatcher() if agent.preset is None else PRESETS[agent.preset].watcher()
