"""Reads and edits pnpm's `overrides` as text.

Newer releases read pnpm-workspace.yaml, older ones the key `pnpm` of package.json.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from agentjobs_dependencies.fixes import json_text, yaml_text
from agentjobs_dependencies.fixes.npm import package_json
from agentjobs_dependencies.fixes.pnpm.project import TABLES, WORKSPACE
from agentjobs_dependencies.formats.npm.ranges import split_descriptor
from agentjobs_dependencies.versions.npm import allows, raise_range

_MAJOR = re.compile(r"pnpm@\D*(\d+)")


@dataclass(frozen=True, slots=True)
class Settings:
    """The texts of pnpm-workspace.yaml and of the root's package.json."""

    workspace: str
    manifest: str
    reads_workspace: bool = True

    @property
    def overrides(self) -> dict[str, str]:
        """Reads both files; pnpm-workspace.yaml takes precedence."""
        block = yaml_text.blocks(self.workspace, WORKSPACE).get("overrides", "")
        return {**self._in_manifest, **yaml_text.entries(block)}

    def tables(self, overrides: Mapping[str, str]) -> dict[str, Any]:
        """The tables of package.json that affect a resolution, with these overrides."""
        kept = {key: value for key, value in self._pnpm_settings().items() if key in TABLES}
        return {**kept, "overrides": dict(overrides)} if overrides else kept

    @property
    def place(self) -> str:
        return "package.json" if self._prefers_manifest else WORKSPACE

    @property
    def _in_manifest(self) -> dict[str, str]:
        overrides = self._pnpm_settings().get("overrides")
        pairs = overrides.items() if isinstance(overrides, dict) else ()
        return {key: value for key, value in pairs if isinstance(value, str)}

    @property
    def _prefers_manifest(self) -> bool:
        if self._in_manifest or not self.reads_workspace:
            return True
        if "overrides" in yaml_text.blocks(self.workspace, WORKSPACE):
            return False
        version = _MAJOR.match(str(package_json.read(self.manifest).get("packageManager", "")))
        return int(version[1]) < 10 if version else bool(self._pnpm_settings())

    def _pnpm_settings(self) -> dict[str, Any]:
        pnpm_settings = package_json.read(self.manifest).get("pnpm")
        return pnpm_settings if isinstance(pnpm_settings, dict) else {}

    def add_override(self, key: str, version: str) -> "Settings":
        if self._prefers_manifest:
            path = ("pnpm", "overrides", key)
            return replace(self, manifest=json_text.set_value(self.manifest, path, version))
        edited = yaml_text.set_entry(self.workspace, ("overrides", key), version, name=WORKSPACE)
        return replace(self, workspace=edited)


def raise_keeping(overrides: dict[str, str], package: str, old: str, new: str) -> dict[str, str]:
    """The rules that keep the old version, raised so that they allow the new one."""
    return {
        key: raise_range(spec, new)
        for key, spec in overrides.items()
        if _target(key) == package and allows(spec, old) and allows(spec, new) is False
    }


def _target(key: str) -> str:
    name = re.split(r"(?<=[^@\s])>(?=[^=\s])", key)[-1].strip()
    return split_descriptor(name)[0]
