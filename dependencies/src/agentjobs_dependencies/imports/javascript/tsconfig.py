"""Import aliases from `tsconfig.json` and `jsconfig.json`."""

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec

from agentjobs_dependencies.imports.resolver import join, parent_directory

# A substring of the name of every such file.
CONFIG_MARK = "sconfig"
_MAX_BYTES = 1 << 20
_MAX_PATTERNS = 5_000
_MAX_TARGETS = 8
_MAX_EXTENDS = 8
# Strings are matched to be kept.
_STRING = rb"(\"(?>(?:[^\"\\\n]++|\\.)*)\"?)"
_COMMENT = re.compile(_STRING + rb"|//[^\n]*+|/\*(?>(?:[^*]++|\*(?!/))*)(?:\*/)?")
_TRAILING_COMMA = re.compile(_STRING + rb"|,(?=\s*+[\]}])")


class Aliases(NamedTuple):
    """`base` is the directory of bare names; patterns are split at their asterisk."""

    base: str | None
    exact: Mapping[str, tuple[str, ...]]
    prefixed: Mapping[str, tuple[str, tuple[str, ...]]]
    lengths: tuple[int, ...]

    def paths_for(self, name: str) -> list[str]:
        """Candidate paths, those of the most specific pattern first."""
        paths = list(self.exact.get(name, ()))
        for length in self.lengths:
            suffix, targets = self.prefixed.get(name[:length], ("", ()))
            if targets and name.endswith(suffix) and len(name) >= length + len(suffix):
                middle = name[length : len(name) - len(suffix)]
                paths += [target.replace("*", middle, 1) for target in targets]
        if self.base is not None:
            paths.append(join(self.base, name))
        return paths


NO_ALIASES = Aliases(None, {}, {}, ())


def is_config(path: str) -> bool:
    """True if `resolve` needs the content of this file."""
    name = path.rpartition("/")[2]
    return name.startswith(("tsconfig", "jsconfig")) and name.endswith(".json")


def read_aliases(path: str, configs: Mapping[str, bytes]) -> Aliases:
    """The aliases of the configuration, or of one that it extends."""
    base: str | None = None
    for _ in range(_MAX_EXTENDS):
        config = _read(configs.get(path, b""))
        options = _table(config.get("compilerOptions"))
        directory = parent_directory(path)
        base_url = options.get("baseUrl")
        if base is None and isinstance(base_url, str):
            base = join(directory, base_url)
        if isinstance(options.get("paths"), dict):
            return _aliases(base, base if base is not None else directory, options["paths"])
        extended = config.get("extends")
        if isinstance(extended, list) and extended:
            extended = extended[-1]
        if not isinstance(extended, str) or not extended.startswith("."):
            break
        path = join(directory, extended)
        if path not in configs:
            path += ".json"
    return NO_ALIASES._replace(base=base)


def _aliases(base: str | None, directory: str, paths: dict[str, Any]) -> Aliases:
    exact: dict[str, tuple[str, ...]] = {}
    prefixed: dict[str, tuple[str, tuple[str, ...]]] = {}
    for pattern, value in list(paths.items())[:_MAX_PATTERNS]:
        listed = value[:_MAX_TARGETS] if isinstance(value, list) else []
        targets = tuple(join(directory, target) for target in listed if isinstance(target, str))
        prefix, star, suffix = pattern.partition("*")
        if star:
            prefixed[prefix] = (suffix, targets)
        else:
            exact[pattern] = targets
    lengths = sorted({len(prefix) for prefix in prefixed}, reverse=True)
    return Aliases(base, exact, prefixed, tuple(lengths[:100]))


def _read(content: bytes) -> dict[str, Any]:
    if len(content) > _MAX_BYTES:
        return {}
    plain = _COMMENT.sub(rb"\1 ", content.removeprefix(b"\xef\xbb\xbf"))
    try:
        return _table(msgspec.json.decode(_TRAILING_COMMA.sub(rb"\1", plain)))
    except (ValueError, RecursionError):
        return {}


def _table(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
