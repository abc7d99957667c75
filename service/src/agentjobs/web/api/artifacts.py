"""The files that a job's agent left, as downloads."""

from typing import Annotated

import msgspec
from msgspec import Meta
from starlette.responses import Response

from agentjobs.jobs.results.artifacts import find_artifact, list_artifacts
from agentjobs.web.api.endpoint import Call, Reply
from agentjobs.web.api.jobs import parse_job_id
from agentjobs.web.downloads import artifact_download
from agentjobs_runtime.agents.artifacts import ARTIFACT_NAME
from agentjobs_runtime.clock import iso_utc
from agentjobs_runtime.json_fields import Count, Timestamp, copy_fields, doc

NAME_PATTERN = f"^{ARTIFACT_NAME}$"


class ArtifactView(msgspec.Struct, frozen=True):
    name: Annotated[str, Meta(description="The name of the file.", pattern=NAME_PATTERN)]
    media_type: Annotated[
        str,
        doc(
            "By the content: `image/png`, `image/jpeg`, `image/webp`, `text/plain` for UTF-8, and"
            " `application/octet-stream` for anything else."
        ),
    ]
    size_bytes: Annotated[Count, doc("The size of the file.")]
    created_at: Annotated[Timestamp, doc("When the agent's run ended.")]


class ArtifactList(msgspec.Struct, frozen=True):
    artifacts: Annotated[list[ArtifactView], doc("The files, by name.")]


async def list_all(call: Call) -> Response:
    artifacts = await list_artifacts(
        call.context.db, call.caller.organization_id, parse_job_id(call)
    )
    views = (
        copy_fields(artifact, ArtifactView, created_at=iso_utc(artifact.created_at))
        for artifact in artifacts
    )
    return Reply(200, ArtifactList(list(views)))


async def show(call: Call) -> Response:
    job_id, db = parse_job_id(call), call.context.db
    artifact = await find_artifact(db, call.caller.organization_id, job_id, call.path["name"])
    return artifact_download(db, job_id, artifact)
