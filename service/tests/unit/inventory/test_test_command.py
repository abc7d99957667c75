"""Test commands guessed from files, and languages of files."""

import pytest

from agentjobs.inventory.test_command import RootFiles, guess_test_command
from agentjobs_dependencies.languages import detect_language


def guess(**files: bytes | None) -> str | None:
    """A double underscore stands for the dot of a name; None: a name that is not read."""
    named = {name.replace("__", "."): content for name, content in files.items()}
    read = {name: content for name, content in named.items() if content is not None}
    return guess_test_command(RootFiles(set(named), read))


def test_a_dedicated_target_beats_a_tools_default() -> None:
    package = b'{"scripts": {"test": "jest"}}'
    assert guess(Makefile=b"all:\n\ntest: all\n", package__json=package) == "make test"
    assert guess(Makefile=b".PHONY: check\ncheck:\n\ttrue\n") == "make check"
    assert guess(Makefile=b"test := 1\nall:\n", package__json=package) == "npm test"


@pytest.mark.parametrize(
    ("lock", "command"),
    [
        ("pnpm-lock.yaml", "pnpm test"),
        ("yarn.lock", "yarn test"),
        ("package-lock.json", "npm test"),
    ],
)
def test_the_lock_file_determines_the_package_manager(lock: str, command: str) -> None:
    contents = {"package.json": b'{"scripts": {"test": "vitest"}}'}
    assert guess_test_command(RootFiles({"package.json", lock}, contents)) == command


@pytest.mark.parametrize(
    "package",
    [
        b'{"scripts": {"test": "echo \\"Error: no test specified\\" && exit 1"}}',
        b'{"scripts": {"build": "x"}}',
        b'{"scripts": []}',
        b"[" * 100_000,
        b"\xff",
        b"",
    ],
)
def test_a_package_without_a_valid_test_script_gives_no_guess(package: bytes) -> None:
    assert guess(package__json=package) is None


def test_python_projects_are_recognized_by_their_files() -> None:
    assert guess(tox__ini=None, pyproject__toml=b"") == "tox"
    assert guess(pyproject__toml=b"[tool.pytest.ini_options]\n") == "python -m pytest"
    assert guess(setup__cfg=b"[tool:pytest]\n") == "python -m pytest"
    assert guess(setup__py=None, tests=None) == "python -m pytest"
    assert guess(setup__py=None) is None
    assert guess(manage__py=None) == "python manage.py test"


def test_other_ecosystems_are_recognized_by_their_files() -> None:
    assert guess(Cargo__toml=None) == "cargo test"
    assert guess(go__mod=None) == "go test ./..."
    assert guess(pom__xml=None) == "mvn test"
    assert guess(pom__xml=None, mvnw=None) == "./mvnw test"
    assert guess(Gemfile=None, spec=None) == "bundle exec rspec"
    assert guess(Gemfile=None, Rakefile=b"Rake::TestTask.new\n") == "bundle exec rake test"
    assert guess(Shop__sln=None) == "dotnet test"
    assert guess(composer__json=b'{"scripts": {"test": ["phpunit"]}}') == "composer test"
    assert guess(README__md=None) is None


@pytest.mark.parametrize(
    ("path", "language"),
    [
        (b"src/app.py", "Python"),
        (b"web/App.TSX", "TypeScript"),
        (b"Dockerfile", "Dockerfile"),
        (b"CMakeLists.txt", "CMake"),
        (b"node_modules/x/index.js", None),
        (b"README.md", None),
        (b"data.json", None),
        (b"py", None),
        (b".py", None),
        (b"\xff\xfe.rs", "Rust"),
    ],
)
def test_the_name_determines_the_language(path: bytes, language: str | None) -> None:
    assert detect_language(path) == language


def test_blank_lines_of_a_rakefile_are_read_in_bounded_time() -> None:
    assert guess(Rakefile=b"\n" * 256 * 1024) is None
    assert guess(Rakefile=b"\n" * 256 * 1024 + b"\ttask :test") == "rake test"
