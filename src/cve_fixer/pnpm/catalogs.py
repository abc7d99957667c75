"""pnpm's catalogs: ranges that projects share, in pnpm-workspace.yaml and the lock file. Pure."""

import re

from cve_fixer import yaml_text
from cve_fixer.model import CannotFix
from cve_fixer.npm.ranges import admits, raised
from cve_fixer.pnpm.project import LOCK, WORKSPACE
from cve_fixer.pnpm.text import with_block

_PREFIX = "catalog:"


def catalog_of(spec: str) -> str | None:
    """The catalog that a project's `catalog:` or `catalog:name` means."""
    return spec.removeprefix(_PREFIX).strip() or "default" if spec.startswith(_PREFIX) else None


def with_catalog(
    workspace: str, lock: str, known: str, catalog: str, name: str, version: str
) -> tuple[str, str]:
    """pnpm-workspace.yaml and the lock file with the entry moved; `known` is the lock file that
    had it, for pnpm drops what nobody asks for."""
    block = yaml_text.blocks(known, LOCK).get("catalogs", "")
    found = _locked(catalog, name).search(block)
    if found is None:
        raise CannotFix(f"the catalog `{catalog}` has no `{name}`")
    spec = yaml_text.unquoted(found["spec"])
    new = raised(spec, version) if admits(spec, version) is False else spec
    entry = f"{found['start']}{yaml_text.quoted(new)}\n      version: {version}"
    block = block[: found.start()] + entry + block[found.end() :]
    if new != spec:
        workspace = _with_range(workspace, catalog, name, new)
    return workspace, with_block(lock, "catalogs", block)


def _with_range(workspace: str, catalog: str, name: str, spec: str) -> str:
    parts = yaml_text.blocks(workspace, WORKSPACE)
    if catalog == "default" and name in dict(yaml_text.entries(parts.get("catalog", ""))):
        return yaml_text.with_entry(workspace, "catalog", name, spec, name=WORKSPACE)
    shared = parts.get("catalogs", "")
    own = re.search(
        rf"^([ \t]+){_key(catalog)}:[ \t]*\r?\n(?:\1[ \t]+[^\n]*(?:\n|$)|[ \t]*\r?\n)+",
        shared,
        re.MULTILINE,
    )
    if own is None:
        raise CannotFix(f"the catalog `{catalog}` is not written one entry to a line")
    edited = yaml_text.with_entry_in(own[0], name, spec)
    parts["catalogs"] = shared[: own.start()] + edited + shared[own.end() :]
    return "".join(parts.values())


def _locked(catalog: str, name: str) -> re.Pattern[str]:
    return re.compile(
        rf"(?P<start>^  {_key(catalog)}:\n(?:    [^\n]+\n)*?    {_key(name)}:\n      specifier: )"
        r"(?P<spec>[^\n]+)\n      version: [^\n]+",
        re.MULTILINE,
    )


def _key(name: str) -> str:
    return rf"['\"]?{re.escape(name)}['\"]?"
