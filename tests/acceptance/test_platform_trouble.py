"""What may go wrong between a running service and a platform, and what is left of it: one pull
request or none, and words that say what to do."""

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from tests.support.connected_service import Street, open_street
from tests.support.forge_servers import faults
from tests.support.forge_servers.github import GitHubServer
from tests.support.service import wait_until

TOKENS = "POST /app/installations/{installation_id}/access_tokens"


@pytest.fixture(scope="module")
def street(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Street]:
    kinds = ("github-app", "gitlab")
    with open_street(tmp_path_factory.mktemp("trouble"), kinds) as opened:
        yield opened


@pytest.fixture(scope="module")
def lane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Street]:
    """Its platforms send no hooks, so they are asked all the time; who is killed is soon missed."""
    settings = {
        "AGENTJOBS_FORGE_POLL_SECONDS": "1",
        "AGENTJOBS_LEASE_SECONDS": "3",
        "AGENTJOBS_LEASE_RENEW_SECONDS": "0.5",
    }
    with open_street(tmp_path_factory.mktemp("lane"), ("gitlab", "gitea"), **settings) as opened:
        yield opened


def test_an_app_works_with_tokens_that_run_out_and_says_which_permission_it_lacks(
    street: Street, monkeypatch: pytest.MonkeyPatch
) -> None:
    town = street.towns["github-app"]
    server = town.server
    assert isinstance(server, GitHubServer)
    app = server.app
    # Shorter than the agent thinks.
    monkeypatch.setattr(app, "token_seconds", 3)
    clock = server.add_repository("acme/clock", {"app.py": "x = 1\n"}, roles=town.shop.roles)
    street.service.admin("forges", "connect", "github", "acme/clock")
    street.api.wait_ready("acme/clock")
    given = len(app.tokens)
    job_id = street.api.create("acme/clock", "thoughtful")
    wait_until(lambda: "thinking" in street.api.log(job_id), "the agent to think")
    (before, *_) = list(app.tokens.values())[given:]
    # And what it works on is called otherwise when it is done.
    town.rename(clock, "acme/watch")
    job = street.completed(job_id)
    assert before.expires_at < server.clock()
    branch = f"agentjobs/thoughtful/{job_id[-12:]}"
    assert [pull.number for pull in town.pulls_of(branch, clock)] == [job["pr_number"]]
    town.tell("repository", repository=clock)
    wait_until(lambda: street.repo("acme/watch"), "the new name")

    del app.permissions["pull_requests"]
    asked = town.asked()
    code, message = street.failed(street.api.create("acme/watch", "edit"))
    assert code == "forge_error"
    assert "“Pull requests: read and write”" in message
    assert town.asked() - asked <= 8
    app.permissions["pull_requests"] = "write"

    town.delete(clock)
    town.tell("repository", repository=clock)

    words = "acme/watch is not there any more"
    wait_until(lambda: words in trouble_of(street, "acme/watch"), "the words about it")


def test_a_name_that_another_repository_has_by_now_leads_to_neither(street: Street) -> None:
    town = street.towns["gitlab"]
    name = town.shop.full_name
    town.rename(town.shop, f"{name}-of-old")
    other = town.server.add_repository(name, {"app.py": "x = 1\n"}, roles=town.shop.roles)
    job = street.completed(street.api.create(name, "edit"))
    assert town.pull(job["pr_number"]).state == "open"
    assert town.server.git.head(other, f"agentjobs/edit/{job['job_id'][-12:]}") is None
    assert not other.pulls
    town.delete(other)
    town.rename(town.shop, name)


def test_a_token_of_an_app_that_was_revoked_before_its_time_is_replaced(street: Street) -> None:
    town = street.towns["github-app"]
    assert isinstance(town.server, GitHubServer)
    street.completed(street.start(town))
    town.server.app.tokens.clear()
    street.completed(street.start(town))


def test_a_platform_that_refuses_is_quoted_and_not_asked_again(street: Street) -> None:
    town = street.towns["gitlab"]
    known = set(town.shop.pulls)
    town.forbid_our_branches()
    code, message = street.failed(street.start(town))
    assert code == "push_rejected"
    assert "GH013: a rule protects refs/heads/agentjobs/edit/" in message
    town.forbid_our_branches(forbidden=False)

    town.order(faults.web_page(200, on=town.creates, times=None))
    code, message = street.failed(street.start(town))
    assert code == "forge_error"
    assert "returned a web page" in message
    town.well()

    creates = len(town.server.calls_of(town.creates))
    refused = town.order(faults.forbidden("403 Forbidden", on=town.creates, times=5))
    code, message = street.failed(street.start(town))
    assert code == "forge_error"
    assert "api" in message
    # A fault that is done is no call.
    assert (refused.times, len(town.server.calls_of(town.creates))) == (4, creates)
    town.well()
    assert set(town.shop.pulls) == known
    # Once more away, once more there.
    town.order(faults.web_page(502, on=town.creates))
    town.order(faults.cut(on=town.creates, after=True))
    job = street.completed(street.start(town))
    assert set(town.shop.pulls) - known == {job["pr_number"]}


def test_a_token_that_was_revoked_is_told_of_and_replaced(street: Street) -> None:
    town = street.towns["gitlab"]
    town.server.token = "another-one"
    code, message = street.failed(street.start(town))
    assert code == "forge_error"
    assert "does not accept the credential" in message
    wait_until(lambda: connection(street, "gitlab")["error"], "the words about the connection")
    assert "does not accept the credential" in connection(street, "gitlab")["error"]
    rotated = street.service.try_admin("forges", "rotate-token", "gitlab", typed="a-wrong-one")
    assert rotated.returncode != 0
    assert "does not accept the credential" in rotated.stderr
    street.service.admin("forges", "rotate-token", "gitlab", typed=town.server.token)
    assert connection(street, "gitlab")["error"] is None
    street.completed(street.start(town))


def test_without_a_hook_a_push_is_found_by_asking(lane: Street) -> None:
    town = lane.towns["gitea"]
    draft = lane.completed(lane.start(town, config_override={"draft": True}))
    commit = town.push({"app.py": "x = 2\n"})
    town.mark_ready(draft["pr_number"])
    lane.wait_indexed(town.shop.full_name, commit)
    wait_until(
        lambda: "pr.review_requested" in lane.api.events(draft["job_id"]), "the review requested"
    )


def test_a_service_killed_around_the_opening_opens_one_pull_request(lane: Street) -> None:
    """On one platform before it is opened, on the other before its answer came."""
    stuck = {
        "gitlab": lane.towns["gitlab"].order(faults.slow(on=lane.towns["gitlab"].creates)),
        "gitea": lane.towns["gitea"].order(faults.slow(on=lane.towns["gitea"].creates, after=True)),
    }
    jobs = {kind: lane.start(lane.towns[kind]) for kind in stuck}
    branches = {kind: f"agentjobs/edit/{job_id[-12:]}" for kind, job_id in jobs.items()}
    gitlab, gitea = lane.towns["gitlab"], lane.towns["gitea"]
    wait_until(lambda: all(fault.times == 0 for fault in stuck.values()), "both to be stuck")
    wait_until(lambda: gitea.pulls_of(branches["gitea"]), "the pull request nobody heard of")
    assert not gitlab.pulls_of(branches["gitlab"])
    lane.service.kill()
    lane.restart()
    for kind, job_id in jobs.items():
        job = lane.completed(job_id)
        assert job["attempt"] == 2
        assert "adopted" in lane.api.log(job_id)
        pulls = lane.towns[kind].pulls_of(branches[kind])
        assert [pull.number for pull in pulls] == [job["pr_number"]]


def connection(street: Street, name: str) -> dict[str, Any]:
    shown: dict[str, Any] = json.loads(street.service.admin("forges", "show", name, "--json"))
    return shown


def trouble_of(street: Street, full_name: str) -> str:
    """As its page shows it."""
    with closing(sqlite3.connect(street.service.data_dir / "agentjobs.db")) as db:
        found = db.execute("SELECT sync_error FROM repos WHERE full_name = ?", (full_name,))
        return found.fetchone()[0] or ""
