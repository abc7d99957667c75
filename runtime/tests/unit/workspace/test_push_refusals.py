"""Refused pushes are explained in words, from what platforms really print."""

import pytest

from agentjobs_runtime.mirrors.push_refusals import (
    MAX_MESSAGE_LENGTH,
    explain_refusal,
    explain_size,
)
from tests.support.forge_servers import push_refusals as printed

DECLINED = "[remote rejected] (pre-receive hook declined)"


def refuse(remarks: str, reason: str = DECLINED) -> str:
    stderr = "".join(f"remote: {line}        \n" for line in remarks.splitlines())
    refusal = explain_refusal(f"!\tx:refs/heads/x\t{reason}\nDone\n", f"POST git\n{stderr}To x\n")
    assert not refusal.is_temporary
    return refusal.message


@pytest.mark.parametrize(
    ("remarks", "parts"),
    [
        (
            printed.GITHUB_SECRET,
            (
                "DeepSeek API Key in .env, line 6; DeepSeek API Key in src/api keys.py, line 12",
                "allow them at https://github.com/acme/shop/security/secret-scanning/unblock-secret",
                "run the job again without them",
            ),
        ),
        (
            printed.GITLAB_SECRET,
            ("GitLab Personal Access Token in test.txt, line 2", "allow them on the platform"),
        ),
        (
            printed.GITHUB_RULESET,
            ("a ruleset", "(GH013: Cannot create ref due to creations", "exempt the branches"),
        ),
        (
            printed.GITHUB_SIGNATURES,
            ("only signed commits", "verified signatures", "`agentjobs platforms signing`"),
        ),
        (
            printed.GITHUB_PROTECTED,
            ("protects the branch", "must be made through a pull request", "`agentjobs/**`"),
        ),
        (printed.GITLAB_PROTECTED, ("protects the branch", "not allowed to push code")),
        (printed.GITEA_PROTECTED, ("protects the branch", "Not allowed to push")),
        (
            printed.GITHUB_LARGE_FILE,
            ("too large for the platform", "File data/model.bin is 122.92 MB", "raise the limit"),
        ),
        (printed.GITLAB_MESSAGE_RULE, ("a push rule", "^(feat|fix): .{1,72}$", "guidance")),
        (printed.GITLAB_FILE_RULE, ("a push rule", "deploy/dfc.keystore", "change the rule")),
        (
            printed.GITLAB_EMAIL_RULE,
            ("author of the commit", "agentjobs@localhost", "platforms check", "author_email"),
        ),
        ("no agents on Fridays", ("the push was refused", DECLINED, "no agents on Fridays")),
    ],
)
def test_a_refusal_names_the_reason_and_what_to_do(remarks: str, parts: tuple[str, ...]) -> None:
    message = refuse(remarks)
    assert [part for part in parts if part not in message] == []
    assert not [noise for noise in ("Trace:", "——", "b6ba2be6") if noise in message]
    assert len(message) <= MAX_MESSAGE_LENGTH


def test_a_missing_permission_for_workflows_is_named() -> None:
    message = refuse("", f"[remote rejected] ({printed.GITHUB_APP_WORKFLOW})")
    assert "“Workflows: read and write”" in message
    assert ".github/workflows/ci.yml" in message
    message = refuse("", f"[remote rejected] ({printed.GITHUB_TOKEN_WORKFLOW})")
    assert "the scope `workflow`" in message


def test_a_branch_in_a_merge_queue_can_be_pushed_later() -> None:
    stderr = "".join(f"remote: {line}\n" for line in printed.GITHUB_MERGE_QUEUE.splitlines())
    refusal = explain_refusal(f"!\tx:x\t{DECLINED}\n", stderr)
    assert refusal.is_temporary
    assert "until it has left the queue" in refusal.message


def test_text_of_a_platform_is_bounded_and_printable() -> None:
    message = refuse("GitLab: \x1b[31m" + "x" * 400 + " was prohibited\n" * 999)
    assert message.isprintable()
    assert len(message) <= MAX_MESSAGE_LENGTH
    assert refuse("", "") == "the push was refused: no reason given"


def test_a_request_that_is_too_large_is_explained() -> None:
    stderr = (
        "error: RPC failed; HTTP 413 curl 22 The requested URL returned error: 413\n"
        "send-pack: unexpected disconnect while reading sideband packet\n"
        "fatal: the remote end hung up unexpectedly\n"
    )
    refusal = explain_size(stderr)
    assert refusal is not None
    assert "HTTP 413" in refusal.message
    assert explain_size("error: RPC failed; HTTP 502 curl 22 after 413 bytes") is None
