"""The bare framework: Starlette routes on uvicorn that parse a job and answer with the same JSON.

No authentication, no store, no log: the upper bound for a service written with these libraries.
"""

import socket

import msgspec
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from agentjobs.jobs.model import CreateJobRequest, JobView, Receipt
from agentjobs_runtime.clock import iso_utc, now_ms
from agentjobs_runtime.identifiers import new_id
from bench.population import JOB

_decode = msgspec.json.Decoder(CreateJobRequest).decode
_encode = msgspec.json.Encoder().encode
_RECEIPT = Receipt(new_id("job"), "queued", 60_000)
_CREATED_AT = iso_utc(now_ms())


async def create(request: Request) -> Response:
    _decode(await request.body())
    return Response(_encode(_RECEIPT), status_code=202, media_type="application/json")


async def show(request: Request) -> Response:
    job = JobView(
        job_id=request.path_params["job_id"],
        status="queued",
        agent=JOB.agent,
        pr_url=None,
        pr_number=None,
        started_at=None,
        completed_at=None,
        repo=JOB.repo,
        ticket_id=JOB.ticket_id,
        created_at=_CREATED_AT,
        attempt=0,
        error=None,
        usage=None,
        queue_reason="no_worker",
    )
    return Response(_encode(job), media_type="application/json")


def main() -> None:
    routes = [
        Route("/v1/jobs/{job_id}", show),
        Route("/v1/jobs", create, methods=["POST"]),
    ]
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        print(f"http://127.0.0.1:{listener.getsockname()[1]}", flush=True)
        config = uvicorn.Config(
            Starlette(routes=routes),
            loop="uvloop",
            http="httptools",
            lifespan="off",
            log_config=None,
            access_log=False,
        )
        uvicorn.Server(config).run(sockets=[listener])


if __name__ == "__main__":
    main()
