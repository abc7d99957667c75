"""Signed commits, verified by git and OpenSSH."""

import subprocess
from pathlib import Path

import pytest

from agentjobs_runtime.git.signing import COMMITS, SigningKey, fingerprint, sign_commit
from tests.support.git_commands import commit_files, git_output
from tests.support.signatures import verify_commit


@pytest.fixture(params=["sha1", "sha256"])
def repository(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    tree = tmp_path / "tree"
    tree.mkdir()
    git_output("init", "--quiet", f"--object-format={request.param}", cwd=tree)
    commit_files(tree, {"a.txt": "a"}, "Change ü\n\nBody.\n\nJob: job_1\nAgent: edit")
    return tree


async def test_git_verifies_a_signed_commit_and_only_with_its_key(repository: Path) -> None:
    key = SigningKey.generate()
    unsigned = git_output("rev-parse", "HEAD", cwd=repository)
    signed = await sign_commit(repository / ".git", unsigned, key)
    assert signed != unsigned
    good = verify_commit(repository, signed, f"bot@example.com {key.public_text}")
    assert good.returncode == 0, good.stderr
    assert 'Good "git" signature for bot@example.com' in good.stderr
    other = SigningKey.generate()
    assert verify_commit(repository, signed, f"bot@example.com {other.public_text}").returncode != 0
    assert verify_commit(repository, unsigned, f"bot@example.com {key.public_text}").returncode != 0
    # Everything but the signature is the same, and the object is well formed.
    for shape in ("%T %P %an %ae %at %cn %ce %ct", "%B"):
        shown = [
            git_output("show", "-s", f"--format={shape}", commit, cwd=repository)
            for commit in (unsigned, signed)
        ]
        assert shown[0] == shown[1]
    assert git_output("fsck", "--strict", "--no-dangling", signed, cwd=repository) == ""


def test_a_key_of_openssh_can_be_given(tmp_path: Path) -> None:
    file = tmp_path / "id"
    create = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", str(file)]
    subprocess.run(create, check=True)
    key = SigningKey.parse(file.read_text())
    assert key.public_text == (tmp_path / "id.pub").read_text().strip()
    listed = subprocess.run(
        ["ssh-keygen", "-l", "-f", str(file)], capture_output=True, text=True, check=True
    )
    assert fingerprint(key.public_text) in listed.stdout
    assert SigningKey.parse(key.private_text).public_text == key.public_text


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (("-t", "rsa", "-b", "2048", "-N", ""), "another kind of key"),
        (("-t", "ed25519", "-N", "secret words"), "must not have a passphrase"),
    ],
)
def test_other_keys_are_refused_with_a_reason(
    options: tuple[str, ...], reason: str, tmp_path: Path
) -> None:
    file = tmp_path / "id"
    subprocess.run(["ssh-keygen", "-q", *options, "-f", str(file)], check=True)
    with pytest.raises(ValueError, match=reason):
        SigningKey.parse(file.read_text())


@pytest.mark.parametrize("text", ["", "ssh-ed25519 AAAA", "-----BEGIN OPENSSH PRIVATE KEY-----\nx"])
def test_text_that_is_no_key_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"private key file|cannot be read"):
        SigningKey.parse(text)


def test_a_signature_is_valid_only_for_its_purpose(tmp_path: Path) -> None:
    key = SigningKey.generate()
    (tmp_path / "signature").write_text(key.sign(b"token", "gitea"))
    (tmp_path / "signers").write_text(f"bot {key.public_text}\n")
    for namespace, is_valid in (("gitea", True), (COMMITS, False)):
        verification = subprocess.run(
            [
                *("ssh-keygen", "-Y", "verify", "-I", "bot", "-n", namespace),
                *("-f", str(tmp_path / "signers"), "-s", str(tmp_path / "signature")),
            ],
            input=b"token",
            capture_output=True,
            check=False,
        )
        assert (verification.returncode == 0) == is_valid, verification.stderr
