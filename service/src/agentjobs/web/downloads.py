"""Responses with untrusted files: a browser saves them and neither runs nor interprets them."""

from collections.abc import Mapping

from starlette.responses import Response, StreamingResponse

from agentjobs.jobs.results.artifacts import StoredArtifact, read_artifact
from agentjobs.store.database import Database
from agentjobs_runtime.agents.artifacts import TEXT

_HEADERS: Mapping[str, str] = {
    "X-Content-Type-Options": "nosniff",
    "Content-Security-Policy": "default-src 'none'; sandbox",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "private, no-store",
}


def artifact_download(db: Database, job_id: str, artifact: StoredArtifact) -> Response:
    """Images are downloads too, which does not keep `<img>` from showing them."""
    is_text = artifact.media_type == TEXT
    headers = {
        **_HEADERS,
        "Content-Type": f"{TEXT}; charset=utf-8" if is_text else artifact.media_type,
        "Content-Length": str(artifact.size_bytes),
        # Names have neither quotes nor line feeds.
        "Content-Disposition": f'attachment; filename="{artifact.name}"',
    }
    return StreamingResponse(read_artifact(db, job_id, artifact), headers=headers)
