"""Who follows a run of an agent: its preset, or for a plain command its exit code."""

from agentjobs.agents.definitions import Agent
from agentjobs.agents.presets.all_presets import PRESETS
from agentjobs.agents.run_watcher import Watch


def watch_of(agent: Agent) -> Watch:
    """One for each run: `feed` its output and log what comes back, `end` it, then ask
    `why_it_failed`."""
    return Watch() if agent.preset is None else PRESETS[agent.preset].watch()
