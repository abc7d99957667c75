"""Updates a module with the go command. Changes nothing if it fails."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from agentjobs_dependencies.fixes import tree
from agentjobs_dependencies.fixes.download import download
from agentjobs_dependencies.fixes.go.requirements import (
    add_v,
    is_newer_go,
    read_go_version,
    read_requirements,
)
from agentjobs_dependencies.fixes.markdown import describe_other_changes
from agentjobs_dependencies.fixes.model import CannotFix, Fix, Outcome
from agentjobs_dependencies.fixes.run_tool import run_tool

_CHECKSUM_DATABASE = "sum.golang.org"
_TIMEOUT_SECONDS = 30
_MAX_ANSWER_BYTES = 1024 * 1024


class NeedsNewerGo(CannotFix):
    """The new version of the module would raise the go version of the project."""


def update(fix: Fix, directory: Path) -> Outcome:
    """Update the module and everything that the new version requires, in go.mod and go.sum."""
    manifest = directory / "go.mod"
    before = tree.read(manifest)
    environment = _environment(fix.registry)
    outcome = Outcome(fixed=[fix])

    def go(*arguments: str) -> None:
        run_tool("go", *arguments, directory=directory, environment=environment)

    with _restored_on_failure(manifest, directory / "go.sum"):
        is_tidy = _is_tidy(manifest, go)
        go("get", f"{fix.package}@{add_v(fix.new)}")
        if is_tidy:
            go("mod", "tidy")
        else:
            # Otherwise unrelated requirements would change, or even this one go.
            outcome.unproven += _find_gaps(fix, go)
        after = tree.read(manifest)
        _check_go_version(before, after, fix)
        if (directory / "vendor" / "modules.txt").is_file():
            go("mod", "vendor")
    outcome.changes += describe_other_changes(
        read_requirements(before).items(), read_requirements(after).items(), fix.package
    )
    return outcome


def _is_tidy(manifest: Path, go: Callable[..., None]) -> bool:
    go_sum = manifest.with_name("go.sum")
    before = (_content(manifest), _content(go_sum))
    go("mod", "tidy")
    if (_content(manifest), _content(go_sum)) == before:
        return True
    _restore(dict(zip((manifest, go_sum), before, strict=True)))
    return False


def _find_gaps(fix: Fix, go: Callable[..., None]) -> list[str]:
    """What keeps the packages of the project from being loaded with go.mod as it is."""
    try:
        go("list", "-mod=readonly", "-deps", "./...")
    except CannotFix as error:
        last = str(error).splitlines()[-1]
        return [f"{fix.manifest} was not tidy, and its packages cannot be loaded: {last}"]
    return []


def _check_go_version(before: str, after: str, fix: Fix) -> None:
    if is_newer_go(after, before):
        raise NeedsNewerGo(
            f"{fix.package} {fix.new} needs Go {read_go_version(after)}, and {fix.manifest} says "
            f"go {read_go_version(before)}: raise it first"
        )


@contextmanager
def _restored_on_failure(*paths: Path) -> Iterator[None]:
    contents = {path: _content(path) for path in paths}
    try:
        yield
    except Exception:
        _restore(contents)
        raise


def _content(path: Path) -> bytes | None:
    return path.read_bytes() if path.is_file() else None


def _restore(contents: Mapping[Path, bytes | None]) -> None:
    for path, content in contents.items():
        if content is not None:
            path.write_bytes(content)
        else:
            path.unlink(missing_ok=True)


def _environment(registry: str) -> dict[str, str]:
    """Modules come from the registry only; nothing is downloaded to run it."""
    return {
        "GOPROXY": registry,
        "GOSUMDB": _CHECKSUM_DATABASE if _serves_checksums(registry) else "off",
        # Without -mod, which the go command refuses in a workspace and does not need here.
        "GOFLAGS": "-modcacherw",
        "GOTOOLCHAIN": "local",
        "GOVCS": "*:off",
        "GOTELEMETRY": "off",
        "GO111MODULE": "on",
        "CGO_ENABLED": "0",
    }


@cache
def _serves_checksums(registry: str) -> bool:
    """Whether the registry also serves the checksum database, which the sandbox cannot reach."""
    url = f"{registry.rstrip('/')}/sumdb/{_CHECKSUM_DATABASE}/supported"
    try:
        download(url, _MAX_ANSWER_BYTES, _TIMEOUT_SECONDS)
    except CannotFix:
        return False
    return True
