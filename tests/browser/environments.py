"""An environment with a snapshot and a build that failed, of a repository that has no jobs."""

import asyncio
from pathlib import Path

from agentjobs.environments.builds import begin_build, finish_build
from agentjobs.environments.repo_settings import set_definition
from agentjobs.store.opening import open_database
from agentjobs_runtime.environments.definition import EnvironmentDefinition, ServiceDefinition
from agentjobs_runtime.environments.key import EnvironmentRequest
from agentjobs_runtime.environments.records import Finished, NewBuild
from tests.browser.platforms import PLATFORM_REPO

_DEFINITION = EnvironmentDefinition(
    image="registry.example.com/acme/build:12",
    setup="uv sync --frozen && npm ci",
    variables={"DATABASE_URL": "postgresql://app@127.0.0.1/app"},
    services=(ServiceDefinition(name="postgres", image="postgres:17", ready="pg_isready"),),
)
_LOG = "\x1b[32madded 214 packages\x1b[0m in 9s\n[agentjobs] setup of 2f1e9c3a7b55\n"
_RESULTS = (
    Finished(
        key="4f" * 32,
        image_digest=f"sha256:{'9c' * 32}",
        size_bytes=1_288_490_188,
        setup_ms=41_300,
        log=_LOG,
    ),
    Finished(
        error="setup exited with 1\nnpm error code E401\nnpm error Unable to authenticate",
        log=f"{_LOG}npm error code E401\nnpm error Unable to authenticate\n",
    ),
)


def write_environment(data_dir: Path) -> None:
    asyncio.run(_write(data_dir))


async def _write(data_dir: Path) -> None:
    db = await open_database(f"sqlite:///{data_dir / 'agentjobs.db'}", migrate=False)
    repo = await db.fetch_one(
        "SELECT id, organization_id FROM repos WHERE full_name = :name", name=PLATFORM_REPO
    )
    assert repo is not None
    owner = repo["organization_id"]
    await set_definition(db, owner, repo["id"], PLATFORM_REPO, _DEFINITION)
    new = NewBuild(
        organization_id=owner,
        repo_id=repo["id"],
        reason="job",
        branch="main",
        location="0123456789abcdef",
        request=EnvironmentRequest(definition=_DEFINITION),
    )
    for result in _RESULTS:
        await finish_build(db, await begin_build(db, new), result)
    await db.close()
