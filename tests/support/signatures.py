"""Verifies signatures of commits with git and OpenSSH."""

import subprocess
from pathlib import Path


def verify_commit(tree: Path, commit: str, *allowed: str) -> subprocess.CompletedProcess[str]:
    """`allowed` are lines of an allowed signers file."""
    signers = tree / "allowed_signers"
    signers.write_text("".join(f"{line}\n" for line in allowed))
    settings = ("-c", "gpg.format=ssh", "-c", f"gpg.ssh.allowedSignersFile={signers}")
    command = ["git", *settings, "verify-commit", "--verbose", commit]
    return subprocess.run(command, cwd=tree, capture_output=True, text=True, check=False)
