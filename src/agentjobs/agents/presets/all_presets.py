"""Every preset by its id: what `preset = "…"` in an agent's definition may name."""

from collections.abc import Mapping

from agentjobs.agents.presets.aider import AIDER
from agentjobs.agents.presets.claude_code import CLAUDE_CODE
from agentjobs.agents.presets.codex import CODEX
from agentjobs.agents.presets.mini_swe_agent import MINI_SWE_AGENT
from agentjobs.agents.presets.opencode import OPENCODE
from agentjobs.agents.presets.preset import Preset

PRESETS: Mapping[str, Preset] = {
    preset.id: preset for preset in (CLAUDE_CODE, CODEX, OPENCODE, AIDER, MINI_SWE_AGENT)
}
