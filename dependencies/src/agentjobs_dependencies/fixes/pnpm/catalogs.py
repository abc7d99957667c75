"""pnpm's catalogs: shared ranges in pnpm-workspace.yaml and the lock file. Pure."""

import re

from agentjobs_dependencies.fixes import yaml_text
from agentjobs_dependencies.fixes.model import CannotFix
from agentjobs_dependencies.fixes.pnpm.project import LOCK, WORKSPACE
from agentjobs_dependencies.fixes.pnpm.text import replace_block
from agentjobs_dependencies.versions.npm import allows, raise_range

_PREFIX = "catalog:"


def parse_catalog(spec: str) -> str | None:
    """The catalog of a `catalog:` or `catalog:name` range."""
    return spec.removeprefix(_PREFIX).strip() or "default" if spec.startswith(_PREFIX) else None


def update_catalog(
    workspace: str, lock: str, known: str, catalog: str, name: str, version: str
) -> tuple[str, str]:
    """Update the entry in pnpm-workspace.yaml and the lock file. `known` is a lock file that has
    it, because pnpm drops unused entries."""
    block = yaml_text.blocks(known, LOCK).get("catalogs", "")
    match = _lock_entry(catalog, name).search(block)
    if match is None:
        raise CannotFix(f"the catalog `{catalog}` has no `{name}`")
    spec = yaml_text.unquote(match["spec"])
    new = raise_range(spec, version) if allows(spec, version) is False else spec
    entry = f"{match['start']}{yaml_text.quote(new)}\n      version: {version}"
    block = block[: match.start()] + entry + block[match.end() :]
    if new != spec:
        workspace = set_range_in_catalog(workspace, catalog, name, new, WORKSPACE)
    return workspace, replace_block(lock, "catalogs", block)


def range_in_catalog(text: str, catalog: str, name: str, file: str) -> str | None:
    """The range in pnpm-workspace.yaml or .yarnrc.yml."""
    key, (start, end) = _find_catalog(text, catalog, name, file)
    block = yaml_text.blocks(text, file).get(key, "")
    return yaml_text.entries(block[start:end]).get(name)


def set_range_in_catalog(text: str, catalog: str, name: str, spec: str, file: str) -> str:
    key, (start, end) = _find_catalog(text, catalog, name, file)
    parts = yaml_text.blocks(text, file)
    block = parts[key]
    parts[key] = (
        block[:start] + yaml_text.set_entry_in_block(block[start:end], name, spec) + block[end:]
    )
    return "".join(parts.values())


def _find_catalog(text: str, catalog: str, name: str, file: str) -> tuple[str, tuple[int, int]]:
    """The key of the block that has the catalog, and where in the block it is."""
    parts = yaml_text.blocks(text, file)
    default = parts.get("catalog", "")
    if catalog == "default" and name in yaml_text.entries(default):
        return "catalog", (0, len(default))
    match = re.search(
        rf"^([ \t]+){_key(catalog)}:[ \t]*\r?\n(?:\1[ \t]+[^\n]*(?:\n|$)|[ \t]*\r?\n)+",
        parts.get("catalogs", ""),
        re.MULTILINE,
    )
    if match is None:
        raise CannotFix(f"the catalog `{catalog}` does not have one entry per line")
    return "catalogs", match.span()


def _lock_entry(catalog: str, name: str) -> re.Pattern[str]:
    return re.compile(
        rf"(?P<start>^  {_key(catalog)}:\n(?:    [^\n]+\n)*?    {_key(name)}:\n      specifier: )"
        r"(?P<spec>[^\n]+)\n      version: [^\n]+",
        re.MULTILINE,
    )


def _key(name: str) -> str:
    return rf"['\"]?{re.escape(name)}['\"]?"
