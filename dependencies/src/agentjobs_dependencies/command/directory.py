"""Reads the dependencies of a directory and their known vulnerabilities."""

import os
import subprocess
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path

from agentjobs_dependencies.advisories.dependency_matching import match_dependencies
from agentjobs_dependencies.advisories.model import Advisory, BadAdvisory, parse_advisory
from agentjobs_dependencies.advisories.sources.locations import open_location
from agentjobs_dependencies.advisories.sources.source import FeedWarning, Record, SourceNotFound
from agentjobs_dependencies.fix_plan import Exposure
from agentjobs_dependencies.imports.imported import mark_imported
from agentjobs_dependencies.index.analysis import (
    MAX_MANIFEST_BYTES,
    MAX_SOURCE_BYTES,
    BlobAnalysis,
    FileKind,
    analyze,
    classify,
)
from agentjobs_dependencies.index.assembly import (
    collect_external_names,
    collect_warnings,
    combine_dependencies,
)
from agentjobs_dependencies.index.commit_index import CommitIndex
from agentjobs_dependencies.installed_together import (
    find_installed_together,
    is_install_file,
    is_requirements_file,
)
from agentjobs_dependencies.model import Dependency, IndexWarning

_LIST = ("ls-files", "-z", "--cached", "--others", "--exclude-standard")
_SKIPPED = frozenset({".git", ".venv", "node_modules"})


def read_exposure(root: Path, source: Path | None) -> Exposure:
    """`source` has advisories; without it, nothing is known to be vulnerable."""
    files = {path.decode("utf-8", "backslashreplace"): path for path in _list_files(root)}
    index = CommitIndex(file_count=len(files))
    for name, path in files.items():
        kind = classify(path, name)
        index.add_file(name, kind, _analyze(kind, root / os.fsdecode(path)))
    index.resolve_imports(files)
    combined = combine_dependencies(index)
    dependencies = mark_imported(
        combined.dependencies, index.manifests, collect_external_names(index)
    )
    warnings = list(collect_warnings(index, combined.warnings))
    advisories = _load(source, dependencies, warnings).values() if source else ()
    return Exposure(
        dependencies,
        tuple(advisories),
        tuple(match_dependencies(dependencies, tuple(advisories))),
        tuple(warnings),
        find_installed_together(index.manifests, _install_texts(root, files), files),
    )


def _list_files(root: Path) -> list[bytes]:
    """All regular files that git would not ignore, or all files outside of a repository."""
    try:
        # The repository's setting may name a program, which git would run.
        command = ("git", "-c", "core.fsmonitor=false", "-C", str(root), *_LIST)
        paths = subprocess.run(command, check=True, capture_output=True).stdout.split(b"\0")
    except (OSError, subprocess.CalledProcessError):
        relative = (path.relative_to(root) for path in root.rglob("*"))
        paths = [os.fsencode(path) for path in relative if _SKIPPED.isdisjoint(path.parts)]
    names = ((path, root / os.fsdecode(path)) for path in sorted(set(paths)) if path)
    return [path for path, file in names if file.is_file() and not file.is_symlink()]


def _analyze(kind: FileKind, path: Path) -> BlobAnalysis:
    if kind.task == "lines":
        return BlobAnalysis(0)
    limit = MAX_MANIFEST_BYTES if kind.task == "manifest" else MAX_SOURCE_BYTES
    with path.open("rb") as file:
        content = file.read(limit + 1)
    if len(content) > limit:
        return BlobAnalysis(0, warning=f"is larger than {limit >> 20} MiB: not read")
    return analyze(kind, content)


def _install_texts(root: Path, files: Mapping[str, bytes]) -> dict[str, str]:
    return {
        name: (root / os.fsdecode(path)).read_text("utf-8", "replace")
        for name, path in files.items()
        if is_install_file(name) or is_requirements_file(name)
    }


def _load(
    source: Path, dependencies: Iterable[Dependency], warnings: list[IndexWarning]
) -> dict[str, Advisory]:
    """The advisories about these packages; what cannot be read becomes a warning."""
    packages = {(dependency.ecosystem, dependency.name) for dependency in dependencies}
    advisories: dict[str, Advisory] = {}
    with tempfile.TemporaryDirectory() as work_dir:
        location = open_location(source, Path(work_dir))
        for ecosystem in sorted({ecosystem for ecosystem, _ in packages}):
            try:
                location.revision(ecosystem)
            except SourceNotFound as error:
                warnings.append(IndexWarning("", str(error)))
                continue
            for item in location.items(ecosystem)[1]:
                try:
                    record = parse_advisory(item.content) if isinstance(item, Record) else None
                except BadAdvisory as error:
                    warnings.append(IndexWarning(item.path, str(error)))
                    continue
                affected = record.affected if record else ()
                if record and any(
                    (package.ecosystem, package.name) in packages for package in affected
                ):
                    advisories[record.id] = record
                elif isinstance(item, FeedWarning):
                    warnings.append(IndexWarning(item.path, item.reason))
        location.close()
    return advisories
