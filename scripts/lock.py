"""Updates the lock files with the locked uv from the package index that pip is configured for."""

import os
import subprocess
import sys
from pathlib import Path

import install

PARTS = ("runtime", "dependencies", "worker", "kubernetes")
COMPILE = (
    *("uv", "pip", "compile", "--upgrade", "--quiet", "--generate-hashes"),
    *("--no-emit-index-url", "--no-emit-find-links", "--universal", "--python-version", "3.11"),
    *("--custom-compile-command", "make lock"),
    # Installed from this repository, not from an index.
    *(f"--no-emit-package=agentjobs-{name}" for name in ("client", *PARTS)),
)
OUTPUT = ("--output-file", "requirements.lock")
OUTPUT_DEV = ("--output-file", "requirements-dev.lock")
OUTPUT_AGENTS = ("--output-file", "requirements-agents.lock")
OUTPUT_DOCS = ("--output-file", "requirements-docs.lock")


def main() -> None:
    pip = install.pip_settings([sys.executable, "-m", "pip"])
    # An extra index may contain the files of only one platform; a lock file needs all hashes.
    settings = install.uv_settings({key: pip[key] for key in ("index-url", "cert") if key in pip})
    project = tuple(
        str((path / "pyproject.toml").relative_to(install.PROJECT)) for path in install.PACKAGES
    )
    for arguments in (
        (*project, "--group", "pyproject.toml:build", *OUTPUT),
        # Tests run with the same versions as production, and with the optional packages.
        (
            *(*project, "--group", "pyproject.toml:dev", "--all-extras"),
            *("--constraints", "requirements.lock", *OUTPUT_DEV),
        ),
        # Without the project: agents do not share the service's environment.
        ("--group", "agents", *OUTPUT_AGENTS),
        ("--group", "docs", *OUTPUT_DOCS),
    ):
        subprocess.run(
            [sys.executable, "-m", *COMPILE, *arguments],
            env={**settings, **os.environ},
            cwd=Path(install.PROJECT),
            check=True,
        )


if __name__ == "__main__":
    main()
