"""Which manifests that are read the agent `cve-fixer` can also edit."""

import pytest

from agentjobs.agents.cve_fixer_support import can_fix
from agentjobs.inventory.manifests.kinds import READERS, kind_of

REPORTED_ONLY = {
    *("setup.cfg", "Pipfile", "Pipfile.lock", "yarn.lock", "Cargo.toml", "Cargo.lock"),
    *("Gemfile.lock", "composer.json", "composer.lock"),
}


def test_every_manifest_is_edited_or_known_to_be_reported_only() -> None:
    fixable = {kind for kind, (ecosystem, *_) in READERS.items() if can_fix(ecosystem, kind)}
    assert set(READERS) - fixable == REPORTED_ONLY


@pytest.mark.parametrize(
    "path", ["requirements-dev.txt", "dev-requirements.txt", "a/requirements/base.txt"]
)
def test_requirements_are_edited_by_whatever_name_they_are_read(path: str) -> None:
    assert kind_of(path) == "requirements.txt"
    assert can_fix("PyPI", path)
