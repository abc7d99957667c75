"""pnpm's `overrides`: where a project keeps them, what they say, and how one is added as text.

Newer releases read pnpm-workspace.yaml, older ones the key `pnpm` of package.json.
"""

import re
from dataclasses import dataclass, replace
from typing import Any

from cve_fixer import json_text, yaml_text
from cve_fixer.npm import package_json
from cve_fixer.npm.ranges import admits, raised
from cve_fixer.pnpm.project import WORKSPACE

_MAJOR = re.compile(r"pnpm@\D*(\d+)")


@dataclass(frozen=True, slots=True)
class Settings:
    """The texts of pnpm-workspace.yaml and of the root's package.json."""

    workspace: str
    manifest: str

    @property
    def overrides(self) -> dict[str, str]:
        """Of both; pnpm-workspace.yaml wins."""
        block = yaml_text.blocks(self.workspace, WORKSPACE).get("overrides", "")
        return {**self._in_manifest, **dict(yaml_text.entries(block))}

    @property
    def place(self) -> str:
        return "package.json" if self._prefers_manifest else WORKSPACE

    @property
    def _in_manifest(self) -> dict[str, str]:
        found = self._own().get("overrides")
        pairs = found.items() if isinstance(found, dict) else ()
        return {key: value for key, value in pairs if isinstance(value, str)}

    @property
    def _prefers_manifest(self) -> bool:
        if self._in_manifest:
            return True
        if "overrides" in yaml_text.blocks(self.workspace, WORKSPACE):
            return False
        named = _MAJOR.match(str(package_json.read(self.manifest).get("packageManager", "")))
        return int(named[1]) < 10 if named else bool(self._own())

    def _own(self) -> dict[str, Any]:
        own = package_json.read(self.manifest).get("pnpm")
        return own if isinstance(own, dict) else {}

    def with_override(self, key: str, version: str) -> "Settings":
        if self._prefers_manifest:
            path = ("pnpm", "overrides", key)
            return replace(self, manifest=json_text.with_value(self.manifest, path, version))
        edited = yaml_text.with_entry(self.workspace, "overrides", key, version, name=WORKSPACE)
        return replace(self, workspace=edited)


def keeping(overrides: dict[str, str], package: str, old: str, new: str) -> dict[str, str]:
    """The rules that hold the old version, as they must be to let the new one in."""
    return {
        key: raised(spec, new)
        for key, spec in overrides.items()
        if _target(key) == package and admits(spec, old) and admits(spec, new) is False
    }


def rules_everywhere(overrides: dict[str, str], package: str) -> bool:
    return package in overrides


def _target(key: str) -> str:
    name = re.split(r"(?<=[^@\s])>(?=[^=\s])", key)[-1].strip()
    at = name.find("@", 1)
    return name if at < 0 else name[:at]
