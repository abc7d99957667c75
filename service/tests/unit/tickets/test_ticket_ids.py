"""How people write a ticket, and what a tracker's address may be."""

import pytest

from agentjobs.tickets.issues import parse_issue
from agentjobs.tickets.jira import parse_key
from agentjobs.tickets.trackers import NewTracker, draft_from
from agentjobs_runtime.problems import Problem

SITE = "https://acme.atlassian.net"
TOKEN = "jira-secret-token"


@pytest.mark.parametrize(
    ("written", "repo", "number"),
    [
        ("12", "acme/shop", 12),
        ("#12", "acme/shop", 12),
        (" #12 ", "acme/shop", 12),
        ("other/name#7", "other/name", 7),
        ("a/b/c/d.e_f-g#7", "a/b/c/d.e_f-g", 7),
        ("acme/.github#1", "acme/.github", 1),
    ],
)
def test_an_issue_is_a_number_with_or_without_its_repository(
    written: str, repo: str, number: int
) -> None:
    assert parse_issue(written, "acme/shop") == (repo, number)


@pytest.mark.parametrize(
    "written",
    [
        *("", "#", "0", "#0", "-1", "1.5", "#1 2", "##1", "\u0661", "9" * 19, "ABC-123"),
        *("name#1", "/name#1", "a//b#1", "a/b1", "a/b#", "../b#1", "a/..#1", "a/./b#1", "a b/c#1"),
        "a/" * 30 + "b#1",
    ],
)
def test_anything_else_is_no_issue(written: str) -> None:
    assert parse_issue(written, "acme/shop") is None


@pytest.mark.parametrize(
    ("written", "key"),
    [
        ("ABC-123", "ABC-123"),
        (" shop-17 ", "SHOP-17"),
        ("A1_B-9", "A1_B-9"),
        (f"{SITE}/browse/ABC-1", "ABC-1"),
        (f"{SITE}/browse/ABC-1?focusedCommentId=7#c", "ABC-1"),
    ],
)
def test_a_key_is_found_in_what_people_paste(written: str, key: str) -> None:
    assert parse_key(written, SITE) == key


@pytest.mark.parametrize(
    "written",
    [
        *("", "ABC", "ABC-", "ABC-0", "-1", "1-1", "12", "#12", "ABC-1/../..", "ABC-1 2", "ÄB-1"),
        *("ABC_-", "ABC-1\u0661", "https://elsewhere.example/browse/ABC-1", "A" * 101 + "-1"),
    ],
)
def test_anything_else_is_no_key(written: str) -> None:
    assert parse_key(written, SITE) is None


@pytest.mark.parametrize(
    ("given", "url", "account"),
    [
        ({"url": f"{SITE}/jira/your-work", "account": "a@b.c"}, SITE, "a@b.c"),
        (
            {"url": "https://api.atlassian.com/ex/jira/1-2/", "account": "a@b.c"},
            "https://api.atlassian.com/ex/jira/1-2",
            "a@b.c",
        ),
        (
            {"url": "https://Jira.Example.com:8443/jira/"},
            "https://jira.example.com:8443/jira",
            None,
        ),
        (
            {"url": "https://jira.example.com", "flavour": "cloud", "account": "a@b.c"},
            "https://jira.example.com",
            "a@b.c",
        ),
    ],
)
def test_cloud_is_recognized_by_its_host_or_specified(
    given: dict, url: str, account: str | None
) -> None:
    draft = draft_from("org_1", NewTracker(kind="jira", token=TOKEN, **given))
    assert (draft.url, draft.account) == (url, account)
    assert draft.flavour == ("data-center" if account is None else "cloud")


@pytest.mark.parametrize(
    "given",
    [
        {"url": ""},
        {"url": "http://jira.example.com"},
        {"url": "jira.example.com"},
        {"url": "https://me:secret@jira.example.com"},
        {"url": "https://jira.example.com/?x"},
        {"url": SITE},
        {"url": SITE, "account": "not an address"},
        {"url": SITE, "account": "a:b@c.d"},
        {"url": "https://jira.example.com", "account": "a@b.c"},
        {"url": "https://jira.example.com", "name": "issues"},
        {"url": "https://jira.example.com", "name": "A B"},
        {"url": "https://jira.example.com", "token": ""},
        {"url": "https://jira.example.com", "token": "two words"},
    ],
)
def test_an_invalid_tracker_is_refused_without_quoting_its_token(given: dict) -> None:
    new = NewTracker(**{"kind": "jira", "token": TOKEN, **given})
    with pytest.raises(Problem) as problem:
        draft_from("org_1", new)
    assert TOKEN not in problem.value.message + repr(new)
