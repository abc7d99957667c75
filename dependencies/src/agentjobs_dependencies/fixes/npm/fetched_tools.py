"""Package managers that wrote a lock file and are not on the worker: npm installs them.

npm verifies the checksum that the registry states. Their versions are fixed: the last ones that
write each format. Some of them need an edit to run on maintained releases of Node.js.
"""

from functools import cache
from pathlib import Path

from agentjobs_dependencies.fixes import tree
from agentjobs_dependencies.fixes.model import CannotFix
from agentjobs_dependencies.fixes.run_tool import find_tool, run_tool, tools_home

_TIMEOUT_SECONDS = 180


@cache
def fetch_tool(package: str, version: str, script: str, registry: str) -> Path:
    """The path of a script of a published package. Raises CannotFix if npm cannot install it."""
    directory = Path(tools_home()) / f"{package.replace('/', '-')}-{version}"
    directory.mkdir()
    run_tool(
        *("npm", "install", f"{package}@{version}", f"--prefix={directory}"),
        *("--ignore-scripts", "--omit=optional", "--no-save", "--no-package-lock"),
        *("--no-audit", "--no-fund", "--no-update-notifier"),
        *([f"--registry={registry}"] if registry else []),
        directory=directory,
        timeout_seconds=_TIMEOUT_SECONDS,
    )
    return directory / "node_modules" / package / script


def edit_tool(script: Path, old: str, new: str) -> None:
    """Raises CannotFix if the script is not the one that the edit is for."""
    text = tree.read(script)
    if old not in text:
        raise CannotFix(f"{script} is not the release that this agent knows")
    tree.write(script, text.replace(old, new))


def build_argv(script: Path, *options: str) -> list[str]:
    return [*find_tool("node"), *options, str(script)]
