"""Every preset by its id: what `preset = "…"` in an agent's definition may name."""

from collections.abc import Mapping

from agentjobs.agents.definitions import Agent
from agentjobs.agents.presets.aider import AIDER
from agentjobs.agents.presets.claude_code import CLAUDE_CODE
from agentjobs.agents.presets.codex import CODEX
from agentjobs.agents.presets.mini_swe_agent import MINI_SWE_AGENT
from agentjobs.agents.presets.opencode import OPENCODE
from agentjobs.agents.presets.preset import Preset
from agentjobs.agents.run_watcher import Watch

PRESETS: Mapping[str, Preset] = {
    preset.id: preset for preset in (CLAUDE_CODE, CODEX, OPENCODE, AIDER, MINI_SWE_AGENT)
}


def watch_of(agent: Agent) -> Watch:
    """One for each run: `feed` its output and log what comes back, `end` it, then ask
    `why_it_failed`."""
    return Watch() if agent.preset is None else PRESETS[agent.preset].watch()
