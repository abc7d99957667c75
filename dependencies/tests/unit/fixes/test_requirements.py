"""Text edits of requirements files and pyproject.toml change no other byte."""

from pathlib import Path

import pytest

from agentjobs_dependencies.fixes.model import CannotFix, Fix
from agentjobs_dependencies.fixes.python import (
    pyproject,
    requirement_lines,
    requirement_text,
    requirements,
)
from agentjobs_dependencies.fixes.python.project_requirements import read_setup_cfg
from agentjobs_dependencies.versions import pypi

FIX = Fix(
    "PyPI", "requirements.txt", "requests", "2.25.0", "2.31.0", hashes=("sha256:b", "sha256:a")
)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("requests==2.25.0\n", "requests==2.31.0\n"),
        ("a==1\r\nRequests == 2.25.0 # why\r\n", "a==1\r\nRequests == 2.31.0 # why\r\n"),
        ("requests[socks]==2.25.0", "requests[socks]==2.31.0"),
        ("\ufeffrequests==2.25.0\nb==1\n", "\ufeffrequests==2.31.0\nb==1\n"),
        ("requests==2.25 ; os_name == 'nt'\n", "requests==2.31.0 ; os_name == 'nt'\n"),
        ("requests===2.25.0,<3\n", "requests===2.31.0,<3\n"),
        (
            "requests==2.25.0 \\\n    --hash=sha256:1 \\\n    --hash=sha256:2\n    # via x\n",
            "requests==2.31.0 \\\n    --hash=sha256:a \\\n    --hash=sha256:b\n    # via x\n",
        ),
        (
            "requests==2.25.0 \\\r\n  --hash=sha256:1\r\nb==1 --hash=md5:9",
            "requests==2.31.0 \\\r\n  --hash=sha256:a \\\r\n  --hash=sha256:b\r\nb==1 --hash=md5:9",
        ),
        (
            "requests==2.25.0 --hash=sha256:1 --hash=sha256:2  # end\n",
            "requests==2.31.0 --hash=sha256:a --hash=sha256:b  # end\n",
        ),
        (
            "requests==2.25.0; python_version<'3'\nrequests==2.30.0; python_version>='3'\n",
            "requests==2.31.0; python_version<'3'\nrequests==2.30.0; python_version>='3'\n",
        ),
        ("# requests==2.25.0\nrequests==2.25.0\udcff\n", None),
        ("requests-mock==2.25.0\nmy-requests==2.25.0\n", None),
        ("requests>=2.25.0\n", None),
        ("x==1 # \\\nrequests==2.25.01\n", None),
        ("", None),
    ],
)
def test_only_the_pin_and_its_hashes_change(before: str, after: str | None) -> None:
    if after is None:
        with pytest.raises(CannotFix, match=r"no line `requests==2\.25\.0`"):
            requirement_lines.update_pin(before, FIX)
    else:
        assert requirement_lines.update_pin(before, FIX) == after


def test_a_hashed_pin_is_not_changed_without_the_new_hashes() -> None:
    unhashed = Fix("PyPI", "requirements.txt", "requests", "2.25.0", "2.31.0")
    with pytest.raises(CannotFix, match="hashes of requests"):
        requirement_lines.update_pin("requests==2.25.0 --hash=sha256:1\n", unhashed)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("requests==2.25.0  # http\n", "requests==2.31.0  # http\n"),
        ("requests >=2.20, <2.30 ; os_name=='nt'", "requests >=2.31.0, <3 ; os_name=='nt'"),
        ("requests>=2\nidna<3\n", "requests>=2\nidna<3\n"),
        ("-r base.in\nrequests\n", "-r base.in\nrequests\n"),
    ],
)
def test_the_source_of_a_compiled_file_allows_the_new_version(before: str, after: str) -> None:
    assert requirement_lines.allow_version(before, "requests", "2.31.0") == after


@pytest.mark.parametrize(
    ("specifier", "version", "expected"),
    [
        ("==2.25.0", "2.31.0", "==2.31.0"),
        ("==2.25.*", "2.31.0", "==2.31.*"),
        ("~=2.25.0", "2.31.0", "~=2.31.0"),
        ("~=1.4", "2.3.1", "~=2.3,>=2.3.1"),
        (">=2.25,<2.30", "2.31.0", ">=2.31.0,<3"),
        (">=1, <=2", "3.4", ">=3.4, <4"),
        ("^2.25", "3.1.0", "^3.1.0"),
        ("^0.2.3", "0.3.0", "^0.3.0"),
        ("~2.25", "2.31.0", "~2.31"),
        ("2.25.0", "2.31.0", "2.31.0"),
        ("!=2.31.0", "2.31.0", None),
        ("^1.0 || ^2.0", "3.0", None),
        ("whatever", "3.0", None),
    ],
)
def test_a_specifier_is_raised_as_little_as_possible(
    specifier: str, version: str, expected: str | None
) -> None:
    assert pypi.raise_specifier(specifier, version) == expected


@pytest.mark.parametrize(
    ("specifier", "version", "is_admitted"),
    [
        (">=2,<3", "2.31.0", True),
        (">=2 <3", "3.0", False),
        ("^2.25", "2.31.0", True),
        ("^0.2", "0.3", False),
        ("~=2.25", "2.31", True),
        ("~2", "2.9", True),
        ("==2.*", "2.0rc1", True),
        ("<2.0", "2.0rc1", True),
        (">=2.0", "2.0.post1", True),
        (">2.0", "2.0.dev1", False),
        ("==1!2.0", "2.0", False),
        ("*", "9", True),
        ("", "9", True),
        ("^1 || ^2", "2.5", True),
        ("no version", "1", True),
    ],
)
def test_a_specifier_allows_the_same_versions_as_in_the_ecosystem(
    specifier: str, version: str, *, is_admitted: bool
) -> None:
    assert pypi.allows(specifier, version) is is_admitted


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("idna==2.10 # " + "x" * 5_000, ["idna==2.10"]),
        ("idna==2.10 --hash=sha256:1", ["idna==2.10"]),
        ("idna [a] <3 ; os_name == 'nt'", ["idna[a]<3 ; os_name == 'nt'"]),
        ("idna\t# why", ["idna"]),
        ("-e .\nidna @ https://example.com/idna.whl\n# idna==1\n", []),
    ],
)
def test_only_requirements_of_the_registry_reach_the_resolver(
    text: str, expected: list[str]
) -> None:
    assert [line.strip() for line in requirement_text.read_requirements(text)] == expected


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("idna == 2.10 # x\n", "idna>=2.10,<3 # x\n"),
        ("idna[a]==2.10 ; b\n", "idna[a]>=2.10,<3 ; b\n"),
        ("idna==2.10 \\\n  --hash=sha256:1\n", "idna>=2.10,<3 \\\n  --hash=sha256:1\n"),
        ("requests==2.25.0\nidna==1!2\nidna<3\n", "requests==2.25.0\nidna==1!2\nidna<3\n"),
    ],
)
def test_other_pins_are_relaxed_within_their_major_version(before: str, after: str) -> None:
    assert requirement_lines.relax_pins(before, keep="requests") == after


SETUP_CFG = """\
[options]
install_requires =
    requests<2.26  # why
    -e .

[options.extras_require]
web =
    urllib3==1.26.5
docs = file: docs.txt
"""


def test_the_new_version_has_to_fit_setup_cfg(tmp_path: Path) -> None:
    (tmp_path / "setup.cfg").write_text(SETUP_CFG)
    fix = Fix(
        *("PyPI", "requirements.txt", "urllib3", "1.26.5", "1.26.17"),
        installed_together=(("requirements.txt", "setup.cfg"),),
    )
    setting = requirements.install_settings(fix, tmp_path)[0][0]
    assert setting.others_after.requirements.split() == ["requests<2.26", "urllib3==1.26.5"]


@pytest.mark.parametrize("text", ["[options", "a\n" * 10_000, "[a]\nb\n  c = d\n= e\n"])
def test_an_unreadable_setup_cfg_is_left_out(tmp_path: Path, text: str) -> None:
    (tmp_path / "setup.cfg").write_text(text)
    with pytest.raises(CannotFix, match=r"setup\.cfg"):
        read_setup_cfg(text)


PYPROJECT = """\
# kept
[build-system]
requires = ["requests==2.25.0"]

[project]
name = "demo"
dependencies = [
  "requests[socks]<2.30; os_name == 'nt'",  # why "requests==1"
  'Requests == 2.25.0',
  "requests>=2",
]
[project.optional-dependencies]
http = ["idna (==1)", "requests~=2.25.0", "a;b=='c'", "requests (<2.30)", "idna==1"]

[dependency-groups]
dev = [{include-group = "x"}, "requests==2.25.0"]

[tool.other]
dependencies = ["requests==2.25.0"]

[tool.poetry.dependencies]
python = "^3.9"
requests = "2.25.0"   # exact
"urllib3" = "1.26"
[tool.poetry.group.dev.dependencies]
requests = {version = "~2.25", extras = ["socks"]}
[tool.poetry.group.docs.dependencies.requests]
version = "<2.30"
"""


def test_every_requirement_that_excludes_the_version_is_raised() -> None:
    edited = pyproject.allow_version(PYPROJECT, "requests", "2.31.0")
    changed = [
        line
        for old, line in zip(PYPROJECT.splitlines(), edited.splitlines(), strict=True)
        if old != line
    ]
    assert changed == [
        '  "requests[socks]<3; os_name == \'nt\'",  # why "requests==1"',
        "  'Requests == 2.31.0',",
        'http = ["idna (==1)", "requests~=2.31.0", "a;b==\'c\'", "requests (<3)", "idna==1"]',
        'dev = [{include-group = "x"}, "requests==2.31.0"]',
        'requests = "2.31.0"   # exact',
        'requests = {version = "~2.31", extras = ["socks"]}',
        'version = "<3"',
    ]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('[project]\nname = "x"', '[project]\nname = "x"\n\n[tool.uv]\nNEW]\n'),
        ("[tool.uv]\npackage = false\r\n", "[tool.uv]\r\nNEW]\npackage = false\r\n"),
        ("[tool.uv]\nother = 1\n[a]\n", "[tool.uv]\nNEW]\nother = 1\n[a]\n"),
        ('[tool.uv]\noverride-dependencies = ["b"]\n', '[tool.uv]\nNEW, "b"]\n'),
    ],
)
def test_an_override_is_added_to_those_of_the_project(before: str, after: str) -> None:
    expected = after.replace("NEW", 'override-dependencies = ["a>=2"')
    assert pyproject.add_override(before, "a>=2") == expected


def test_an_invalid_pyproject_is_reported_and_not_written() -> None:
    with pytest.raises(CannotFix, match="cannot be read"):
        pyproject.allow_version("[project\n", "requests", "2.31.0")
