"""Reads package.json and the patterns of its workspace."""

from agentjobs_dependencies.formats.bounds import limit_requirements
from agentjobs_dependencies.formats.npm.ranges import ECOSYSTEM, requirements
from agentjobs_dependencies.formats.text import parse_json
from agentjobs_dependencies.model import ParsedManifest


def read_package_json(content: bytes) -> ParsedManifest:
    package, warnings = parse_json(content)
    name = package.get("name")
    return ParsedManifest(
        ECOSYSTEM,
        project=name if isinstance(name, str) else "",
        requirements=limit_requirements(requirements(package, warnings), warnings),
        members=workspace_members(package.get("workspaces")),
        warnings=warnings.all(),
    )


def workspace_members(workspaces: object) -> tuple[str, ...]:
    """A list of patterns, or the older form with the list under `packages`."""
    if isinstance(workspaces, dict):
        workspaces = workspaces.get("packages")
    if not isinstance(workspaces, list):
        return ()
    return tuple(pattern for pattern in workspaces if isinstance(pattern, str) and pattern)
