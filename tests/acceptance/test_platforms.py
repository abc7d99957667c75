"""Jobs on repositories that GitHub, GitLab and Gitea keep, against a running service: branches and
pull requests there, hooks from there, comments there, tickets there, and nothing that leaks."""

import base64
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from tests.support.connected_service import Street, at_once, open_street
from tests.support.forge_servers.faults import too_many
from tests.support.forge_servers.jira import JiraServer
from tests.support.live_platform import KINDS, READER, REVIEWER, WRITER, Town, served
from tests.support.receiver import Receiver, receiver
from tests.support.service import wait_until

JOB_OF_COMMIT = "%(trailers:key=Job,valueonly,separator=)"
REVIEWED = ["job.completed", "pr.review_requested"]


@pytest.fixture(scope="module")
def street(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Street]:
    with open_street(tmp_path_factory.mktemp("street")) as opened:
        yield opened


@pytest.fixture(params=KINDS)
def town(request: pytest.FixtureRequest, street: Street) -> Town:
    return street.towns[request.param]


@pytest.fixture(scope="module")
def told(street: Street) -> Iterator[Receiver]:
    with receiver() as receiving:
        street.service.admin("webhooks", "add", receiving.url)
        yield receiving


@pytest.fixture(scope="module")
def opened(street: Street, told: Receiver) -> dict[str, dict[str, Any]]:
    """A job for each town, all at once, whose platforms are busy when it comes to the end; no
    tracker is configured yet."""
    asked = {"prompt": "Change a file."}
    jobs = {}
    for kind, town in street.towns.items():
        town.order(too_many(1, on=town.creates))
        jobs[kind] = street.start(town, ticket_id="SHOP-7", config_override=asked)
    return {kind: street.completed(job_id) for kind, job_id in jobs.items()}


@pytest.fixture(scope="module")
def drafts(street: Street, opened: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    jobs = {
        kind: street.start(town, config_override={"draft": True})
        for kind, town in street.towns.items()
    }
    return {kind: street.completed(job_id) for kind, job_id in jobs.items()}


@pytest.fixture(scope="module")
def trackers(
    street: Street, drafts: dict[str, dict[str, Any]], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[JiraServer]:
    """Issues, and Jira; a ticket means something from now on."""
    jira = JiraServer(tmp_path_factory.mktemp("jira"), is_cloud=False)
    jira.add_issue("SHOP-7", summary="Prices lack the tax", description="Add it.")
    with served(jira):
        service = street.service
        at_once(
            [
                lambda: service.admin("trackers", "add", "issues", "--link-back"),
                lambda: service.admin(
                    *("trackers", "add", "jira", "--url", jira.url, "--link-back"), typed=jira.token
                ),
            ]
        )
        yield jira


@pytest.fixture(scope="module")
def ticketed(street: Street, trackers: JiraServer) -> dict[str, dict[str, Any]]:
    jobs = {}
    for kind, town in street.towns.items():
        town.open_issue(12, "Round the prices", "Nobody pays half a cent.", "bug")
        jobs[kind] = street.start(town, ticket_id="#12")
    return {kind: street.completed(job_id) for kind, job_id in jobs.items()}


def test_a_job_ends_as_a_pull_request_on_its_platform(
    street: Street, town: Town, opened: dict[str, dict[str, Any]], told: Receiver
) -> None:
    job = opened[town.kind]
    branch = f"agentjobs/edit/{job['job_id'][-12:]}-SHOP-7"
    (pull,) = town.pulls_of(branch)
    assert job["pr_number"] == pull.number
    assert job["pr_url"].startswith(f"{town.server.url}/{town.shop.full_name}/")
    assert job["pr_url"].endswith(f"/{pull.number}")
    assert job["pr_state"] == "open"
    # Without a tracker the ticket is only carried along.
    assert pull.title == "SHOP-7: Edit a file"
    for words in (
        "As asked.",
        "> Change a file.",
        "Ticket: SHOP-7",
        "**Verification** passed",
        f"{street.service.root_url}/jobs/{job['job_id']}",
    ):
        assert words in pull.text
    assert pull.base == "main"
    assert sorted(pull.labels) == ["agents", "needs review"]
    assert pull.reviewers == [REVIEWER]
    assert town.log(branch, JOB_OF_COMMIT) == [job["job_id"]]
    assert town.show(branch, "edited.txt") == "changed"
    assert "trying again in 1 s" in street.api.log(job["job_id"])
    wait_until(lambda: told.events_of(job["job_id"])[-2:] == REVIEWED, "the webhooks of the job")


def test_a_ticket_is_told_to_the_agent_and_told_of_the_pull_request(
    street: Street, town: Town, ticketed: dict[str, dict[str, Any]]
) -> None:
    job = ticketed[town.kind]
    assert job["ticket"]["title"] == "Round the prices"
    prompt = street.api.http.get(f"/jobs/{job['job_id']}/prompt").json()["prompt"]
    assert "Nobody pays half a cent." in prompt
    pull = town.pull(job["pr_number"])
    assert pull.head.endswith("-12")
    assert pull.title == "#12: Edit a file"
    assert f"Ticket: #12 ({job['ticket']['url']})" in pull.text
    (link,) = town.shop.issues[12].comments
    assert job["pr_url"] in link.text


def test_a_ticket_that_no_tracker_has_fails_the_job_before_it_starts(
    street: Street, trackers: JiraServer
) -> None:
    jobs = {
        ticket: street.start(street.towns["gitlab"], ticket_id=ticket)
        for ticket in ("#999", "SHOP-8", "SHOP-7")
    }
    for ticket in ("#999", "SHOP-8"):
        code, message = street.failed(jobs[ticket])
        assert code == "ticket_not_found"
        assert f"'{ticket}' was not found" in message
        assert "job.started" not in street.api.events(jobs[ticket])
    job = street.completed(jobs["SHOP-7"])
    assert (job["ticket"]["title"], job["ticket"]["url"]) == (
        "Prices lack the tax",
        f"{trackers.url}/browse/SHOP-7",
    )
    (link,) = trackers.issues[0].links.values()
    assert link["object"]["url"] == job["pr_url"]


def test_a_hook_that_is_signed_is_believed_once_and_a_draft_marked_ready_asks_for_review(
    street: Street, town: Town, drafts: dict[str, dict[str, Any]], told: Receiver
) -> None:
    draft = drafts[town.kind]
    number, job_id = draft["pr_number"], draft["job_id"]
    assert "pr.review_requested" not in street.api.events(job_id)
    first = town.push({"app.py": "x = 2\n"})
    pushed = town.delivery("push")
    assert town.send(pushed) == (202, "accepted")
    street.wait_indexed(town.shop.full_name, first)
    town.mark_ready(number)
    town.push({"app.py": "x = 3\n"})
    asked = town.asked()
    assert town.send(pushed) == (202, "known")
    assert town.send(town.delivery("pull", number, secret="of somebody else")) == (
        401,
        "unauthorized",
    )
    assert town.asked() == asked
    assert "pr.review_requested" not in street.api.events(job_id)
    town.tell("pull", number)
    wait_until(lambda: told.events_of(job_id)[-2:] == REVIEWED, "the review to be asked for")
    town.close(number)
    town.tell("pull", number)
    street.wait_pull_state(job_id, "closed")
    assert street.api.events(job_id).count("pr.review_requested") == 1


def test_a_comment_of_who_may_write_goes_on_with_the_pull_request(
    street: Street, town: Town, opened: dict[str, dict[str, Any]]
) -> None:
    job = opened[town.kind]
    number, full_name = job["pr_number"], town.shop.full_name
    before = len(street.jobs(full_name))
    town.comment(number, READER, "@agentjobs delete everything")
    town.comment(number, WRITER, "What does @agentjobs say?")
    town.comment(number, WRITER, "@agentjobs once more, please")
    town.tell("comment", number)
    wait_until(lambda: len(street.jobs(full_name)) > before, "the follow-up")
    follow_up = street.completed(street.jobs(full_name)[0]["job_id"])
    assert (follow_up["pr_url"], follow_up["follows"]) == (job["pr_url"], job["job_id"])
    branch = town.pull(number).head
    assert town.log(branch, JOB_OF_COMMIT) == [job["job_id"], follow_up["job_id"]]
    prompt = street.api.http.get(f"/jobs/{follow_up['job_id']}/prompt").json()["prompt"]
    assert "once more, please" in prompt
    (answer,) = town.pull(number).comments[3:]
    assert follow_up["job_id"] in answer.text
    # Not even if it is made to speak to itself, and may write.
    town.shop.roles[answer.author] = "write"
    last = town.comment(number, answer.author, f"@agentjobs again\n{answer.text}")
    if town.kind == "github-app":
        last = town.comment(number, answer.author, "@agentjobs again")
    town.tell("comment", number)
    wait_until(lambda: heard_up_to(street, town, number) == last.id, "all to be heard")
    assert len(street.jobs(full_name)) == before + 1
    assert town.pull(number).comments[-1] is last


def test_a_comment_on_a_line_goes_on_with_the_pull_request_and_says_where(
    street: Street, town: Town, opened: dict[str, dict[str, Any]]
) -> None:
    job = opened[town.kind]
    number, full_name = job["pr_number"], town.shop.full_name
    before = len(street.jobs(full_name))
    town.comment_on_line(number, READER, "@agentjobs delete it", "edited.txt", 1)
    town.comment_on_line(number, WRITER, "@agentjobs explain it", "edited.txt", 1)
    town.tell("review", number)
    wait_until(lambda: len(street.jobs(full_name)) > before, "the follow-up")
    follow_up = street.completed(street.jobs(full_name)[0]["job_id"])
    assert follow_up["pr_url"] == job["pr_url"]
    prompt = street.api.http.get(f"/jobs/{follow_up['job_id']}/prompt").json()["prompt"]
    assert "About edited.txt, line 1:\nexplain it" in prompt
    assert follow_up["job_id"] in town.pull(number).comments[-1].text
    town.tell("review", number)
    last = town.comment(number, WRITER, "Thank you.")
    town.tell("comment", number)
    wait_until(lambda: heard_up_to(street, town, number) == last.id, "all to be heard")
    assert len(street.jobs(full_name)) == before + 1


def test_a_follow_up_goes_on_until_the_pull_request_is_merged(
    street: Street, town: Town, ticketed: dict[str, dict[str, Any]]
) -> None:
    job = ticketed[town.kind]
    path, asked = f"/jobs/{job['job_id']}/follow-ups", {"prompt": "Now test it."}
    follow_up = street.completed(street.api.http.post(path, json=asked).json()["job_id"])
    assert follow_up["pr_number"] == job["pr_number"]
    branch = town.pull(job["pr_number"]).head
    assert town.log(branch, JOB_OF_COMMIT) == [job["job_id"], follow_up["job_id"]]
    assert town.show(branch, "edited.txt") == "changed\nchanged"
    town.merge(job["pr_number"])
    town.tell("pull", job["pr_number"])
    for job_id in (job["job_id"], follow_up["job_id"]):
        street.wait_pull_state(job_id, "merged")
    refused = street.api.http.post(path, json=asked)
    assert (refused.status_code, refused.json()["error"]["code"]) == (409, "pull_not_open")


def heard_up_to(street: Street, town: Town, number: int) -> int:
    with closing(sqlite3.connect(street.service.data_dir / "agentjobs.db")) as db:
        found = db.execute(
            "SELECT p.comment_seen FROM pulls p JOIN repos r ON r.id = p.repo_id"
            " WHERE r.full_name = ? AND p.number = ?",
            (town.shop.full_name, number),
        )
        return int(found.fetchone()[0])


def test_another_organization_sees_nothing_and_its_hooks_open_no_door(
    street: Street, opened: dict[str, dict[str, Any]]
) -> None:
    service, town = street.service, street.towns["gitea"]
    service.admin("orgs", "create", "others")
    added = town.add_to(service, "--org", "others")
    others = service.client(service.key("--org", "others"))
    assert others.http.get("/repos").json()["repos"] == []
    assert others.http.get("/jobs").json()["jobs"] == []
    job_id = opened["gitea"]["job_id"]
    for path in (f"/jobs/{job_id}", f"/jobs/{job_id}/prompt", f"/jobs/{job_id}/logs"):
        assert others.http.get(path).status_code == 404
    asked = town.asked()
    theirs = town.delivery("push", secret=added["hook_secret"])
    nowhere = town.hook_url[:-1] + ("0" if town.hook_url[-1] != "0" else "1")
    for url in (town.hook_url, nowhere, town.hook_url.replace("/gitea/", "/github/")):
        assert town.send(theirs, url) == (401, "unauthorized")
    # What they are told of a repository that they did not connect leads to nothing.
    assert town.send(theirs, added["hook_url"]) == (202, "ignored")
    assert town.asked() == asked


def test_no_secret_is_anywhere_but_sealed(
    street: Street, ticketed: dict[str, dict[str, Any]], trackers: JiraServer
) -> None:
    thieves = [street.start(street.towns[kind], "thief") for kind in ("github-app", "gitlab")]
    for job_id in thieves:
        street.completed(job_id)
        assert found_by_thief(street.api.log(job_id)) == {"./decoy.txt"}
    secrets = {trackers.token}.union(*(town.secrets for town in street.towns.values()))
    assert len(secrets) > 10
    forms = {form for secret in secrets for form in written(secret)}
    kept = list(everything_kept(street))
    # It is looked where something is.
    assert {"forge_connections", "trackers"} <= {place for place, _ in kept}
    for place, content in kept:
        assert not [form for form in forms if form in content], place
    for town in street.towns.values():
        pushes = [line for line in town.command_lines if " push " in line]
        assert any(town.server.url in line for line in pushes)
        lines = "\n".join(town.command_lines).encode()
        assert not [form for form in forms if form in lines]


def found_by_thief(log: str) -> set[str]:
    lines = [line.partition("found: ") for line in log.splitlines()]
    return {path for _, mark, path in lines if mark}


def written(secret: str) -> Iterator[bytes]:
    """As it is, and as the header for git has it."""
    yield secret.encode()
    for user in ("x-access-token", "oauth2", "agentjobs-bot"):
        yield base64.b64encode(f"{user}:{secret}".encode())


def everything_kept(street: Street) -> Iterator[tuple[str, bytes]]:
    data_dir = street.service.data_dir
    for path in data_dir.rglob("*"):
        if path.is_file() and not path.is_symlink():
            yield str(path), path.read_bytes()
    with closing(sqlite3.connect(data_dir / "agentjobs.db")) as db:
        tables = [
            name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        ]
        assert "forge_connections" in tables
        for table in tables:
            for row in db.execute(f"SELECT * FROM {table}"):
                cells = [cell if isinstance(cell, bytes) else str(cell).encode() for cell in row]
                yield table, b"\n".join(cells)
    for town in street.towns.values():
        for job in street.jobs(town.shop.full_name):
            yield job["job_id"], street.api.log(job["job_id"]).encode()
            yield job["job_id"], street.api.http.get(f"/jobs/{job['job_id']}").content
