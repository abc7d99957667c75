"""The version of a fix suits the Python, Node.js or Rust versions that the project supports."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from agentjobs_dependencies.fixes.candidates import choose_candidate
from agentjobs_dependencies.fixes.model import Candidate, CannotFix, Fix
from agentjobs_dependencies.fixes.python.runtime import supported_pythons

FROM_3_7 = tuple(f"3.{minor}" for minor in range(7, 16))
LIST = 'python-version:\n  - "3.8"\n  - 3.12\nos:\n  - ubuntu-3.6\n'
MATRIX = "jobs:\n  test:\n    strategy:\n      matrix:\n        python-version: ['3.9', \"3.10\"]\n"


def write(root: Path, files: Mapping[str, str]) -> None:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({}, ()),
        ({"pyproject.toml": '[project]\nrequires-python = ">=3.7, <3.9"\n'}, ("3.7", "3.8")),
        ({"pyproject.toml": '[project]\nrequires-python = ">=3.7.2, <4"\n'}, FROM_3_7),
        ({"pyproject.toml": '[tool.poetry.dependencies]\npython = "~3.8"\n'}, ("3.8",)),
        ({"setup.cfg": "[options]\npython_requires = >=3.6, !=3.7.*, <3.9\n"}, ("3.6", "3.8")),
        ({"setup.py": 'setup(\n    python_requires=">=3.6,<3.8",\n)\n'}, ("3.6", "3.7")),
        ({"a/.python-version": "3.11.4\n", "pyproject.toml": "[project]\n"}, ("3.11",)),
        ({"runtime.txt": "python-3.6.8\n"}, ("3.6",)),
        ({"Pipfile": '[requires]\npython_version = "3.7"\n'}, ("3.7",)),
        ({"a/Dockerfile": "FROM docker.io/library/python:3.8-slim AS base\n"}, ("3.8",)),
        ({"Dockerfile": 'ARG V="3.9"\nFROM --platform=linux/amd64 python:${V}-slim\n'}, ("3.9",)),
        (
            {
                "Dockerfile": "ARG PYTHON_VERSION=3.10\nFROM python:$PYTHON_VERSION\n",
                "compose.yml": "    build:\n      args:\n        PYTHON_VERSION: '3.8'\n",
                "docker-compose.dev.yaml": "      args:\n        - PYTHON_VERSION=3.11\n",
            },
            ("3.8", "3.10", "3.11"),
        ),
        ({".github/workflows/ci.yml": MATRIX}, ("3.9", "3.10")),
        ({".github/workflows/ci.yml": LIST}, ("3.8", "3.12")),
        (
            {".gitlab-ci.yml": 'a:\n  image: "python:3.7-slim"\n  V:\n    - PYTHON: ["3.8"]\n'},
            ("3.7", "3.8"),
        ),
        ({".circleci/config.yml": "    docker:\n      - image: cimg/python:3.11.4\n"}, ("3.11",)),
        (
            {"azure-pipelines.yml": "  Py38:\n    python.version: '3.8'\n  versionSpec: 3.9\n"},
            ("3.8", "3.9"),
        ),
        (
            {"tox.ini": "[tox]\nenvlist =\n  py3{8,9}-x{1,2}, py{310,3.11}\n[testenv]\n"},
            ("3.8", "3.9", "3.10", "3.11"),
        ),
        (
            {"noxfile.py": '@nox.session(python=["3.8",\n "3.9"])\n', "runtime.txt": "3.7"},
            ("3.7", "3.8", "3.9"),
        ),
        # The Python of a directory counts, not that of the other projects in the repository.
        ({"a/Dockerfile": "FROM python:3.12\n", ".gitlab-ci.yml": "image: python:3.7"}, ("3.12",)),
        ({"a/requirements.txt": "# by pip-compile with Python 3.5\n"}, ("3.5",)),
        # What the project declares counts more than what builds it.
        (
            {
                "pyproject.toml": '[project]\nrequires-python = ">=3.7"\n',
                "a/Dockerfile": "FROM python:3.12\n",
            },
            FROM_3_7,
        ),
        ({"pyproject.toml": "[project\n", "runtime.txt": "python-3.8"}, ("3.8",)),
        ({"pyproject.toml": "project = 1\n"}, ()),
    ],
)
def test_the_python_of_a_project(
    files: dict[str, str], expected: tuple[str, ...], tmp_path: Path
) -> None:
    write(tmp_path, {"a/requirements.txt": "", **files})
    assert supported_pythons(tmp_path, "a/requirements.txt") == expected


CASES = [
    ("PyPI", "requirements.txt", "pyproject.toml", '[project]\nrequires-python = "{}"\n'),
    *(
        ("npm", lock, "package.json", '{{"engines": {{"node": "{}"}}}}')
        for lock in ("package-lock.json", "pnpm-lock.yaml", "yarn.lock")
    ),
    ("crates.io", "Cargo.lock", "Cargo.toml", '[package]\nrust-version = "{}"\n'),
    (
        *("crates.io", "Cargo.lock", "Cargo.toml"),
        '[package]\nrust-version.workspace = true\n[workspace.package]\nrust-version = "{}"\n',
    ),
]


@pytest.mark.parametrize(("ecosystem", "manifest", "file", "text"), CASES)
@pytest.mark.parametrize(
    ("supported", "expected"), [("old", "1.1"), ("new", "1.2"), ("unknown", "1.2")]
)
def test_the_first_version_that_suits_the_project_is_chosen(
    *,
    ecosystem: str,
    manifest: str,
    file: str,
    text: str,
    supported: str,
    expected: str,
    tmp_path: Path,
) -> None:
    ranges = {
        "PyPI": {"old": ">=3.7", "new": ">=3.9"},
        "npm": {"old": ">=16", "new": ">=20"},
        "crates.io": {"old": "1.60", "new": "1.65"},
    }[ecosystem]
    if supported in ranges:
        write(tmp_path, {file: text.format(ranges[supported])})
    needs_new = {"PyPI": ">=3.8", "npm": ">= 18", "crates.io": "1.65.0"}[ecosystem]
    candidates = (Candidate("1.2", needs_new, ("sha256:2",)), Candidate("1.1", "", ("sha256:1",)))
    fix = Fix(ecosystem, manifest, "a", "1.0", "1.2", candidates=candidates)
    chosen = choose_candidate(fix, tmp_path)
    assert (chosen.new, chosen.hashes) == (expected, (f"sha256:{expected[-1]}",))
    assert ("1.2 needs" in chosen.why) == (expected == "1.1")


def test_a_fix_without_a_suitable_version_says_why(tmp_path: Path) -> None:
    write(tmp_path, {".python-version": "3.7\n"})
    candidates = (Candidate("24.3.0", ">=3.8"),)
    fix = Fix("PyPI", "requirements.txt", "black", "22.0", "24.3.0", candidates=candidates)
    with pytest.raises(
        CannotFix, match=r"24\.3\.0 needs Python >=3\.8, and the project supports 3\.7"
    ):
        choose_candidate(fix, tmp_path)


def test_a_version_that_needs_an_older_python_is_left_to_the_resolver(tmp_path: Path) -> None:
    write(tmp_path, {"pyproject.toml": '[project]\nrequires-python = ">=3.9"\n'})
    candidates = (Candidate("1.11.0", ">=3.9,<3.13"),)
    fix = Fix("PyPI", "requirements.txt", "scipy", "1.10.0", "1.11.0", candidates=candidates)
    assert choose_candidate(fix, tmp_path).new == "1.11.0"


GO_MOD = """\
module example.com/app

exclude example.com/a v1.2.0
exclude (
\texample.com/a v1.2.1 // broken
\texample.com/b v1.2.2
)
"""


def test_a_version_that_go_mod_excludes_is_not_chosen(tmp_path: Path) -> None:
    write(tmp_path, {"go.mod": GO_MOD})
    candidates = tuple(map(Candidate, ("1.2.0", "1.2.1", "1.2.2")))
    fix = Fix("Go", "go.mod", "example.com/a", "1.0.0", "1.2.0", candidates=candidates)
    assert choose_candidate(fix, tmp_path).new == "1.2.2"
    other = Fix("Go", "go.mod", "example.com/b", "1.0.0", "1.2.2", candidates=candidates[2:])
    with pytest.raises(CannotFix, match=r"go\.mod excludes v1\.2\.2: remove that `exclude`"):
        choose_candidate(other, tmp_path)


def test_a_version_of_thousands_of_digits_is_compared(tmp_path: Path) -> None:
    (tmp_path / "Cargo.toml").write_text(f'[package]\nrust-version = "{"9" * 10_000}"\n')
    candidates = (Candidate("1.1", "1." + "9" * 10_000),)
    fix = Fix("crates.io", "Cargo.lock", "a", "1.0", "1.1", candidates=candidates)
    assert choose_candidate(fix, tmp_path).new == "1.1"
