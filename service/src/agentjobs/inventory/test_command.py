"""Guesses a repository's test command from the files at its root."""

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

import msgspec

# Only the content of these files is read; other guesses rely on names.
READ_FILES = frozenset(
    {
        "GNUmakefile",
        "makefile",
        "Makefile",
        "Rakefile",
        "composer.json",
        "package.json",
        "pyproject.toml",
        "setup.cfg",
    }
)

_MAKE_TARGET = re.compile(rb"^(test|check)\s*:(?!=)", re.MULTILINE)
_RAKE_TASK = re.compile(rb"Rake::TestTask|^[ \t]*+task\s++:?[\"']?test\b", re.MULTILINE)
_PYTEST_TABLE = re.compile(rb"^\[tool[.:]pytest", re.MULTILINE)
# What `npm init` writes.
_NO_TESTS = "no test specified"

_NODE_RUNNERS = (
    ("pnpm-lock.yaml", "pnpm test"),
    ("yarn.lock", "yarn test"),
    ("bun.lockb", "bun run test"),
    ("bun.lock", "bun run test"),
)
_BY_NAME = (
    ("Cargo.toml", "cargo test"),
    ("go.mod", "go test ./..."),
    ("mvnw", "./mvnw test"),
    ("pom.xml", "mvn test"),
    ("gradlew", "./gradlew test"),
    ("build.gradle", "gradle test"),
    ("build.gradle.kts", "gradle test"),
    ("build.sbt", "sbt test"),
    ("mix.exs", "mix test"),
    ("Package.swift", "swift test"),
    ("deno.json", "deno test"),
    ("stack.yaml", "stack test"),
    ("cabal.project", "cabal test all"),
    ("dune-project", "dune test"),
    ("build.zig", "zig build test"),
    ("pubspec.yaml", "dart test"),
)


@dataclass(frozen=True, slots=True)
class RootFiles:
    """The names of files and directories at the root, and the contents of READ_FILES."""

    names: Collection[str]
    contents: Mapping[str, bytes]

    def has(self, *names: str) -> bool:
        return any(name in self.names for name in names)

    def text(self, name: str) -> bytes:
        return self.contents.get(name, b"")


class _Package(msgspec.Struct):
    scripts: dict[str, str | list[str]] = {}


def guess_test_command(root: RootFiles) -> str | None:
    """Prefers a dedicated target, such as `make test`, over a tool's default command."""
    guesses: tuple[Callable[[RootFiles], str | None], ...]
    guesses = (_make, _node, _python, _by_name, _ruby, _php, _dotnet)
    return next((command for guess in guesses if (command := guess(root))), None)


def _make(root: RootFiles) -> str | None:
    for name in ("GNUmakefile", "makefile", "Makefile"):
        if target := _MAKE_TARGET.search(root.text(name)):
            return f"make {target[1].decode('ascii')}"
    return None


def _node(root: RootFiles) -> str | None:
    script = _test_script(root.text("package.json"))
    if not script or _NO_TESTS in script:
        return None
    return next((runner for lock, runner in _NODE_RUNNERS if root.has(lock)), "npm test")


def _python(root: RootFiles) -> str | None:
    for name, command in (
        ("tox.ini", "tox"),
        ("noxfile.py", "nox"),
        ("manage.py", "python manage.py test"),
    ):
        if root.has(name):
            return command
    is_configured = root.has("pytest.ini", "conftest.py") or any(
        _PYTEST_TABLE.search(root.text(name)) for name in ("pyproject.toml", "setup.cfg")
    )
    is_python = root.has("pyproject.toml", "setup.py", "setup.cfg", "requirements.txt")
    has_tests = is_python and root.has("tests", "test")
    return "python -m pytest" if is_configured or has_tests else None


def _by_name(root: RootFiles) -> str | None:
    return next((command for name, command in _BY_NAME if root.has(name)), None)


def _ruby(root: RootFiles) -> str | None:
    if _RAKE_TASK.search(root.text("Rakefile")):
        return "bundle exec rake test" if root.has("Gemfile") else "rake test"
    return "bundle exec rspec" if root.has("Gemfile") and root.has("spec") else None


def _php(root: RootFiles) -> str | None:
    if _test_script(root.text("composer.json")):
        return "composer test"
    is_configured = root.has("phpunit.xml", "phpunit.xml.dist")
    return "vendor/bin/phpunit" if is_configured else None


def _dotnet(root: RootFiles) -> str | None:
    has_project = any(name.endswith((".sln", ".slnx", ".csproj", ".fsproj")) for name in root.names)
    return "dotnet test" if has_project else None


def _test_script(package: bytes) -> str:
    """The script `test` of a package.json or composer.json; empty if there is none."""
    try:
        return str(msgspec.json.decode(package, type=_Package).scripts.get("test", ""))
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
        return ""
