"""Environments of repositories as text and as documents."""

from typing import TYPE_CHECKING, Any

from agentjobs_runtime.clock import iso_utc

if TYPE_CHECKING:
    from agentjobs.environments.status import EnvironmentStatus
    from agentjobs_runtime.environments.records import Build

SOURCES = {
    "service": "set in the service, which wins over the repository's files",
    "file": ".agentjobs.toml",
    "devcontainer": "devcontainer.json",
    "none": "none; add [environment] to .agentjobs.toml",
    "unknown": "unknown: the repository's files are not on this machine",
}
COLUMNS = ("build", "state", "key", "worker", "size", "setup", "hits", "last used", "created")


def status_document(status: "EnvironmentStatus") -> dict[str, Any]:
    import msgspec

    effective, current = status.effective, status.current
    return {
        "source": effective.source,
        "commit": effective.commit,
        "error": effective.error or None,
        "definition": msgspec.to_builtins(effective.definition),
        "notes": effective.notes,
        "trusted_branches": effective.settings.trusted_branches,
        "current_build_id": None if current is None else current.id,
        "builds": [build_document(build, status) for build in status.builds],
    }


def build_document(build: "Build", status: "EnvironmentStatus | None" = None) -> dict[str, Any]:
    import msgspec

    times = {
        name: None if (at := getattr(build, name)) is None else iso_utc(at)
        for name in ("created_at", "finished_at", "used_at")
    }
    document = {**msgspec.to_builtins(build), **times, "error": build.error or None}
    if status is not None:
        document["worker"] = status.hosts.get(build.location or "")
        document["is_current"] = status.is_current(build)
    return document


def describe_status(status: "EnvironmentStatus") -> str:
    """The definition as a file would have it, with comments."""
    from agentjobs.repos.environment_text import format_environment
    from agentjobs_runtime.environments.definition import EnvironmentDefinition

    effective, current = status.effective, status.current
    at = f" at {effective.commit[:12]}" if effective.commit and effective.source != "none" else ""
    lines = [f"# defined in: {SOURCES[effective.source]}{at}"]
    if effective.error:
        lines.append(f"# error: {effective.error}")
    lines += [f"# note: {note}" for note in effective.notes]
    if branches := effective.settings.trusted_branches:
        lines.append(f"# trusted branches: {', '.join(branches)}")
    if current is not None and current.image_digest:
        lines.append(f"# digest of the image: {current.image_digest}")
    if effective.definition != EnvironmentDefinition():
        lines.append(format_environment(effective.definition).rstrip("\n"))
    return "\n".join(lines)


def build_row(build: "Build", status: "EnvironmentStatus") -> tuple[Any, ...]:
    is_current = build.state == "ready" and status.is_current(build)
    return (
        build.id,
        f"{build.state} (current)" if is_current else build.state,
        build.key[:12] or None,
        status.hosts.get(build.location or "", build.location),
        format_size(build.size_bytes) if build.state == "ready" else None,
        f"{build.setup_ms / 1_000:.1f} s" if build.setup_ms else None,
        build.hits,
        None if build.used_at is None else iso_utc(build.used_at),
        iso_utc(build.created_at),
    )


def format_size(size_bytes: int) -> str:
    kib = size_bytes / 1024
    return f"{kib / 1024:.1f} MiB" if kib >= 1024 else f"{kib:.1f} KiB"
