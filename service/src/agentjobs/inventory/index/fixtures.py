"""Determines which manifests are fixtures: files of tests and examples, listed apart."""

from collections.abc import Iterable
from dataclasses import replace

from agentjobs_dependencies.model import Dependency
from agentjobs_runtime.repo_files.patterns import DEFAULT_FIXTURES, fold_path, parse_patterns


def mark_fixtures(
    dependencies: Iterable[Dependency], configuration: bytes | None
) -> tuple[Dependency, ...]:
    """`configuration` is the content of `.agentjobs.toml`; the defaults apply if it is invalid."""
    patterns = parse_patterns(_fixture_patterns(configuration))
    is_fixture: dict[str, bool] = {}
    marked = []
    for package in dependencies:
        path = package.manifest
        if path not in is_fixture:
            names = fold_path(path.encode())
            is_fixture[path] = any(pattern.matches(names) for pattern in patterns)
        marked.append(replace(package, fixture=True) if is_fixture[path] else package)
    return tuple(marked)


def _fixture_patterns(configuration: bytes | None) -> tuple[str, ...]:
    if not configuration or b"fixtures" not in configuration:
        return DEFAULT_FIXTURES
    # Takes as long as all other imports of the index process together.
    from agentjobs_runtime.repo_configuration import (  # noqa: PLC0415 - see above
        ConfigurationError,
        parse_configuration,
    )

    try:
        return parse_configuration(configuration).inventory.fixtures
    except ConfigurationError:
        return DEFAULT_FIXTURES
