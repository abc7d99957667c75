"""Failures between a running service and a platform: at most one pull request, and a message that
says what to do."""

import json
import zipfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.connected_service import ConnectedService, open_connected_service
from tests.support.forge_servers import faults
from tests.support.forge_servers.faults import Fault
from tests.support.forge_servers.github import GitHubServer
from tests.support.service import wait_until

_GITEA_MERGES = "POST /repos/{owner}/{repo}/pulls/{index}/merge"
TOKENS = "POST /app/installations/{installation_id}/access_tokens"


@pytest.fixture(scope="module")
def connected(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConnectedService]:
    kinds = ("github-app", "gitlab")
    with open_connected_service(tmp_path_factory.mktemp("trouble"), kinds) as opened:
        yield opened


@pytest.fixture(scope="module")
def polling(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConnectedService]:
    """A service that polls its platforms every second and has short leases."""
    settings = {
        "AGENTJOBS_FORGE_POLL_SECONDS": "1",
        "AGENTJOBS_LEASE_SECONDS": "3",
        "AGENTJOBS_LEASE_RENEW_SECONDS": "0.5",
    }
    with open_connected_service(
        tmp_path_factory.mktemp("polling"), ("gitlab", "gitea"), **settings
    ) as opened:
        yield opened


def test_an_app_works_with_expiring_tokens_and_names_missing_permissions(
    connected: ConnectedService, monkeypatch: pytest.MonkeyPatch
) -> None:
    platform = connected.platforms["github-app"]
    server = platform.server
    assert isinstance(server, GitHubServer)
    app = server.app
    # Tokens expire before the agent finishes.
    monkeypatch.setattr(app, "token_seconds", 3)
    clock = server.add_repository("acme/clock", {"app.py": "x = 1\n"}, roles=platform.shop.roles)
    connected.service.admin("forges", "connect", "github", "acme/clock")
    connected.api.wait_ready("acme/clock")
    token_count = len(app.tokens)
    job_id = connected.api.create("acme/clock", "thoughtful")
    wait_until(lambda: "thinking" in connected.api.log(job_id), "the agent to think")
    (before, *_) = list(app.tokens.values())[token_count:]
    # The repository is renamed during the run.
    platform.rename(clock, "acme/watch")
    job = connected.wait_completed(job_id)
    assert before.expires_at < server.clock()
    branch = f"agentjobs/thoughtful/{job_id[-12:]}"
    assert [pull.number for pull in platform.pulls_of(branch, clock)] == [job["pr_number"]]
    platform.tell("repository", repository=clock)
    wait_until(lambda: connected.repo("acme/watch"), "the new name")

    del app.permissions["pull_requests"]
    count_before = platform.request_count()
    code, message = connected.wait_failed(connected.api.create("acme/watch", "edit"))
    assert code == "forge_error"
    assert "“Pull requests: read and write”" in message
    # The result of the job before may be reported meanwhile, and the connection is checked.
    assert platform.request_count() - count_before <= 20
    app.permissions["pull_requests"] = "write"

    platform.delete(clock)
    platform.tell("repository", repository=clock)

    message = "acme/watch no longer exists on its platform"
    wait_until(
        lambda: message in sync_error_of(connected, "acme/watch"), "the error of the repository"
    )


def test_a_name_that_now_belongs_to_another_repository_is_not_used(
    connected: ConnectedService,
) -> None:
    platform = connected.platforms["gitlab"]
    name = platform.shop.full_name
    platform.rename(platform.shop, f"{name}-of-old")
    other = platform.server.add_repository(name, {"app.py": "x = 1\n"}, roles=platform.shop.roles)
    job = connected.wait_completed(connected.api.create(name, "edit"))
    assert platform.pull(job["pr_number"]).state == "open"
    assert platform.server.git.head(other, f"agentjobs/edit/{job['job_id'][-12:]}") is None
    assert not other.pulls
    platform.delete(other)
    platform.rename(platform.shop, name)


def test_an_apps_token_that_was_revoked_early_is_replaced(
    connected: ConnectedService,
) -> None:
    platform = connected.platforms["github-app"]
    assert isinstance(platform.server, GitHubServer)
    connected.wait_completed(connected.start(platform))
    platform.server.app.tokens.clear()
    connected.wait_completed(connected.start(platform))


def test_a_platform_that_refuses_is_quoted_and_not_asked_again(connected: ConnectedService) -> None:
    platform = connected.platforms["gitlab"]
    pulls_before = set(platform.shop.pulls)
    platform.forbid_our_branches()
    code, message = connected.wait_failed(connected.start(platform))
    assert code == "push_rejected"
    assert "GH013: a rule protects refs/heads/agentjobs/edit/" in message
    platform.forbid_our_branches(forbidden=False)

    creates = len(platform.server.calls_of(platform.creates))
    fault = platform.order(Fault(status=422, message="No commits", on=platform.creates, times=5))
    code, message = connected.wait_failed(connected.start(platform))
    assert (code, "No commits" in message) == ("forge_error", True)
    # The contract server does not record requests that a fault answered. GitLab is asked once more,
    # without labels and reviewers.
    assert (fault.times, len(platform.server.calls_of(platform.creates))) == (3, creates)
    platform.clear_faults()
    assert set(platform.shop.pulls) == pulls_before
    # The platform fails again and recovers.
    platform.order(faults.web_page(502, on=platform.creates))
    platform.order(faults.cut(on=platform.creates, after=True))
    job = connected.wait_completed(connected.start(platform))
    assert set(platform.shop.pulls) - pulls_before == {job["pr_number"]}


def test_finished_work_waits_for_a_platform_that_is_away(connected: ConnectedService) -> None:
    platform = connected.platforms["gitlab"]
    pulls_before = set(platform.shop.pulls)
    platform.order(faults.web_page(502, on=platform.creates, times=None))
    job_id = connected.start(platform)
    wait_until(
        lambda: connected.api.job(job_id)["queue_reason"] == "platform_unreachable",
        "the job to wait for its platform",
    )
    assert connected.api.job(job_id)["status"] == "running"
    platform.clear_faults()
    job = connected.wait_completed(job_id)
    assert job["attempt"] == 1
    assert connected.api.events(job_id).count("job.started") == 1
    assert set(platform.shop.pulls) - pulls_before == {job["pr_number"]}


@pytest.mark.parametrize("kind", ["github-app", "gitlab"])
def test_finished_work_waits_until_a_person_has_repaired_the_connection(
    connected: ConnectedService, kind: str
) -> None:
    """A permission is lost, or a proxy answers instead of the platform, while the agent works."""
    platform = connected.platforms[kind]
    pulls_before = set(platform.shop.pulls)
    troubles = (
        ("403 Forbidden", faults.forbidden("403 Forbidden", on=platform.creates, times=5)),
        ("returned a web page", faults.web_page(200, on=platform.creates, times=5)),
        ("the push was not allowed", faults.forbidden("No.", on="git-receive-pack", times=5)),
    )
    for reason, fault in troubles:
        platform.order(fault)
        job_id = connected.start(platform)
        wait_until(
            lambda job_id=job_id: connected.api.job(job_id)["queue_reason"] == "platform_refused",
            "the job to wait",
        )
        job = connected.api.job(job_id)
        assert job["status"] == "running"
        (warning,) = job["warnings"]
        assert reason in warning
        # Asked once for the work, and not again before somebody can have acted.
        assert fault.times == 4
        platform.clear_faults()
        connected.service.admin("forges", "check", platform.platform)
        job = connected.wait_completed(job_id)
        assert job["attempt"] == 1
        assert connected.api.events(job_id).count("job.started") == 1
        new = set(platform.shop.pulls) - pulls_before
        assert new == {job["pr_number"]}
        pulls_before |= new


def test_a_revoked_token_is_reported_and_can_be_replaced(connected: ConnectedService) -> None:
    platform = connected.platforms["gitlab"]
    platform.server.token = "another-one"
    code, message = connected.wait_failed(connected.start(platform))
    assert code == "forge_error"
    assert "does not accept the credential" in message
    wait_until(lambda: connection(connected, "gitlab")["error"], "the error of the connection")
    assert "does not accept the credential" in connection(connected, "gitlab")["error"]
    rotated = connected.service.try_admin("forges", "rotate-token", "gitlab", typed="a-wrong-one")
    assert rotated.returncode != 0
    assert "does not accept the credential" in rotated.stderr
    connected.service.admin("forges", "rotate-token", "gitlab", typed=platform.server.token)
    assert connection(connected, "gitlab")["error"] is None
    connected.wait_completed(connected.start(platform))


def test_without_a_hook_a_push_is_found_by_polling(polling: ConnectedService) -> None:
    platform = polling.platforms["gitea"]
    draft = polling.wait_completed(polling.start(platform, config_override={"draft": True}))
    commit = platform.push({"app.py": "x = 2\n"})
    platform.mark_ready(draft["pr_number"])
    polling.wait_indexed(platform.shop.full_name, commit)
    wait_until(
        lambda: "pr.review_requested" in polling.api.events(draft["job_id"]), "the review requested"
    )


def test_a_service_killed_while_opening_opens_one_pull_request(
    polling: ConnectedService,
) -> None:
    """On one platform before the pull request is opened, on the other before the response."""
    stuck = {
        "gitlab": polling.platforms["gitlab"].order(
            faults.slow(on=polling.platforms["gitlab"].creates)
        ),
        "gitea": polling.platforms["gitea"].order(
            faults.slow(on=polling.platforms["gitea"].creates, after=True)
        ),
    }
    jobs = {kind: polling.start(polling.platforms[kind]) for kind in stuck}
    branches = {kind: f"agentjobs/edit/{job_id[-12:]}" for kind, job_id in jobs.items()}
    gitlab, gitea = polling.platforms["gitlab"], polling.platforms["gitea"]
    wait_until(lambda: all(fault.times == 0 for fault in stuck.values()), "both to be stuck")
    wait_until(
        lambda: gitea.pulls_of(branches["gitea"]), "the pull request whose response was lost"
    )
    assert not gitlab.pulls_of(branches["gitlab"])
    polling.service.kill()
    polling.restart()
    for kind, job_id in jobs.items():
        job = polling.wait_completed(job_id)
        assert job["attempt"] == 1
        assert "adopted" in polling.api.log(job_id)
        pulls = polling.platforms[kind].pulls_of(branches[kind])
        assert [pull.number for pull in pulls] == [job["pr_number"]]


def test_a_merge_is_known_and_audited_although_the_service_was_killed(
    polling: ConnectedService, tmp_path: Path
) -> None:
    platform = polling.platforms["gitea"]
    job = polling.wait_completed(polling.start(platform))
    key = polling.service.key("--pulls", "--name", "merger")
    merger = polling.service.client(key)
    (pull,) = merger.http.get("/pulls", params={"job_id": job["job_id"]}).json()["pulls"]
    stuck = platform.order(faults.slow(on=_GITEA_MERGES, after=True))
    with ThreadPoolExecutor(1) as pool:
        merging = pool.submit(merger.http.post, f"/pulls/{pull['id']}/merge")
        wait_until(lambda: stuck.times == 0, "the merge to be stuck")
        wait_until(lambda: platform.pull(pull["number"]).is_merged, "the merge")
        polling.service.kill()
        assert isinstance(merging.exception(), httpx.TransportError)
    polling.restart()
    polling.wait_pull_state(job["job_id"], "merged")
    entries = [entry for entry in audit_log(polling, tmp_path) if "pull." in entry["action"]]
    assert [(entry["action"], entry["actor"]) for entry in entries] == [
        ("pull.merge_requested", "merger")
    ]


def connection(connected: ConnectedService, name: str) -> dict[str, Any]:
    details: dict[str, Any] = json.loads(connected.service.admin("forges", "show", name, "--json"))
    return details


def sync_error_of(connected: ConnectedService, full_name: str) -> str:
    repo = connected.repo(full_name)
    return "" if repo is None else repo["sync_error"] or ""


def audit_log(connected: ConnectedService, directory: Path) -> list[dict[str, Any]]:
    """As in the export of the organization."""
    archive = directory / "export.zip"
    connected.service.admin("orgs", "export", "default", "--output", str(archive))
    with zipfile.ZipFile(archive) as opened:
        (name,) = (name for name in opened.namelist() if "audit_log" in name)
        return [json.loads(line) for line in opened.read(name).splitlines()]
