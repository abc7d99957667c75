"""Sample data of an organization: jobs, pull requests, a webhook with deliveries, and so on."""

from dataclasses import dataclass
from shutil import copytree

import msgspec

from agentjobs.environments.builds import begin_build, finish_build
from agentjobs.environments.repo_settings import set_definition
from agentjobs.environments.secret_definition import SecretDefinition
from agentjobs.environments.secrets import set_environment_secret
from agentjobs.local_git.repositories import path as git_path
from agentjobs.organizations.api_keys import list_keys
from agentjobs.organizations.audit import Actor, acting_as
from agentjobs.organizations.authentication import Caller
from agentjobs.organizations.invitations import invite
from agentjobs.organizations.sealing import SealingKeys
from agentjobs.organizations.secrets import set_secret
from agentjobs.platforms.protocol import PullRequestRequest, RepoAddress
from agentjobs.pulls.comments import CodePlace, add_comment
from agentjobs.pulls.local_platform import LocalPlatform
from agentjobs.webhooks.allowed_addresses import load_allow_list
from agentjobs.webhooks.registration import add_endpoint
from agentjobs_runtime.clock import now_ms
from agentjobs_runtime.environments.definition import EnvironmentDefinition
from agentjobs_runtime.environments.key import EnvironmentRequest
from agentjobs_runtime.environments.records import Finished, NewBuild
from agentjobs_runtime.identifiers import new_id
from service.tests.unit.web.dashboard.index_data import ADVISORY, MODULE, insert_index
from service.tests.unit.web.dashboard.job_data import PUBLIC_URL, insert_jobs
from service.tests.unit.web.dashboard.platform_data import insert_platform
from service.tests.unit.web.dashboard.repository import Repository, TextMaker
from tests.support.jobs import JobHarness
from tests.support.local_repository import CREDENTIAL, holds_credential
from tests.support.repo_rows import write_repos
from tests.support.users import write

OPEN, DRAFT, CONFLICTING = 1, 2, 3
SECRET = "ANTHROPIC_API_KEY"


WORKER = "wrk_a"


@dataclass(frozen=True)
class SampleIds:
    """The IDs of an organization's resources, by the names of URL parameters."""

    organization: str
    repo: str
    finished_job: str
    queued_job: str
    running_job: str
    failed_job: str
    endpoint: str
    delivery: str
    key: str
    member: str
    invitation: str
    failed_import: str
    connection: str
    tracker: str
    finding: str
    base: str
    head: str
    invitation_token: str = ""
    organization_id: str = ""
    repo_id: str = ""
    # A session of `member`.
    session: str = ""
    # Shared by all organizations.
    advisory: str = ADVISORY
    worker: str = WORKER
    module: str = ""

    def names(self) -> list[str]:
        """Every text that identifies these resources, longest first."""
        shared = {self.base, self.head, self.advisory, self.module, self.worker}
        ids = [value for value in vars(self).values() if value and value not in shared]
        return sorted(ids, key=len, reverse=True)


async def create_samples(
    harness: JobHarness,
    caller: Caller,
    repository: Repository,
    keys: SealingKeys,
    member: str,
    make_text: TextMaker,
) -> SampleIds:
    db, settings, name = harness.db, harness.context.settings, caller.organization
    allowed = await load_allow_list(db, settings)
    created = await add_endpoint(
        db, keys, name, f"https://192.0.2.10/{name}", description="", events=[], allowed=allowed
    )
    endpoint = created.endpoint.id
    await write(
        db,
        "UPDATE webhook_endpoints SET description = :text WHERE id = :id",
        id=endpoint,
        text=make_text("the build server"),
    )
    repo_id = await _repository(harness, caller, repository, make_text)
    jobs = await insert_jobs(harness, caller, repository, make_text)
    finding = await insert_index(harness, caller, repo_id, jobs["failed_job"], make_text)
    await _pulls(harness, caller, repo_id, repository, make_text)
    await set_secret(db, keys, name, SECRET, "sk-a-secret-value")
    definition = EnvironmentDefinition(setup=make_text("make"), variables={"A": make_text("1")})
    await set_definition(db, caller.organization_id, repo_id, f"{name}/shop", definition)
    await _builds(harness, caller, repo_id, definition, make_text)
    npm = SecretDefinition(name="NPM_TOKEN", purpose="setup", repo_id=repo_id)
    await set_environment_secret(db, keys, caller.organization_id, npm, "npm-a-secret-value")
    key = (await list_keys(db, name))[0].id
    await write(db, "UPDATE api_keys SET name = :text WHERE id = :id", id=key, text=make_text("CI"))
    with acting_as(Actor("operator", make_text("Ada"))):
        invitation, token = await invite(
            db, caller.organization_id, f"new@{name}.example", "member"
        )
    return SampleIds(
        organization=name,
        organization_id=caller.organization_id,
        repo=f"{name}/shop",
        repo_id=repo_id,
        **jobs,
        endpoint=endpoint,
        delivery=await _delivery(harness, endpoint, jobs["finished_job"], make_text),
        key=key,
        member=member,
        invitation=invitation.id,
        finding=finding,
        base=repository.commits["first"],
        head=repository.commits["open"],
        invitation_token=token,
        module=make_text(MODULE),
        failed_import=await _failed_import(harness, caller, make_text),
        **await insert_platform(harness, caller, keys, make_text),
    )


async def _repository(
    harness: JobHarness, caller: Caller, repository: Repository, make_text: TextMaker
) -> str:
    row = await harness.db.fetch_one(
        "SELECT id FROM repos WHERE full_name = :name", name=f"{caller.organization}/shop"
    )
    assert row is not None
    copytree(repository.git_dir, git_path(harness.context.settings.repositories_path, row["id"]))
    await write_repos(
        harness.db,
        "head_commit = :head, index_error = :error, lifted_paths = :lifted",
        "r.id = :id",
        id=row["id"],
        head=repository.commits["main"],
        error=make_text("the disk is full"),
        lifted=msgspec.json.encode([make_text("CODEOWNERS")]).decode(),
    )
    repo_id: str = row["id"]
    return repo_id


async def _pulls(
    harness: JobHarness, caller: Caller, repo_id: str, repository: Repository, make_text: TextMaker
) -> None:
    name = caller.organization
    adapter = LocalPlatform(harness.db, PUBLIC_URL, PUBLIC_URL, holds_credential)
    address = RepoAddress(name, f"{name}/shop", repo_id)
    for branch in ("open", "draft", "conflicting"):
        request = PullRequestRequest(
            head_branch=repository.branches[branch],
            base_branch="main",
            head_commit=repository.commits[branch],
            base_commit=repository.commits["first"],
            title=make_text("Fix the price"),
            body=f"{make_text('It was wrong.')}\n\n```py\n{make_text('x = 1')}\n```\n",
            draft=branch == "draft",
        )
        await adapter.open_pull_request(address, CREDENTIAL, request)
    await add_comment(harness.db, name, f"{name}/shop", OPEN, make_text("Well done"))
    place = CodePlace(
        "src/shop.py", "right", 1, repository.commits["open"], make_text("+PRICE = 3")
    )
    await add_comment(harness.db, name, f"{name}/shop", OPEN, make_text("Why three?"), place=place)


async def _builds(
    harness: JobHarness,
    caller: Caller,
    repo_id: str,
    definition: EnvironmentDefinition,
    make_text: TextMaker,
) -> None:
    """A snapshot and a build that failed."""
    image = msgspec.structs.replace(definition, image=make_text("python:3.12"))
    log = f"{make_text('installing')}\n"
    new = NewBuild(
        organization_id=caller.organization_id,
        repo_id=repo_id,
        reason="job",
        branch="main",
        location="0123456789abcdef",
        request=EnvironmentRequest(definition=image),
    )
    ready = Finished(key="a" * 64, image_digest=f"sha256:{'b' * 64}", size_bytes=2**30, log=log)
    await finish_build(harness.db, await begin_build(harness.db, new), ready)
    failed = Finished(error=f"{make_text('setup failed')}\n{make_text('no such package')}", log=log)
    await finish_build(harness.db, await begin_build(harness.db, new), failed)


async def _delivery(harness: JobHarness, endpoint: str, job: str, make_text: TextMaker) -> str:
    row = await harness.db.fetch_one(
        "SELECT id FROM deliveries WHERE endpoint_id = :endpoint AND job_id = :job",
        endpoint=endpoint,
        job=job,
    )
    assert row is not None
    await write(
        harness.db,
        "UPDATE deliveries SET status = 'failed', attempts = 1 WHERE id = :id",
        id=row["id"],
    )
    headers = msgspec.json.encode([(make_text("Server"), make_text("nginx"))]).decode()
    await write(
        harness.db,
        "INSERT INTO delivery_attempts (delivery_id, id, at, duration_ms, status_code,"
        " error_class, error, address, request_headers, response_headers, response_body)"
        " VALUES (:delivery, :id, :at, 12, 500, 'http_status', :error, '192.0.2.10', '[]',"
        " :headers, :body)",
        delivery=row["id"],
        id=new_id("att"),
        at=now_ms(),
        error=make_text("answered 500"),
        headers=headers,
        body=make_text("no thanks").encode() + b"\xff\x00",
    )
    delivery: str = row["id"]
    return delivery


async def _failed_import(harness: JobHarness, caller: Caller, make_text: TextMaker) -> str:
    row = {
        "id": new_id("imp"),
        "organization_id": caller.organization_id,
        "full_name": f"{caller.organization}/elsewhere",
        "source": make_text("https://git.example/elsewhere"),
        "message": make_text("fatal: not found"),
        "who": make_text("Ada"),
        "now": now_ms(),
    }
    await write(
        harness.db,
        "INSERT INTO repo_imports (id, organization_id, full_name, source, state, message,"
        " started_by, created_at, updated_at) VALUES (:id, :organization_id, :full_name, :source,"
        " 'failed', :message, :who, :now, :now)",
        **row,
    )
    import_id: str = row["id"]
    return import_id


async def insert_worker(harness: JobHarness, make_text: TextMaker) -> None:
    await write(
        harness.db,
        "INSERT INTO workers (id, hostname, agents, slots, started_at, heartbeat_at, unready,"
        " location) VALUES (:id, :host, :agents, 2, :now, :later, :unready,"
        " '0123456789abcdef')",
        id=WORKER,
        host=make_text("build-1"),
        agents='["fixer"]',
        now=now_ms(),
        # The heartbeat stays current for the whole test run.
        later=now_ms() + 3_600_000,
        unready=msgspec.json.encode({"pro-fixer": make_text("bwrap is missing")}).decode(),
    )
