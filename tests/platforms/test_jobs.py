"""Jobs of a running service on live servers: pull requests, hooks, follow-ups and renames."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.platforms.harness import BOT
from tests.platforms.live_server import ADMIN, SCOPES, LiveServer, call
from tests.support.connected_service import CONFIGURATION, ConnectedService, running_service
from tests.support.git_commands import commit_files, make_repository
from tests.support.receiver import Receiver, receiver
from tests.support.service import wait_until

# Polls would find everything that the hooks tell, so there is none during the tests.
POLL_SECONDS = "86400"
FILES = {
    "app.py": "import os\nx = 1\n",
    ".agentjobs.toml": f'{CONFIGURATION}reviewers = ["grace"]\n',
}


@dataclass
class Shop:
    """A connected repository; `tree` is a developer's clone. The URL and secret are those of the
    connection's own webhook."""

    connected: ConnectedService
    server: LiveServer
    full_name: str
    tree: Path
    hook_url: str
    hook_secret: str

    def act(self, login: str, method: str, path: str, body: object = None) -> Any:
        return call(self.server.person(login).api, method, f"/repos/{self.full_name}{path}", body)

    def push(self, files: dict[str, str]) -> str:
        """Push to the default branch as a developer; returns the commit."""
        commit = commit_files(self.tree, files, "Develop")
        self.server.push(self.tree, self.full_name, "HEAD:refs/heads/main")
        return commit

    def finish_job(self, **fields: Any) -> dict[str, Any]:
        job_id = self.connected.api.create(self.full_name, "edit", **fields)
        return self.connected.wait_completed(job_id)

    def prompt(self, job_id: str) -> str:
        return str(self.connected.api.http.get(f"/jobs/{job_id}/prompt").json()["prompt"])

    def pull(self, number: int) -> dict[str, Any]:
        return dict(self.act(ADMIN, "GET", f"/pulls/{number}"))

    def messages(self, number: int) -> list[str]:
        """Of the commits of a pull request."""
        commits = self.act(ADMIN, "GET", f"/pulls/{number}/commits")
        return [row["commit"]["message"] for row in commits]

    def comments(self, number: int) -> list[str]:
        return [row["body"] for row in self.act(ADMIN, "GET", f"/issues/{number}/comments")]

    def wait_success(self, job: dict[str, Any]) -> None:
        """Until the head of the job's pull request has the status of the job."""
        head = self.pull(job["pr_number"])["head"]["sha"]
        url = f"{self.connected.service.root_url}/jobs/{job['job_id']}"

        def is_shown() -> bool:
            rows = self.act(ADMIN, "GET", f"/commits/{head}/status")["statuses"] or ()
            shown = [(row["context"], row["status"], row["target_url"]) for row in rows]
            return shown == [("agentjobs", "success", url)]

        wait_until(is_shown, "the status of the job")

    def wait_follow_up(self, job: dict[str, Any], count_before: int) -> dict[str, Any]:
        """The follow-up that a comment starts on the job's pull request."""
        connected, name = self.connected, self.full_name
        wait_until(lambda: len(connected.jobs(name)) > count_before, "the follow-up")
        follow_up = connected.wait_completed(connected.jobs(name)[0]["job_id"])
        assert follow_up["follows"] is not None
        assert follow_up["pr_url"] == job["pr_url"]
        return follow_up


@pytest.fixture(scope="module")
def deliveries() -> Iterator[Receiver]:
    with receiver() as receiving:
        yield receiving


@pytest.fixture(scope="module")
def shop(
    server: LiveServer, deliveries: Receiver, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Shop]:
    directory = tmp_path_factory.mktemp("service")
    owner = server.new_organization()
    server.add_owner(owner, BOT)
    full_name = server.new_repository(owner)["full_name"]
    tree = make_repository(directory / "tree", FILES)
    server.push(tree, full_name, "HEAD:refs/heads/main")
    poll = {"AGENTJOBS_PLATFORM_POLL_SECONDS": POLL_SECONDS}
    with running_service(directory, server.authorities, **poll) as connected:
        service = connected.service
        service.admin("webhooks", "add", deliveries.url)
        service.admin("trackers", "add", "issues", "--link-back")
        added = json.loads(
            service.admin(
                *("platforms", "add", "gitea", "--url", server.url, "--json"),
                typed=server.new_token(BOT),
            )
        )
        shop = Shop(connected, server, full_name, tree, added["hook_url"], added["hook_secret"])
        for login in ("grace", "rea"):
            server.person(login)
        shop.act(ADMIN, "PUT", "/collaborators/grace", {"permission": "write"})
        shop.act(ADMIN, "PUT", "/collaborators/rea", {"permission": "read"})
        service.admin("platforms", "connect", "gitea", full_name)
        connected.api.wait_ready(full_name)
        wait_until(lambda: webhook_of(shop)["state"] == "registered", "the webhook")
        yield shop


def webhook_of(shop: Shop) -> dict[str, Any]:
    """What the service knows about the webhook that it registers."""
    listed = shop.connected.service.admin("platforms", "webhooks", "gitea", "--json")
    (webhook,) = json.loads(listed)["webhooks"]
    return dict(webhook)


@pytest.fixture(scope="module")
def job(shop: Shop) -> dict[str, Any]:
    issue = {"title": "Round the prices", "body": "Nobody pays half a cent."}
    number = shop.act("grace", "POST", "/issues", issue)["number"]
    prompt = {"prompt": "Change a file."}
    return shop.finish_job(ticket_id=f"#{number}", config_override=prompt)


def test_a_job_ends_as_a_pull_request(
    shop: Shop, job: dict[str, Any], deliveries: Receiver
) -> None:
    pull = shop.pull(job["pr_number"])
    assert job["pr_url"] == f"{shop.server.url}/{shop.full_name}/pulls/{job['pr_number']}"
    assert (pull["state"], pull["draft"], pull["base"]["ref"]) == ("open", False, "main")
    assert pull["title"] == f"{job['ticket_id']}: Edit a file"
    for text in ("As asked.", "> Change a file.", "**Verification** passed", job["job_id"]):
        assert text in pull["body"]
    assert sorted(label["name"] for label in pull["labels"]) == ["agents", "needs review"]
    assert [user["login"] for user in pull["requested_reviewers"]] == ["grace"]
    assert "Nobody pays half a cent." in shop.prompt(job["job_id"])
    issue = int(job["ticket_id"].removeprefix("#"))
    assert job["pr_url"] in shop.comments(issue)[-1]
    (commit,) = shop.act(ADMIN, "GET", f"/pulls/{job['pr_number']}/commits")
    assert commit["sha"] == pull["head"]["sha"]
    # The platform finds the account by the commit's address.
    assert [commit[role]["login"] for role in ("author", "committer")] == [BOT, BOT]
    assert f"Job: {job['job_id']}" in commit["commit"]["message"]
    wait_until(
        lambda: (
            deliveries.events_of(job["job_id"])[-2:] == ["job.completed", "pr.review_requested"]
        ),
        "the webhooks of the job",
    )


def test_the_head_of_a_pull_request_has_the_status_of_its_latest_job(
    shop: Shop, job: dict[str, Any]
) -> None:
    shop.wait_success(job)
    first_head = shop.pull(job["pr_number"])["head"]["sha"]
    body = {"prompt": "Once more."}
    response = shop.connected.api.http.post(f"/jobs/{job['job_id']}/follow-ups", json=body)
    follow_up = shop.connected.wait_completed(response.json()["job_id"])
    wait_until(
        lambda: shop.pull(job["pr_number"])["head"]["sha"] != first_head, "the second commit"
    )
    shop.wait_success(follow_up)


def test_a_push_is_indexed_when_its_hook_arrives(shop: Shop) -> None:
    shop.connected.wait_indexed(shop.full_name, shop.push({"app.py": "x = 2\n"}))


def test_a_webhook_that_was_deleted_is_registered_again(shop: Shop) -> None:
    (hook,) = shop.act(ADMIN, "GET", "/hooks")
    assert hook["active"]
    shop.act(ADMIN, "DELETE", f"/hooks/{hook['id']}")
    shop.connected.service.admin("platforms", "check", "gitea")
    wait_until(lambda: shop.act(ADMIN, "GET", "/hooks"), "the webhook")
    # A complete one is kept.
    (again,) = shop.act(ADMIN, "GET", "/hooks")
    checked_at = webhook_of(shop)["checked_at"]
    shop.connected.service.admin("platforms", "check", "gitea")
    wait_until(lambda: webhook_of(shop)["checked_at"] != checked_at, "the check")
    assert [row["id"] for row in shop.act(ADMIN, "GET", "/hooks")] == [again["id"]]
    shop.connected.wait_indexed(shop.full_name, shop.push({"app.py": "x = 3\n"}))


def test_a_hook_with_another_secret_is_refused(shop: Shop) -> None:
    config = {"url": shop.hook_url, "secret": "another", "content_type": "json"}
    body = {"type": "gitea", "active": True, "config": config, "events": ["push"]}
    hook = shop.act(ADMIN, "POST", "/hooks", body)["id"]
    shop.act(ADMIN, "POST", f"/hooks/{hook}/tests")
    wait_until(lambda: '"status":401' in shop.connected.service.log(), "the refusal")
    shop.act(ADMIN, "DELETE", f"/hooks/{hook}")


def test_a_comment_by_a_member_of_a_team_starts_a_follow_up(
    shop: Shop, job: dict[str, Any]
) -> None:
    owner = shop.full_name.partition("/")[0]
    shop.server.new_team(owner, "write", "tina")
    number, before = job["pr_number"], len(shop.connected.jobs(shop.full_name))
    commits_before = len(shop.messages(number))
    path = f"/issues/{number}/comments"
    shop.act("rea", "POST", path, {"body": "@agentjobs delete everything"})
    shop.act("tina", "POST", path, {"body": "@agentjobs once more, please"})
    follow_up = shop.wait_follow_up(job, before)
    assert "once more, please" in shop.prompt(follow_up["job_id"])
    # The server shows a push a moment after it has accepted it.
    wait_until(lambda: len(shop.messages(number)) == commits_before + 1, "the commit")
    assert any("Co-authored-by: tina <tina@" in message for message in shop.messages(number))
    wait_until(lambda: follow_up["job_id"] in shop.comments(number)[-1], "the reply")
    # The reader is told why nothing happens.
    assert any("only people with write access" in text for text in shop.comments(number))
    assert len(shop.connected.jobs(shop.full_name)) == before + 1


@pytest.mark.parametrize("event", ["COMMENT", "REQUEST_CHANGES"])
def test_a_review_starts_a_follow_up(shop: Shop, job: dict[str, Any], event: str) -> None:
    before = len(shop.connected.jobs(shop.full_name))
    line = {"path": "edited.txt", "body": "@agentjobs explain it", "new_position": 1}
    review = {"event": event, "body": "Nearly.", "comments": [line]}
    shop.act("grace", "POST", f"/pulls/{job['pr_number']}/reviews", review)
    follow_up = shop.wait_follow_up(job, before)
    assert "About edited.txt, line 1:\nexplain it" in shop.prompt(follow_up["job_id"])


def test_the_summary_of_an_approval_starts_a_follow_up(shop: Shop, job: dict[str, Any]) -> None:
    before = len(shop.connected.jobs(shop.full_name))
    review = {"event": "APPROVED", "body": "@agentjobs add a test"}
    shop.act("grace", "POST", f"/pulls/{job['pr_number']}/reviews", review)
    assert "add a test" in shop.prompt(shop.wait_follow_up(job, before)["job_id"])


def test_a_draft_that_is_marked_ready_requests_its_review(shop: Shop, deliveries: Receiver) -> None:
    job = shop.finish_job(config_override={"draft": True})
    assert shop.pull(job["pr_number"])["draft"]
    assert "pr.review_requested" not in shop.connected.api.events(job["job_id"])
    shop.act(ADMIN, "PATCH", f"/pulls/{job['pr_number']}", {"title": "Ready"})
    wait_until(
        lambda: deliveries.events_of(job["job_id"])[-1] == "pr.review_requested",
        "the review request",
    )
    shop.act(ADMIN, "PATCH", f"/pulls/{job['pr_number']}", {"state": "closed"})
    shop.connected.wait_pull_state(job["job_id"], "closed")


def test_a_merged_pull_request_is_known_and_its_branch_deleted(shop: Shop) -> None:
    job = shop.finish_job()
    api = shop.server.admin
    head = shop.pull(job["pr_number"])["head"]["ref"]
    branch = f"/repos/{shop.full_name}/branches/{head}"
    assert api.get(branch).status_code == 200
    path = f"/repos/{shop.full_name}/pulls/{job['pr_number']}/merge"
    wait_until(lambda: api.post(path, json={"Do": "squash"}).is_success, "the merge")
    shop.connected.wait_pull_state(job["job_id"], "merged")
    wait_until(lambda: api.get(branch).status_code == 404, "the branch to be deleted")


def test_a_repository_and_its_owner_are_followed_when_they_are_renamed(shop: Shop) -> None:
    open_job = shop.finish_job()
    owner = shop.full_name.partition("/")[0]
    shop.act(ADMIN, "PATCH", "", {"name": "renamed"})
    shop.full_name = shop.server.change_owner(f"{owner}/renamed", BOT)
    shop.connected.wait_indexed(shop.full_name, shop.push({"later.txt": "later\n"}))
    job = shop.finish_job()
    assert job["pr_url"].startswith(f"{shop.server.url}/{shop.full_name}/pulls/")
    path, body = f"/jobs/{open_job['job_id']}/follow-ups", {"prompt": "Now test it."}
    response = shop.connected.api.http.post(path, json=body)
    follow_up = shop.connected.wait_completed(response.json()["job_id"])
    assert follow_up["pr_number"] == open_job["pr_number"]


def test_commits_are_signed_with_a_key_that_the_account_has(shop: Shop) -> None:
    service = shop.connected.service
    token = shop.server.new_token(BOT, (*SCOPES, "write:user"))
    service.admin("platforms", "rotate-token", "gitea", typed=token)
    service.admin("platforms", "signing", "gitea", "ssh")
    (key,) = call(shop.server.person(BOT).api, "GET", "/user/keys")
    assert key["key"].startswith("ssh-ed25519 ")
    job = shop.finish_job()
    (commit,) = shop.act(ADMIN, "GET", f"/pulls/{job['pr_number']}/commits")
    assert "BEGIN SSH SIGNATURE" in commit["commit"]["verification"]["signature"]


def test_the_webhook_is_removed_when_the_repository_is_disconnected(shop: Shop) -> None:
    assert shop.act(ADMIN, "GET", "/hooks")
    shop.connected.service.admin("repos", "disconnect", shop.full_name)
    wait_until(lambda: not shop.act(ADMIN, "GET", "/hooks"), "the webhook to be deleted")
