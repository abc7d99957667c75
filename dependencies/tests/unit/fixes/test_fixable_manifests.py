"""Which of the manifests that the index reads the agent `cve-fixer` can edit."""

import pytest

from agentjobs_dependencies.fixes.fix import can_fix
from agentjobs_dependencies.formats.kinds import READERS, detect_kind

REPORTED_ONLY = {
    *("setup.cfg", "Pipfile", "Cargo.toml"),
    *("Gemfile.lock", "composer.json", "composer.lock"),
}


def test_every_manifest_is_editable_or_listed_as_report_only() -> None:
    fixable = {kind for kind, (ecosystem, *_) in READERS.items() if can_fix(ecosystem, kind)}
    assert set(READERS) - fixable == REPORTED_ONLY


@pytest.mark.parametrize(
    "path", ["requirements-dev.txt", "dev-requirements.txt", "a/requirements/base.txt"]
)
def test_requirements_are_editable_under_every_name_they_are_read_by(path: str) -> None:
    assert detect_kind(path) == "requirements.txt"
    assert can_fix("PyPI", path)
