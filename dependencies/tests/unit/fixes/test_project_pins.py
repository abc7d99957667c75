"""What a project requires, and which of its installations are checked after a fix."""

from pathlib import Path

import pytest

from agentjobs_dependencies.fixes.model import CannotFix
from agentjobs_dependencies.fixes.python.project_pins import install_settings
from agentjobs_dependencies.fixes.python.project_requirements import (
    ProjectRequirements,
    read_project,
)


def test_extras_and_groups_that_a_fix_changes_are_installations() -> None:
    before = ProjectRequirements(
        "demo",
        "six\n",
        {"web": "urllib3==1\n", "docs": "sphinx\n"},
        {"dev": "urllib3==1\n", "lint": "ruff\n"},
    )
    after = ProjectRequirements(
        "demo", "six\n", {**before.extras, "web": "urllib3==2\n"}, before.groups
    )
    alternatives = install_settings(before, after, ("3.9",))
    texts = [[each.others_after.requirements for each in settings] for settings in alternatives]
    assert texts == [
        ["six\nurllib3==2\nsphinx\nurllib3==1\nruff\n"],
        ["six\nurllib3==2\nsphinx\nurllib3==1\nruff\n"],
        ["six\nurllib3==2\n"],
        ["six\nurllib3==2\n"],
    ]
    assert [settings[0].pythons for settings in alternatives] == [("3.9",), ("",)] * 2


def test_the_installations_of_a_project_with_many_extras_are_bounded() -> None:
    extras = {f"e{number}": "idna\n" for number in range(1_000)}
    before = ProjectRequirements("demo", "six==1\n", extras)
    after = ProjectRequirements("demo", "six==2\n", extras)
    assert [len(settings) for settings in install_settings(before, after, ())] == [1, 10]


def test_extras_that_are_nested_too_deeply_are_refused(tmp_path: Path) -> None:
    rows = (f'e{number} = ["demo[e{number + 1}]"]\n' for number in range(3_000))
    text = f'[project]\nname = "demo"\n[project.optional-dependencies]\n{"".join(rows)}'
    with pytest.raises(CannotFix, match="nested too deeply"):
        read_project(tmp_path / "pyproject.toml", tmp_path, text)
