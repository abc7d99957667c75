"""Commits that GitHub makes and signs for an App, through the steps of a run."""

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from agentjobs.platforms.protocol import NewCommit, PlatformError, RepoAddress, SigningPlatform
from agentjobs.publishing import platform_signing
from agentjobs.publishing.earlier_attempt import PushedWork
from agentjobs.publishing.hosted_repo import HostedRepo
from agentjobs.publishing.platform_signing import sign_by_platform
from agentjobs_runtime.mirrors.errors import PushDenied
from tests.support.forge_servers import push_refusals
from tests.support.forge_servers.faults import forbidden, server_error, web_page
from tests.support.forge_servers.github import GitHubServer
from tests.support.git_commands import commit_files, git_output
from tests.support.platform_adapters import PlatformHarness, platform_harness
from tests.support.run_fields import RunFields
from tests.support.signatures import verify_commit

COMMITS = "POST /repos/{owner}/{repo}/git/commits"
MESSAGE = "Change ü\n\nBody.\n\nJob: job_1\nAgent: edit\n"


class Run:
    """A run whose mirror has a commit that the platform lacks."""

    def __init__(
        self, harness: PlatformHarness, directory: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        assert isinstance(harness.server, GitHubServer)
        self.harness, self.server = harness, harness.server
        self.mirror = directory / "mirror"
        git_output("clone", "--quiet", str(harness.git_dir), str(self.mirror), cwd=directory)
        (self.mirror / "tool").write_text("#!/bin/sh\n")
        (self.mirror / "tool").chmod(0o755)
        (self.mirror / "link").symlink_to("tool")
        base = git_output("rev-parse", "HEAD", cwd=self.mirror)
        commit = commit_files(self.mirror, {"large.bin": os.urandom(200_000)}, MESSAGE)
        self.work = PushedWork(base, commit)
        self.signing = "platform"
        self.notes: list[str] = []
        self.warnings: list[str] = []
        self.context: Any = RunFields(
            db=None,
            mirror=self.mirror / ".git",
            log=SimpleNamespace(note=self.notes.append, redact=str),
            job=SimpleNamespace(id="job_1", agent="edit", credential="", connection_id="fcn_1"),
            warn=self.warn,
        )

        async def load_connection(*_: object) -> Any:
            return SimpleNamespace(signing=self.signing)

        async def check_claim(_: object) -> None:
            pass

        monkeypatch.setattr(platform_signing, "load_connection", load_connection)
        monkeypatch.setattr(HostedRepo, "check_claim", check_claim)
        monkeypatch.setattr("agentjobs.publishing.retry.BACKOFF_SECONDS", ())

    async def warn(self, text: str) -> None:
        self.warnings.append(text)

    async def sign(self) -> PushedWork:
        repo = HostedRepo(self.context, self.harness.adapter, self.harness.repo)
        return await sign_by_platform(self.context, repo, self.work)

    def refs(self) -> str:
        return git_output("for-each-ref", "refs/agentjobs", cwd=self.harness.git_dir) + git_output(
            "for-each-ref", "refs/agentjobs", cwd=self.mirror
        )


async def test_github_makes_and_signs_the_same_change(
    tmp_path: Path, template: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with platform_harness("github-app", tmp_path, template) as harness:
        run = Run(harness, tmp_path, monkeypatch)
        signed = await run.sign()
        assert (signed.base, signed.commit != run.work.commit) == (run.work.base, True)
        shown = git_output("show", "-s", "--format=%P %an|%cn|%B", signed.commit, cwd=run.mirror)
        assert shown == f"{run.work.base} agentjobs[bot]|GitHub|{MESSAGE.rstrip()}"
        # Executable files, links and large files are the same.
        assert git_output("diff", run.work.commit, signed.commit, cwd=run.mirror) == ""
        key = run.server.signing_public_key
        assert verify_commit(run.mirror, signed.commit, f"noreply@github.com {key}").returncode == 0
        assert (run.refs(), run.warnings) == ("", [])

        run.signing = "none"
        assert await run.sign() == run.work


async def test_work_that_github_does_not_sign_is_published_with_a_warning(
    tmp_path: Path, template: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with platform_harness("github-app", tmp_path, template) as harness:
        run = Run(harness, tmp_path, monkeypatch)
        # GitHub Enterprise Server does so unless its operator has configured a key.
        run.server.signs_commits = False
        assert await run.sign() == run.work
        harness.row.push_refusal = push_refusals.GITHUB_RULESET
        assert await run.sign() == run.work
        assert ["(unsigned)" in text for text in run.warnings] == [True, False]
        assert "a ruleset" in run.warnings[1]
        assert run.refs() == ""


FAULTS = [
    forbidden("Write access to repository not granted.", times=None, on="git-receive-pack"),
    web_page(200, times=None, on=COMMITS),
    web_page(403, times=None, on=COMMITS),
    forbidden("Resource not accessible by integration", times=None, on=COMMITS),
    server_error(503, times=None, on=COMMITS),
]


async def test_an_outage_or_a_lost_permission_is_raised_so_that_the_work_is_kept(
    tmp_path: Path, template: Path, monkeypatch: pytest.MonkeyPatch, subtests: pytest.Subtests
) -> None:
    async with platform_harness("github-app", tmp_path, template) as harness:
        run = Run(harness, tmp_path, monkeypatch)
        # The token was issued some time ago, so that a 403 is final.
        monkeypatch.setattr("agentjobs.platforms.github.app.REPLICATION_SECONDS", 0)
        for fault in FAULTS:
            with subtests.test(fault=fault):
                run.server.clear_faults()
                run.server.next(fault)
                with pytest.raises((PlatformError, PushDenied)) as caught:
                    await run.sign()
                error = caught.value
                assert isinstance(error, PushDenied) or error.is_temporary or error.is_of_connection
                assert (run.refs(), run.warnings) == ("", [])


async def test_nothing_is_left_behind_if_the_token_expires_while_the_platform_is_busy(
    tmp_path: Path, template: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with platform_harness("github-app", tmp_path, template) as harness:
        run = Run(harness, tmp_path, monkeypatch)
        adapter = harness.adapter
        assert isinstance(adapter, SigningPlatform)
        create = adapter.create_signed_commit

        async def create_later(repo: RepoAddress, ref: str, commit: NewCommit) -> None:
            await create(repo, ref, commit)
            await harness.clock.sleep(2 * 3_600)

        monkeypatch.setattr(adapter, "create_signed_commit", create_later)
        assert (await run.sign()).commit != run.work.commit
        assert (run.refs(), run.warnings) == ("", [])
