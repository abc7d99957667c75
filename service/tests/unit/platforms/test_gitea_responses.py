import msgspec
import pytest

from agentjobs.platforms.gitea.responses import (
    DRAFT_MARK,
    Access,
    Pull,
    Repository,
)
from agentjobs.platforms.protocol import PullRequestRequest


def request(**fields: object) -> PullRequestRequest:
    given = {
        "head_branch": "agentjobs/one",
        "base_branch": "main",
        "head_commit": "a" * 40,
        "base_commit": "b" * 40,
        "title": "A change",
        "body": "Because.",
        **fields,
    }
    return PullRequestRequest(**given)  # type: ignore[arg-type]


def pull(**fields: object) -> Pull:
    side = {"label": "agentjobs/one", "repo_id": 5, "sha": "a" * 40}
    given = {"number": 3, "title": "A change", "state": "open", "head": side, "base": side}
    return msgspec.convert({**given, **fields}, Pull)


@pytest.mark.parametrize("title", ["WIP: x", "wip:x", "[WIP] x", "[wip]WIP: x", "  WIP:  x"])
def test_the_marks_of_a_draft_are_known_however_they_are_written(title: str) -> None:
    assert DRAFT_MARK.is_in(title)
    assert DRAFT_MARK.remove(title) == "x"
    assert DRAFT_MARK.add(title) == "WIP: x"


def test_a_word_that_starts_like_a_mark_is_not_one() -> None:
    assert DRAFT_MARK.remove("Wipe the table") == "Wipe the table"
    assert not DRAFT_MARK.is_in("A WIP: x")


def test_a_title_is_never_empty_and_never_too_long() -> None:
    assert DRAFT_MARK.build_title(request(title="WIP:")) == "agentjobs/one"
    assert DRAFT_MARK.build_title(request(title="WIP:", draft=True)) == "WIP: agentjobs/one"
    assert len(DRAFT_MARK.build_title(request(title="ü" * 400, draft=True))) == 255
    assert len(DRAFT_MARK.add("x" * 255)) == 255


def test_drafts_of_older_versions_are_recognized_by_the_title() -> None:
    assert pull(title="WIP: A change").is_draft
    assert not pull().is_draft
    assert not pull(title="WIP: A change", draft=False).is_draft
    assert pull(title="Draft! A change", draft=True).is_draft


def test_a_branch_of_a_fork_is_another_branch() -> None:
    assert pull().is_from("agentjobs/one")
    assert not pull().is_from("agentjobs/two")
    assert not pull(base={"label": "main", "repo_id": 6}).is_from("agentjobs/one")
    # The fork is gone.
    assert not pull(head={"label": "agentjobs/one", "repo_id": -1}).is_from("agentjobs/one")


def test_the_state_is_open_merged_or_closed() -> None:
    assert pull().pull_state == "open"
    assert pull(state="closed").pull_state == "closed"
    assert pull(state="closed", merged=True).pull_state == "merged"
    draft = pull(title="WIP: A change")
    now = draft.remote_pull("https://git.example/x/pulls/3")
    assert (now.title, now.draft, now.head_commit) == ("A change", True, draft.head.sha)


def test_lists_may_be_null() -> None:
    bare = pull(labels=None, requested_reviewers=None, user=None)
    assert bare.requested_names == set()
    asked = pull(
        requested_reviewers=[{"login": "Ada"}], requested_reviewers_teams=[{"name": "Core"}]
    )
    assert asked.requested_names == {"ada", "/core"}


def test_an_empty_repository_has_no_default_branch_yet() -> None:
    empty = Repository(7, "acme/shop", "main", empty=True)
    assert empty.remote.default_branch == ""
    assert not empty.remote.may_push
    assert empty.remote.external_id == "7"


@pytest.mark.parametrize(
    ("permission", "may"),
    [("owner", True), ("admin", True), ("write", True), ("read", False), ("none", False)],
)
def test_a_role_has_write_access_or_not(permission: str, may: bool) -> None:
    assert Access(permission).may_write is may
