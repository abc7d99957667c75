"""Reads package.json and the patterns of its workspace."""

import msgspec

from agentjobs.inventory.manifests.bounds import limit_requirements
from agentjobs.inventory.manifests.npm.ranges import ECOSYSTEM, Sections, decode_field, requirements
from agentjobs.inventory.manifests.text import Warnings, parse_json
from agentjobs.inventory.model import ParsedManifest


class _Package(Sections):
    name: msgspec.Raw = msgspec.Raw(b'""')
    workspaces: msgspec.Raw = msgspec.Raw(b"[]")


_PACKAGE = msgspec.json.Decoder(_Package)


def read_package_json(content: bytes) -> ParsedManifest:
    package = parse_json(content, _PACKAGE)
    warnings = Warnings()
    name = decode_field(package.name, "name", warnings)
    return ParsedManifest(
        ECOSYSTEM,
        project=name if isinstance(name, str) else "",
        requirements=limit_requirements(requirements(package, warnings), warnings),
        members=workspace_members(decode_field(package.workspaces, "workspaces", warnings)),
        warnings=warnings.all(),
    )


def workspace_members(workspaces: object) -> tuple[str, ...]:
    """A list of patterns, or the older form with the list under `packages`."""
    if isinstance(workspaces, dict):
        workspaces = workspaces.get("packages")
    if not isinstance(workspaces, list):
        return ()
    return tuple(pattern for pattern in workspaces if isinstance(pattern, str) and pattern)
