"""Steps from the tools that agents call, by the names that their tools and arguments have."""

import shlex
from collections.abc import Mapping

from agentjobs_runtime.agents.steps import Step, StepKind
from agentjobs_runtime.sandboxes.directories import WORKSPACE
from agentjobs_worker.agents.presets.event_stream import Event, to_text

_KINDS: Mapping[str, StepKind] = {
    "read": "read",
    "notebookread": "read",
    "bash": "command",
    "edit": "change",
    "multiedit": "change",
    "notebookedit": "change",
    "write": "change",
    "patch": "change",
}
_PATHS = ("file_path", "filePath", "notebook_path", "path")
# What a tool of another kind is about.
_SUBJECTS = ("description", "pattern", "query", "url", "name")
_OLD = ("old_string", "oldString")
_NEW = ("new_string", "newString", "content", "new_source", "patchText")
# More of a change is not shown. A line has a sign and an end: one event may have hundreds of
# changes with nothing but empty lines.
_MAX_CHANGE_LENGTH = 8_000
_MAX_CHANGE_LINES = _MAX_CHANGE_LENGTH // 2
# Longer scripts are shown with their shell.
_MAX_SHELL_LENGTH = 4_096


def tool_step(tool: str, arguments: Event) -> Step:
    """What the call will do; whether it succeeded is for the caller to say."""
    kind = _KINDS.get(tool.lower(), "other")
    if kind == "command":
        return Step(kind=kind, title=to_text(arguments.get("command")) or tool)
    if path := _first(arguments, _PATHS):
        title = relative_path(path) if kind != "other" else f"{tool} {relative_path(path)}"
        return Step(kind=kind, title=title, detail=_change(arguments) if kind == "change" else "")
    return Step(kind=kind, title=f"{tool} {_first(arguments, _SUBJECTS)}".strip())


def message_step(text: str) -> Step:
    """Its first line, and the whole text if there is more."""
    title, _, rest = text.strip().partition("\n")
    return Step(kind="message", title=title, detail=text if rest.strip() else "")


def relative_path(path: str) -> str:
    return path.removeprefix(f"{WORKSPACE}/")


def unwrap_script(command: str) -> str:
    """What a shell runs, for a command such as `/bin/sh -lc '…'`."""
    if len(command) > _MAX_SHELL_LENGTH:
        return command
    try:
        words = shlex.split(command)
    except ValueError:
        return command
    return words[2] if len(words) == 3 and words[1] in ("-c", "-lc") else command


def _change(arguments: Event) -> str:
    old, new = _first(arguments, _OLD), _first(arguments, _NEW)
    return "\n".join(filter(None, (_signed_lines("-", old), _signed_lines("+", new))))


def _signed_lines(sign: str, text: str) -> str:
    beginning = text[:_MAX_CHANGE_LENGTH].removesuffix("\n")
    lines = beginning.split("\n", _MAX_CHANGE_LINES)[:_MAX_CHANGE_LINES]
    return sign + f"\n{sign}".join(lines) if text else ""


def _first(arguments: Event, names: tuple[str, ...]) -> str:
    return next(filter(None, (to_text(arguments.get(name)) for name in names)), "")
