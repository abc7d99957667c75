"""pnpm's catalogs: shared ranges in pnpm-workspace.yaml and the lock file. Pure."""

import re

from cve_fixer import yaml_text
from cve_fixer.model import CannotFix
from cve_fixer.npm.ranges import allows, raise_range
from cve_fixer.pnpm.project import LOCK, WORKSPACE
from cve_fixer.pnpm.text import replace_block

_PREFIX = "catalog:"


def catalog_of(spec: str) -> str | None:
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
        workspace = _set_range(workspace, catalog, name, new)
    return workspace, replace_block(lock, "catalogs", block)


def _set_range(workspace: str, catalog: str, name: str, spec: str) -> str:
    parts = yaml_text.blocks(workspace, WORKSPACE)
    if catalog == "default" and name in dict(yaml_text.entries(parts.get("catalog", ""))):
        return yaml_text.set_entry(workspace, "catalog", name, spec, name=WORKSPACE)
    shared = parts.get("catalogs", "")
    catalog_block = re.search(
        rf"^([ \t]+){_key(catalog)}:[ \t]*\r?\n(?:\1[ \t]+[^\n]*(?:\n|$)|[ \t]*\r?\n)+",
        shared,
        re.MULTILINE,
    )
    if catalog_block is None:
        raise CannotFix(f"the catalog `{catalog}` does not have one entry per line")
    edited = yaml_text.set_entry_in_block(catalog_block[0], name, spec)
    parts["catalogs"] = shared[: catalog_block.start()] + edited + shared[catalog_block.end() :]
    return "".join(parts.values())


def _lock_entry(catalog: str, name: str) -> re.Pattern[str]:
    return re.compile(
        rf"(?P<start>^  {_key(catalog)}:\n(?:    [^\n]+\n)*?    {_key(name)}:\n      specifier: )"
        r"(?P<spec>[^\n]+)\n      version: [^\n]+",
        re.MULTILINE,
    )


def _key(name: str) -> str:
    return rf"['\"]?{re.escape(name)}['\"]?"
