"""Environments as both sides know them: builds, holds of the jobs that wait, what a job ran in."""

from typing import Annotated, Literal

import msgspec

from agentjobs_runtime.environments.key import CacheFile, EnvironmentRequest
from agentjobs_runtime.json_fields import doc

MAX_LOG_CHARACTERS = 256 * 1024
# Outlasts several renewals, so that a worker that dies delays a job by half a minute.
BUILD_HOLD_MS = 30_000
# How long others leave a job to a worker that has its environment.
PREFERENCE_MS = 5_000
# While a registry does not respond.
OUTAGE_HOLD_MS = 60_000

State = Literal["queued", "building", "ready", "failed", "removed"]
Reason = Literal["job", "push", "image", "request"]


def hold_key(repo_id: str, request_key: str) -> str:
    return f"{repo_id}:{request_key}"


class Build(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    organization_id: str
    repo_id: str
    state: State
    reason: Reason
    location: str | None
    branch: str
    commit: str
    request_key: str
    key: str
    files: tuple[CacheFile, ...]
    image: str
    image_digest: str
    size_bytes: int
    setup_ms: int
    hits: int
    error: str
    created_at: int
    finished_at: int | None
    used_at: int | None


class NewBuild(msgspec.Struct, frozen=True, kw_only=True):
    """`location` None: any worker may build it."""

    organization_id: str
    repo_id: str
    reason: Reason
    branch: str
    commit: str = ""
    location: str | None = None
    request: EnvironmentRequest | None = None


class Finished(msgspec.Struct, frozen=True, kw_only=True):
    """`error` is empty if the build is ready."""

    key: str = ""
    image_digest: str = ""
    size_bytes: int = 0
    setup_ms: int = 0
    error: str = ""
    log: str = ""


class EnvironmentView(msgspec.Struct, frozen=True, kw_only=True):
    build_id: Annotated[str | None, doc("The build of the snapshot; null if none was used.")]
    image: Annotated[str | None, doc("The image, as the repository names it.")]
    image_digest: Annotated[str | None, doc("The digest of the image's manifest.")]
    key: Annotated[str | None, doc("Identifies the snapshot's content.")]
    prepared_ms: Annotated[int, doc("How long the job's start took for it, in milliseconds.")]
