"""Rewrites the lock files with the locked uv, asking the package index that pip is set up for."""

import os
import subprocess
import sys
from pathlib import Path

import install

COMPILE = (
    *("uv", "pip", "compile", "--upgrade", "--quiet", "--generate-hashes"),
    *("--no-emit-index-url", "--no-emit-find-links", "--universal", "--python-version", "3.11"),
    *("--custom-compile-command", "make lock"),
)
OUTPUT = ("--output-file", "requirements.lock")
OUTPUT_DEV = ("--output-file", "requirements-dev.lock")
OUTPUT_AGENTS = ("--output-file", "requirements-agents.lock")


def main() -> None:
    pip = install.pip_settings(sys.executable)
    # An extra index may hold the files of one platform only; a lock needs the hashes of all.
    settings = install.uv_settings({key: pip[key] for key in ("index-url", "cert") if key in pip})
    project = ("pyproject.toml",)
    for arguments in (
        (*project, "--group", "build", *OUTPUT),
        # What runs in production is what the tests ran on.
        (*project, "--group", "dev", "--constraints", "requirements.lock", *OUTPUT_DEV),
        # Nothing of the service's own: an agent never sees the service's environment.
        ("--group", "agents", *OUTPUT_AGENTS),
    ):
        subprocess.run(
            [sys.executable, "-m", *COMPILE, *arguments],
            env={**settings, **os.environ},
            cwd=Path(install.PROJECT),
            check=True,
        )


if __name__ == "__main__":
    main()
