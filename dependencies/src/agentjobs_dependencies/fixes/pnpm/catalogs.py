"""pnpm's catalogs: shared ranges in pnpm-workspace.yaml and the lock file. Pure."""

from typing import Any

from agentjobs_dependencies.fixes import yaml_text
from agentjobs_dependencies.fixes.model import CannotFix
from agentjobs_dependencies.fixes.pnpm.project import LOCK, WORKSPACE
from agentjobs_dependencies.fixes.pnpm.text import replace_block
from agentjobs_dependencies.formats.text import table_at
from agentjobs_dependencies.formats.yaml_lines import read_yaml
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
    path = ("catalogs", catalog, name)
    entry = _find(block, path)
    spec = entry.get("specifier") if isinstance(entry, dict) else None
    if not isinstance(spec, str):
        raise CannotFix(f"the catalog `{catalog}` has no `{name}`")
    new = raise_range(spec, version) if allows(spec, version) is False else spec
    for key, value in (("specifier", new), ("version", version)):
        block = yaml_text.set_entry(block, (*path, key), value, name=LOCK)
    if new != spec:
        workspace = set_range_in_catalog(workspace, catalog, name, new, WORKSPACE)
    return workspace, replace_block(lock, "catalogs", block)


def range_in_catalog(text: str, catalog: str, name: str, file: str) -> str | None:
    """The range in pnpm-workspace.yaml or .yarnrc.yml."""
    path = _find_path(text, catalog, name, file)
    spec = _find(yaml_text.blocks(text, file).get(path[0], ""), path)
    return spec if isinstance(spec, str) else None


def set_range_in_catalog(text: str, catalog: str, name: str, spec: str, file: str) -> str:
    return yaml_text.set_entry(text, _find_path(text, catalog, name, file), spec, name=file)


def _find_path(text: str, catalog: str, name: str, file: str) -> tuple[str, ...]:
    default = yaml_text.blocks(text, file).get("catalog", "")
    is_default = catalog == "default" and name in yaml_text.entries(default)
    return ("catalog", name) if is_default else ("catalogs", catalog, name)


def _find(text: str, path: tuple[str, ...]) -> Any:
    table = read_yaml(text)
    for key in path[:-1]:
        table = table_at(table, key)
    return table.get(path[-1])
