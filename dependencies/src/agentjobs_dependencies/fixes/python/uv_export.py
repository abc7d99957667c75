"""Exports a requirements file from uv.lock again, with the options in its header."""

import re
import shlex
import tempfile
from dataclasses import dataclass
from pathlib import Path

from agentjobs_dependencies.fixes import tree
from agentjobs_dependencies.fixes.python.uv_lock import member_pyprojects
from agentjobs_dependencies.fixes.run_tool import run_tool

_COMMAND = re.compile(
    r"^#[ \t]+(?:[^\n]{0,200}[ \t])?uv export\b(?P<arguments>[^\r\n]{0,2000})", re.MULTILINE
)
_HEADER = re.compile(r"(?:#[^\n]*\n)*")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_FLAGS = frozenset(
    {
        *("--all-extras", "--all-groups", "--all-packages", "--dev", "--no-dev", "--only-dev"),
        *("--no-default-groups", "--no-editable"),
        *("--no-emit-project", "--no-emit-workspace", "--no-emit-local"),
        *("--no-install-project", "--no-install-workspace", "--no-install-local"),
    }
)
_WITH_NAME = frozenset(
    {
        *("--extra", "--no-extra", "--group", "--no-group", "--only-group", "--package", "--prune"),
        *("--no-emit-package", "--no-install-package"),
    }
)
# The file itself shows whether it has hashes and comments.
_IGNORED = frozenset(
    {
        *("--frozen", "--locked", "--quiet", "-q", "--offline", "--no-progress"),
        *("--hashes", "--no-hashes", "--annotate", "--no-annotate"),
    }
)
_IGNORED_WITH_VALUE = frozenset({"--output-file", "-o", "--python", "-p"})
_SAME_FORMAT = {("--format", "requirements-txt"), ("--format", "requirements.txt")}


@dataclass(frozen=True, slots=True)
class Export:
    """How `uv export` wrote a file. `options` is None if some of them are not supported."""

    lock: Path
    options: tuple[str, ...] | None


def find_export(path: Path, text: str, root: Path) -> Export | None:
    """None if uv did not export the file, or if the repository does not have the lock file."""
    command = _COMMAND.search(text)
    directories = (parent for parent in path.parents if parent.is_relative_to(root))
    locks = (
        directory / "uv.lock" for directory in directories if (directory / "uv.lock").is_file()
    )
    lock = next(locks, None) if command else None
    if command is None or lock is None:
        return None
    return Export(lock, _read_options(command["arguments"]))


def export_again(export: Export, text: str, root: Path) -> str:
    """The text that uv exports from the lock file as it is now, with the header of the old one."""
    layout = [] if "--hash=" in text else ["--no-hashes"]
    layout += [] if "# via" in text else ["--no-annotate"]
    lock = tree.resolve_file(root, export.lock.relative_to(root).as_posix())
    with tempfile.TemporaryDirectory(prefix="cve-fixer-") as name:
        copy = Path(name).resolve()
        tree.copy_files(root, [lock, *member_pyprojects(lock)], copy)
        # This needs neither the network nor a Python, because uv only reads the lock file.
        body = run_tool(
            *("uv", "export", "--frozen", "--offline", "--no-config", "--no-header", "--quiet"),
            *(*layout, *(export.options or ())),
            directory=copy / lock.parent.relative_to(root),
            environment={"UV_PYTHON_DOWNLOADS": "never"},
        )
    header = _HEADER.match(text.replace("\r\n", "\n"))
    return tree.match_line_endings(text, (header[0] if header else "") + body)


def _read_options(arguments: str) -> tuple[str, ...] | None:
    try:
        tokens = iter(shlex.split(arguments))
    except ValueError:
        return None
    options: list[str] = []
    for token in tokens:
        option, has_value, value = token.partition("=")
        if option in _FLAGS and not has_value:
            options.append(option)
        elif option in _IGNORED and not has_value:
            continue
        else:
            value = value if has_value else next(tokens, "")
            if option in _WITH_NAME and _NAME.fullmatch(value):
                options.append(f"{option}={value}")
            elif option not in _IGNORED_WITH_VALUE and (option, value) not in _SAME_FORMAT:
                return None
    return tuple(options)
