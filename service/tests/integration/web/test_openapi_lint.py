"""The OpenAPI document passes the recommended rules of two linters; no rule is switched off."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from agentjobs.web.api.openapi import build_document
from agentjobs.web.api.operations import BASE, OPERATIONS
from tests.support.paths import PROJECT

LINTERS = PROJECT / ".npm-tests/node_modules/.bin"
OFFLINE = {"REDOCLY_TELEMETRY": "off", "REDOCLY_SUPPRESS_UPDATE_NOTICE": "true"}


@pytest.fixture
def documents(tmp_path: Path) -> Path:
    """The document, and one with faults, which shows that the linter applies its rules."""
    document = build_document(OPERATIONS, base=BASE)
    (tmp_path / "document.json").write_text(json.dumps(document))
    bare = {"openapi": "3.1.0", "info": {"title": "Bare", "version": "1"}, "paths": {}}
    (tmp_path / "bare.json").write_text(json.dumps(bare))
    return tmp_path


def test_redocly_finds_no_problem(documents: Path) -> None:
    output = lint(documents, "redocly", "lint", "--extends=recommended", "--format=github-actions")
    assert_only_bare([line for line in output.splitlines() if line.startswith("::")])


def test_spectral_finds_no_problem(documents: Path) -> None:
    ruleset = documents / "ruleset.yaml"
    ruleset.write_text('extends: ["spectral:oas"]\n')
    output = lint(documents, "spectral", "lint", "--ruleset", str(ruleset), "--format=text")
    assert_only_bare([line for line in output.splitlines() if ".json:" in line])


def lint(directory: Path, program: str, *arguments: str) -> str:
    done = subprocess.run(
        [LINTERS / program, *arguments, "document.json", "bare.json"],
        cwd=directory,
        env={**os.environ, **OFFLINE},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout, done.stderr
    return done.stdout


def assert_only_bare(problems: list[str]) -> None:
    assert [line for line in problems if "bare.json" not in line] == []
    assert problems
