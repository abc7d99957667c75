"""Which tools an agent runs itself. A provider may run any other, and charge for it."""

from typing import Any

from agentjobs.gateway.upstream import Api

_OPENAI = ("function", "custom", "namespace", "local_shell", "apply_patch")
# With a date behind them.
_ANTHROPIC = ("bash_", "text_editor_", "computer_", "memory_")


def runs_at_the_agent(tool: Any, api: Api) -> bool:
    if not isinstance(tool, dict):
        return False
    kind = tool.get("type")
    if api == "anthropic":
        return kind in (None, "custom") or str(kind).startswith(_ANTHROPIC)
    if kind == "shell":
        return _is_local(tool.get("environment"))
    if kind == "tool_search":
        return tool.get("execution") == "client"
    return kind in _OPENAI


def _is_local(environment: Any) -> bool:
    return environment is None or (
        isinstance(environment, dict) and environment.get("type") == "local"
    )
