"""Jobs on repositories of GitHub, GitLab and Gitea, against a running service: branches, pull
requests, hooks, comments, tickets, and no leaked secrets."""

import base64
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from tests.support import sqlite_file
from tests.support.connected_service import (
    ConnectedService,
    open_connected_service,
    run_concurrently,
)
from tests.support.forge_servers.faults import too_many
from tests.support.forge_servers.github import GitHubServer
from tests.support.forge_servers.jira import JiraServer
from tests.support.live_platform import KINDS, READER, REVIEWER, WRITER, LivePlatform, served
from tests.support.receiver import Receiver, receiver
from tests.support.service import wait_until
from tests.support.signatures import verify_commit

JOB_OF_COMMIT = "%(trailers:key=Job,valueonly,separator=)"
CO_AUTHOR = "by %(trailers:key=Co-authored-by,valueonly,separator=)"
REVIEWED = ["job.completed", "pr.review_requested"]
AUTHORS = {
    "github-app": "+agentjobs[bot]@users.noreply.github.com>",
    "gitlab": "Agentjobs-Bot <agentjobs-bot@example.com>",
    "gitea": "agentjobs-bot <agentjobs-bot@example.com>",
}
# Where `stored_content` found something.
DATABASE = "the database"


@pytest.fixture(scope="module")
def connected(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConnectedService]:
    with open_connected_service(tmp_path_factory.mktemp("connected")) as opened:
        yield opened


@pytest.fixture(params=KINDS)
def platform(request: pytest.FixtureRequest, connected: ConnectedService) -> LivePlatform:
    return connected.platforms[request.param]


@pytest.fixture(scope="module")
def deliveries(connected: ConnectedService) -> Iterator[Receiver]:
    with receiver() as receiving:
        connected.service.admin("webhooks", "add", receiving.url)
        yield receiving


@pytest.fixture(scope="module")
def opened(connected: ConnectedService, deliveries: Receiver) -> dict[str, dict[str, Any]]:
    """Concurrent jobs, one per platform; each platform is rate-limited when the pull request is
    opened. No tracker is configured yet."""
    override = {"prompt": "Change a file."}
    sign = partial(connected.service.admin, "forges", "signing")
    run_concurrently([lambda: sign("github", "platform"), lambda: sign("gitlab", "ssh")])
    jobs = {}
    for kind, platform in connected.platforms.items():
        platform.order(too_many(1, on=platform.creates))
        jobs[kind] = connected.start(platform, ticket_id="SHOP-7", config_override=override)
    return {kind: connected.wait_completed(job_id) for kind, job_id in jobs.items()}


@pytest.fixture(scope="module")
def drafts(
    connected: ConnectedService, opened: dict[str, dict[str, Any]]
) -> dict[str, dict[str, Any]]:
    jobs = {
        kind: connected.start(platform, config_override={"draft": True})
        for kind, platform in connected.platforms.items()
    }
    return {kind: connected.wait_completed(job_id) for kind, job_id in jobs.items()}


@pytest.fixture(scope="module")
def trackers(
    connected: ConnectedService,
    drafts: dict[str, dict[str, Any]],
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[JiraServer]:
    """Issue trackers and Jira; tickets are looked up from now on."""
    jira = JiraServer(tmp_path_factory.mktemp("jira"), is_cloud=False)
    jira.add_issue("SHOP-7", summary="Prices lack the tax", description="Add it.")
    with served(jira):
        service = connected.service
        run_concurrently(
            [
                lambda: service.admin("trackers", "add", "issues", "--link-back"),
                lambda: service.admin(
                    *("trackers", "add", "jira", "--url", jira.url, "--link-back"), typed=jira.token
                ),
            ]
        )
        yield jira


@pytest.fixture(scope="module")
def ticketed(connected: ConnectedService, trackers: JiraServer) -> dict[str, dict[str, Any]]:
    jobs = {}
    for kind, platform in connected.platforms.items():
        platform.open_issue(12, "Round the prices", "Nobody pays half a cent.", "bug")
        jobs[kind] = connected.start(platform, ticket_id="#12")
    return {kind: connected.wait_completed(job_id) for kind, job_id in jobs.items()}


def result_of(platform: LivePlatform, branch: str) -> str:
    """What the platform shows for the head of the branch."""
    head = platform.server.git.head(platform.shop, branch)
    rows = [row for row in platform.shop.statuses if (row.name, row.commit) == ("agentjobs", head)]
    return rows[-1].state if rows else ""


def test_a_job_ends_as_a_pull_request_on_its_platform(
    connected: ConnectedService,
    platform: LivePlatform,
    opened: dict[str, dict[str, Any]],
    deliveries: Receiver,
) -> None:
    job = opened[platform.kind]
    branch = f"agentjobs/edit/{job['job_id'][-12:]}-SHOP-7"
    (pull,) = platform.pulls_of(branch)
    assert job["pr_number"] == pull.number
    assert job["pr_url"].startswith(f"{platform.server.url}/{platform.shop.full_name}/")
    assert job["pr_url"].endswith(f"/{pull.number}")
    assert job["pr_state"] == "open"
    # Without a tracker, the ticket is only part of title and body.
    assert pull.title == "SHOP-7: Edit a file"
    for text in (
        "As asked.",
        "> Change a file.",
        "Ticket: SHOP-7",
        "**Verification** passed",
        f"{connected.service.root_url}/jobs/{job['job_id']}",
    ):
        assert text in pull.text
    assert pull.base == "main"
    assert sorted(pull.labels) == ["agents", "needs review"]
    assert pull.reviewers == [REVIEWER]
    assert platform.log(branch, JOB_OF_COMMIT) == [job["job_id"]]
    wait_until(lambda: result_of(platform, branch) == "success", "the result to be reported")
    (author,) = platform.log(branch, "%an <%ae>")
    assert AUTHORS[platform.kind] in author
    assert is_signed(platform, branch) == (platform.kind != "gitea")
    assert platform.show(branch, "edited.txt") == "changed"
    assert "trying again in 1 s" in connected.api.log(job["job_id"])
    wait_until(
        lambda: deliveries.events_of(job["job_id"])[-2:] == REVIEWED, "the webhooks of the job"
    )


def test_a_ticket_is_in_the_prompt_and_gets_a_link_to_the_pull_request(
    connected: ConnectedService, platform: LivePlatform, ticketed: dict[str, dict[str, Any]]
) -> None:
    job = ticketed[platform.kind]
    assert job["ticket"]["title"] == "Round the prices"
    prompt = connected.api.http.get(f"/jobs/{job['job_id']}/prompt").json()["prompt"]
    assert "Nobody pays half a cent." in prompt
    pull = platform.pull(job["pr_number"])
    assert pull.head.endswith("-12")
    assert pull.title == "#12: Edit a file"
    assert f"Ticket: #12 ({job['ticket']['url']})" in pull.text
    (link,) = platform.shop.issues[12].comments
    assert job["pr_url"] in link.text


def test_a_ticket_that_no_tracker_has_fails_the_job_before_it_starts(
    connected: ConnectedService, trackers: JiraServer
) -> None:
    jobs = {
        ticket: connected.start(connected.platforms["gitlab"], ticket_id=ticket)
        for ticket in ("#999", "SHOP-8", "SHOP-7")
    }
    for ticket in ("#999", "SHOP-8"):
        code, message = connected.wait_failed(jobs[ticket])
        assert code == "ticket_not_found"
        assert f"'{ticket}' was not found" in message
        assert "job.started" not in connected.api.events(jobs[ticket])
    job = connected.wait_completed(jobs["SHOP-7"])
    assert (job["ticket"]["title"], job["ticket"]["url"]) == (
        "Prices lack the tax",
        f"{trackers.url}/browse/SHOP-7",
    )
    (link,) = trackers.issues[0].links.values()
    assert link["object"]["url"] == job["pr_url"]


def test_a_signed_hook_counts_once_and_a_draft_marked_ready_requests_its_review(
    connected: ConnectedService,
    platform: LivePlatform,
    drafts: dict[str, dict[str, Any]],
    deliveries: Receiver,
) -> None:
    draft = drafts[platform.kind]
    number, job_id = draft["pr_number"], draft["job_id"]
    assert "pr.review_requested" not in connected.api.events(job_id)
    first = platform.push({"app.py": "x = 2\n"})
    pushed = platform.delivery("push")
    assert platform.send(pushed) == (202, "accepted")
    connected.wait_indexed(platform.shop.full_name, first)
    platform.mark_ready(number)
    platform.push({"app.py": "x = 3\n"})
    count_before = platform.request_count()
    assert platform.send(pushed) == (202, "known")
    assert platform.send(platform.delivery("pull", number, secret="another secret")) == (
        401,
        "unauthorized",
    )
    assert platform.request_count() == count_before
    assert "pr.review_requested" not in connected.api.events(job_id)
    platform.tell("pull", number)
    wait_until(lambda: deliveries.events_of(job_id)[-2:] == REVIEWED, "the review request")
    platform.close(number)
    platform.tell("pull", number)
    connected.wait_pull_state(job_id, "closed")
    assert connected.api.events(job_id).count("pr.review_requested") == 1


def test_a_comment_by_a_writer_starts_a_follow_up(
    connected: ConnectedService, platform: LivePlatform, opened: dict[str, dict[str, Any]]
) -> None:
    job = opened[platform.kind]
    number, full_name = job["pr_number"], platform.shop.full_name
    before = len(connected.jobs(full_name))
    platform.comment(number, READER, "@agentjobs delete everything")
    platform.comment(number, WRITER, "What does @agentjobs say?")
    platform.comment(number, WRITER, "@agentjobs once more, please")
    platform.tell("comment", number)
    wait_until(lambda: len(connected.jobs(full_name)) > before, "the follow-up")
    follow_up = connected.wait_completed(connected.jobs(full_name)[0]["job_id"])
    assert (follow_up["pr_url"], follow_up["follows"]) == (job["pr_url"], job["job_id"])
    branch = platform.pull(number).head
    assert platform.log(branch, JOB_OF_COMMIT) == [job["job_id"], follow_up["job_id"]]
    first, second = platform.log(branch, CO_AUTHOR)
    assert (first, WRITER in second.casefold(), "@" in second) == ("by ", True, True)
    prompt = connected.api.http.get(f"/jobs/{follow_up['job_id']}/prompt").json()["prompt"]
    assert "once more, please" in prompt
    refusal, reply = platform.pull(number).comments[3:]
    assert "only people with write access" in refusal.text
    assert follow_up["job_id"] in reply.text
    # The service ignores its own comments, even if its account has write access.
    platform.shop.roles[reply.author] = "write"
    last = platform.comment(number, reply.author, f"@agentjobs again\n{reply.text}")
    if platform.kind == "github-app":
        last = platform.comment(number, reply.author, "@agentjobs again")
    platform.wait_for_reading_comments(number)
    assert len(connected.jobs(full_name)) == before + 1
    assert platform.pull(number).comments[-1] is last


def test_a_comment_on_a_line_starts_a_follow_up_that_names_the_line(
    connected: ConnectedService, platform: LivePlatform, opened: dict[str, dict[str, Any]]
) -> None:
    job = opened[platform.kind]
    number, full_name = job["pr_number"], platform.shop.full_name
    before = len(connected.jobs(full_name))
    platform.comment_on_line(number, READER, "@agentjobs delete it", "edited.txt", 1)
    platform.comment_on_line(number, WRITER, "@agentjobs explain it", "edited.txt", 1)
    platform.tell("review", number)
    wait_until(lambda: len(connected.jobs(full_name)) > before, "the follow-up")
    follow_up = connected.wait_completed(connected.jobs(full_name)[0]["job_id"])
    assert follow_up["pr_url"] == job["pr_url"]
    prompt = connected.api.http.get(f"/jobs/{follow_up['job_id']}/prompt").json()["prompt"]
    assert "About edited.txt, line 1:\nexplain it" in prompt
    assert follow_up["job_id"] in platform.pull(number).comments[-1].text
    platform.tell("review", number)
    platform.comment(number, WRITER, "Thank you.")
    platform.wait_for_reading_comments(number)
    assert len(connected.jobs(full_name)) == before + 1


def test_follow_ups_are_possible_until_the_pull_request_is_merged(
    connected: ConnectedService, platform: LivePlatform, ticketed: dict[str, dict[str, Any]]
) -> None:
    job = ticketed[platform.kind]
    path, body = f"/jobs/{job['job_id']}/follow-ups", {"prompt": "Now test it."}
    follow_up = connected.wait_completed(connected.api.http.post(path, json=body).json()["job_id"])
    assert follow_up["pr_number"] == job["pr_number"]
    branch = platform.pull(job["pr_number"]).head
    assert platform.log(branch, JOB_OF_COMMIT) == [job["job_id"], follow_up["job_id"]]
    assert platform.show(branch, "edited.txt") == "changed\nchanged"
    platform.merge(job["pr_number"])
    platform.tell("pull", job["pr_number"])
    for job_id in (job["job_id"], follow_up["job_id"]):
        connected.wait_pull_state(job_id, "merged")
    wait_until(
        lambda: platform.server.git.head(platform.shop, branch) is None, "the branch to be deleted"
    )
    response = connected.api.http.post(path, json=body)
    assert (response.status_code, response.json()["error"]["code"]) == (409, "pull_not_open")


def test_a_pull_request_is_merged_over_the_api_where_it_is_hosted(
    connected: ConnectedService, ticketed: dict[str, dict[str, Any]]
) -> None:
    api = connected.service.client(connected.service.key("--pulls"))
    jobs = {kind: connected.start(platform) for kind, platform in connected.platforms.items()}
    for kind, platform in connected.platforms.items():
        job = connected.wait_completed(jobs[kind])
        (pull,) = api.http.get("/pulls", params={"job_id": jobs[kind]}).json()["pulls"]
        assert (pull["url"], pull["job_id"]) == (job["pr_url"], jobs[kind])
        path, body = f"/pulls/{pull['id']}/merge", {"head_commit": pull["head_commit"]}
        refused = connected.api.http.post(path, json=body)
        assert refused.json()["error"]["code"] == "insufficient_scope"
        merged = api.http.post(path, json={**body, "method": "squash"})
        assert (merged.status_code, merged.json()["state"]) == (200, "merged"), merged.text
        assert platform.pull(pull["number"]).is_merged
        assert platform.show("main", "edited.txt") == "changed"
        connected.wait_pull_state(jobs[kind], "merged")
        branch = pull["head_branch"]
        wait_until(
            lambda platform=platform, branch=branch: (
                platform.server.git.head(platform.shop, branch) is None
            ),
            "the branch to be deleted",
        )
        again = api.http.post(path)
        assert (again.status_code, again.json()["error"]["code"]) == (409, "pull_not_open")


def is_signed(platform: LivePlatform, branch: str) -> bool:
    """By GitHub itself, or with a key of the account."""
    keys = [key["key"] for key in platform.server.state.ssh_keys]
    if isinstance(platform.server, GitHubServer):
        keys.append(platform.server.signing_public_key)
    directory = platform.server.git.directory(platform.shop)
    return verify_commit(directory, branch, *(f"x {key}" for key in keys)).returncode == 0


def test_another_organization_sees_nothing_and_its_hooks_have_no_effect(
    connected: ConnectedService, opened: dict[str, dict[str, Any]]
) -> None:
    service, platform = connected.service, connected.platforms["gitea"]
    service.admin("orgs", "create", "others")
    added = platform.add_to(service, "--org", "others")
    others = service.client(service.key("--org", "others"))
    assert others.http.get("/repos").json()["repos"] == []
    assert others.http.get("/jobs").json()["jobs"] == []
    job_id = opened["gitea"]["job_id"]
    for path in (f"/jobs/{job_id}", f"/jobs/{job_id}/prompt", f"/jobs/{job_id}/logs"):
        assert others.http.get(path).status_code == 404
    count_before = platform.wait_until_quiet()
    delivery = platform.delivery("push", secret=added["hook_secret"])
    unknown_url = platform.hook_url[:-1] + ("0" if platform.hook_url[-1] != "0" else "1")
    for url in (platform.hook_url, unknown_url, platform.hook_url.replace("/gitea/", "/github/")):
        assert platform.send(delivery, url) == (401, "unauthorized")
    # Hooks for a repository that they did not connect have no effect.
    assert platform.send(delivery, added["hook_url"]) == (202, "ignored")
    assert platform.request_count() == count_before


def test_secrets_are_stored_only_encrypted(
    connected: ConnectedService, ticketed: dict[str, dict[str, Any]], trackers: JiraServer
) -> None:
    thieves = [
        connected.start(connected.platforms[kind], "thief") for kind in ("github-app", "gitlab")
    ]
    for job_id in thieves:
        connected.wait_completed(job_id)
        assert found_by_thief(connected.api.log(job_id)) == {"./decoy.txt"}
    secrets = {trackers.token}.union(
        *(platform.secrets for platform in connected.platforms.values())
    )
    assert len(secrets) > 10
    forms = {form for secret in secrets for form in encodings(secret)}
    # The beginning of the signing key in every encoding of it.
    forms |= {b"OPENSSH PRIVATE KEY", b"b3BlbnNzaC1rZXktdjEA"}
    stored = list(stored_content(connected))
    # The search includes the database, where the addresses beside the credentials are readable.
    (database,) = (content for location, content in stored if location == DATABASE)
    for platform in connected.platforms.values():
        assert platform.server.url.encode() in database
    for location, content in stored:
        assert not [form for form in forms if form in content], location
    for platform in connected.platforms.values():
        pushes = [line for line in platform.command_lines if " push " in line]
        assert any(platform.server.url in line for line in pushes)
        lines = "\n".join(platform.command_lines).encode()
        assert not [form for form in forms if form in lines]


def found_by_thief(log: str) -> set[str]:
    lines = [line.partition("found: ") for line in log.splitlines()]
    return {path for _, mark, path in lines if mark}


def encodings(secret: str) -> Iterator[bytes]:
    """The secret itself, and as base64 in git's authorization header; also in hexadecimal."""
    users = ("x-access-token", "oauth2", "agentjobs-bot")
    headers = [base64.b64encode(f"{user}:{secret}".encode()) for user in users]
    for form in (secret.encode(), *headers):
        yield form
        yield form.hex().upper().encode()


def stored_content(connected: ConnectedService) -> Iterator[tuple[str, bytes]]:
    data_dir = connected.service.data_dir
    for path in data_dir.rglob("*"):
        if path.is_file() and not path.is_symlink():
            yield str(path), path.read_bytes()
    yield DATABASE, sqlite_file.dump(data_dir / "agentjobs.db").encode()
    for platform in connected.platforms.values():
        for job in connected.jobs(platform.shop.full_name):
            yield job["job_id"], connected.api.log(job["job_id"]).encode()
            yield job["job_id"], connected.api.http.get(f"/jobs/{job['job_id']}").content
