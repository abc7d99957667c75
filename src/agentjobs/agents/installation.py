"""Where a preset's program is installed on this machine, and what of it the sandbox must show.

Finds, asks for a version, decides nothing about readiness.
"""

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import msgspec

from agentjobs.agents.definitions import Agent
from agentjobs.agents.presets.all_presets import PRESETS
from agentjobs.agents.presets.preset import Preset
from agentjobs.sandbox.protocol import SandboxError

_SHEBANG_BYTES = 256
_NODE = re.compile(rb"#!.*\bnode\b")
_HOME = re.compile(r"^home\s*=\s*(.+?)\s*$", re.MULTILINE)


class NotInstalled(SandboxError):
    """The program is not on this machine; the message says what to type."""


class Installation(msgspec.Struct, frozen=True, kw_only=True):
    """`program` are the words that start it, `path` the file that changes with its version."""

    path: Path
    program: tuple[str, ...]
    read_only: tuple[Path, ...]


def runnable(agent: Agent) -> Agent:
    """With the command and the files to show as they are here. Raises NotInstalled."""
    if agent.preset is None:
        return agent
    preset = PRESETS[agent.preset]
    found = find_installation(preset, agent.executable)
    assert agent.model is not None, "the catalogue gives every preset one"
    return msgspec.structs.replace(
        agent,
        command=preset.command(found.program, agent.model, agent.arguments),
        read_only=found.read_only,
    )


def find_installation(preset: Preset, executable: str = "") -> Installation:
    found = shutil.which(executable or preset.executable)
    if found is None and executable:
        raise NotInstalled(f"`{executable}` is no program here: correct `executable`")
    if found is None:
        raise NotInstalled(
            f"`{preset.executable}` is not on this worker's PATH: run `{preset.install_with}`, or "
            "set `executable` to where it is"
        )
    try:
        return installation_at(Path(found).resolve())
    # Of links in a circle and of a path that is none.
    except (OSError, RuntimeError, ValueError) as error:
        raise NotInstalled(
            f"{found} cannot be looked at ({error}): let this worker's user read it, or install "
            f"it again, `{preset.install_with}`"
        ) from None


def installation_at(path: Path) -> Installation:
    if (path.parent.parent / "pyvenv.cfg").is_file():
        return _in_virtual_environment(path)
    if _NODE.match(_first_bytes(path)):
        return _on_node(path)
    return Installation(path=path, program=(str(path),), read_only=(path,))


def _in_virtual_environment(script: Path) -> Installation:
    prefix = script.parent.parent
    python = prefix / "bin" / "python"
    return Installation(
        path=script,
        # Named, because the first line of a script holds no long path.
        program=(str(python), str(script)),
        read_only=(prefix, *_base_python(prefix, python)),
    )


def _base_python(prefix: Path, python: Path) -> Iterator[Path]:
    """The interpreter, by every name that leads to it, and its library; never all of its prefix,
    which may be somebody's home directory."""
    links = list(_links(python))
    yield from (link for link in links if not link.is_relative_to(prefix))
    homes = {links[-1].parent}
    declared = _HOME.search((prefix / "pyvenv.cfg").read_text(encoding="utf-8", errors="replace"))
    if declared:
        homes |= {Path(declared[1]), Path(declared[1]).resolve()}
    yield from (home.parent / "lib" for home in sorted(homes) if (home.parent / "lib").is_dir())


def _links(path: Path) -> Iterator[Path]:
    """A link, what it points to, and so on to the file itself."""
    for _ in range(40):
        yield path
        if not path.is_symlink():
            break
        path = path.parent / path.readlink()
    yield path.resolve()


def _on_node(script: Path) -> Installation:
    node = shutil.which("node")
    if node is None:
        raise NotInstalled(f"{script} needs Node.js, and no `node` is on this worker's PATH")
    interpreter = Path(node).resolve()
    return Installation(
        path=script,
        program=(str(interpreter), str(script)),
        read_only=(_node_modules(script), interpreter),
    )


def _node_modules(script: Path) -> Path:
    """The outermost, since a package's dependencies stand beside it."""
    around = [parent for parent in script.parents if parent.name == "node_modules"]
    return around[-1] if around else script


def _first_bytes(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(_SHEBANG_BYTES)
    except OSError:
        return b""
