"""Merging and closing pull requests on platforms, against their API descriptions."""

from agentjobs.platforms.protocol import PlatformError
from tests.support.forge_servers.faults import forbidden
from tests.support.git_commands import git_output
from tests.support.platform_adapters import BRANCHES, PlatformHarness

HEAD = BRANCHES[0]


async def merge(
    harness: PlatformHarness, number: int, method: str = "merge", head: str = ""
) -> None:
    await harness.platform.merge_pull(
        harness.repo,
        number,
        method=method,  # type: ignore[arg-type]
        head_commit=head or harness.commits[HEAD],
    )


async def state(harness: PlatformHarness, number: int) -> str:
    return (await harness.platform.pull(harness.repo, number)).state


async def refusal(harness: PlatformHarness, number: int, head: str = "") -> PlatformError:
    error = await harness.error_of(merge(harness, number, head=head))
    assert await state(harness, number) == "open"
    return error


async def test_a_pull_request_is_merged_with_each_method(harness: PlatformHarness) -> None:
    for method, branch in zip(harness.platform.merge_methods, ("a", "b", "c"), strict=False):
        head = harness.server.git.commit(harness.row, branch, {branch: branch})
        opened = await harness.open(branch, head_commit=head)
        await merge(harness, opened.number, method, head)
        remote = await harness.platform.pull(harness.repo, opened.number)
        assert (remote.state, remote.head_commit) == ("merged", head)
        shown = git_output("log", "-1", "--format=%p|%s", "main", cwd=harness.git_dir)
        parents, subject = shown.split("|")
        assert subject == method
        assert len(parents.split()) == (2 if method == "merge" else 1)
        assert git_output("show", f"main:{branch}", cwd=harness.git_dir) == branch


async def test_another_head_is_not_merged(harness: PlatformHarness) -> None:
    opened = await harness.open()
    error = await refusal(harness, opened.number, head=harness.base)
    assert error.fault == "refused"


async def test_conflicts_drafts_and_rules_are_refusals(harness: PlatformHarness) -> None:
    harness.server.git.commit(harness.row, "main", {"new.txt": "another one"})
    conflicting = await harness.open()
    assert (await refusal(harness, conflicting.number)).fault == "refused"
    draft = await harness.open(BRANCHES[1], draft=True)
    assert (await refusal(harness, draft.number, harness.commits[BRANCHES[1]])).fault == "refused"


async def test_the_platforms_reason_is_passed_on(harness: PlatformHarness) -> None:
    opened = await harness.open()
    harness.row.merge_refusal = "not_approved"
    error = await refusal(harness, opened.number)
    assert "not approved" in str(error).replace("_", " ")


async def test_a_merge_that_is_still_being_checked_is_waited_for(harness: PlatformHarness) -> None:
    opened = await harness.open()
    harness.row.unchecked_merges = 2
    await merge(harness, opened.number)
    assert await state(harness, opened.number) == "merged"


async def test_a_missing_permission_is_not_mistaken_for_a_wrong_credential(
    harness: PlatformHarness,
) -> None:
    opened = await harness.open()
    harness.row.own_role = "read"
    if harness.kind == "github-app":
        # An App has permissions instead of a role.
        harness.server.next(
            forbidden("Resource not accessible by integration", on="PUT", times=None)
        )
    error = await harness.error_of(merge(harness, opened.number))
    assert error.fault == "denied"


async def test_a_pull_request_is_closed(harness: PlatformHarness) -> None:
    opened = await harness.open()
    await harness.platform.close_pull(harness.repo, opened.number)
    assert await state(harness, opened.number) == "closed"
