"""Broken and hostile manifests produce a warning with the reason, and nothing else."""

import random

import pytest

from agentjobs_dependencies.combine import MAX_DEPENDENCIES, combine
from agentjobs_dependencies.formats import read
from agentjobs_dependencies.formats.kinds import READERS
from agentjobs_dependencies.formats.locks import MAX_PACKAGES, Lock
from agentjobs_dependencies.formats.text import MAX_WARNINGS, Warnings
from agentjobs_dependencies.model import Locked, ParsedManifest, Requirement, Root

DEEP = 100_000
FIRST = Root("", (0,))


@pytest.mark.parametrize("kind", READERS)
def test_random_bytes_never_raise(kind):
    noise = random.Random(6)
    for content in (
        b"",
        b"\0" * 1000,
        b"\xff\xfe",
        noise.randbytes(3000),
        bytes(noise.choice(b"[]{}:\"'-, \n#=.ab1@/") for _ in range(3000)),
        b"[" * DEEP,
        b'{"a":' * DEEP,
        b"- " * DEEP,
        b"null",
        b"[1]",
    ):
        facts = read(kind, content)
        assert not [each for each in facts.warnings if "could not be read (" in each]
        combine({kind: facts})


@pytest.mark.parametrize(
    ("kind", "content", "reason"),
    [
        ("pyproject.toml", b"a = '\xff'", "not valid UTF-8 at byte 5"),
        ("pyproject.toml", b"a" + b".a" * DEEP + b" = 1", "a dotted key"),
        ("pyproject.toml", b"a = " + b"[" * DEEP, "nested"),
        ("pyproject.toml", b"a = 1\na = 2\n", "not valid TOML"),
        ("pyproject.toml", b"[project]\ndependencies = 'a'", "project.dependencies is not a list"),
        ("pyproject.toml", b"[project]\ndependencies = ['a', 3]", "invalid requirement: '3'"),
        ("uv.lock", b"\0", "binary"),
        ("uv.lock", b'[[package]]\nname = "a"\nversion = "new"', "invalid version 'new'"),
        ("uv.lock", b'[[package]]\nname = "a"\nversion = 1', "with an invalid name"),
        ("package.json", b'{"name": "x"', "not valid JSON"),
        ("package.json", b'{"name": "\xff", "x": 1}', "not valid UTF-8"),
        ("package.json", b'{"dependencies": {"a\\u0000": "1"}}', "with an invalid name"),
        ("package.json", b'{"dependencies": "a"}', "dependencies is not a mapping"),
        ("package-lock.json", b'{"packages": {"node_modules/a": {"version": 1}}}', "is left out"),
        ("package-lock.json", b'{"packages": []}', "unexpected structure"),
        ("pnpm-lock.yaml", b"a: &a [x]\nb: [*a, *a]", "anchors"),
        ("pnpm-lock.yaml", b"a: !!python/name:x y", "tags"),
        ("pnpm-lock.yaml", b"a: " + b"[" * DEEP, "nested more than 64 deep"),
        ("pnpm-lock.yaml", b"? [a]\n: b", "a key that is a list"),
        ("pnpm-lock.yaml", b"[x]", "not a mapping"),
        ("pnpm-lock.yaml", b"a: b\n" * (1 << 20), "larger than 4 MiB"),
        ("yarn.lock", b"hello world", "not a yarn.lock"),
        ("requirements.txt", b"a==b c", "line 1"),
        ("setup.cfg", b"a = 1", "no section headers"),
        ("setup.cfg", b"[a]\n" + b"=\n" * DEEP, "more than 5000 lines"),
        ("go.mod", b"x\n" * (5 << 20), "larger than 8 MiB"),
        (
            "package-lock.json",
            b'{"packages": {"%s": {"version": "1.0.0"}}}' % b"/".join([b"a"] * 1000),
            "a path of 1999 characters",
        ),
    ],
)
def test_problems_are_reported_as_warnings(kind, content, reason):
    assert reason in " ".join(read(kind, content).warnings)


def test_an_invalid_entry_does_not_affect_others():
    content = b'{"packages": {"node_modules/a": 7, "node_modules/b": {"version": "1.0.0"}}}'
    facts = read("package-lock.json", content)
    assert [package.name for package in facts.packages] == ["b"]
    assert len(facts.warnings) == 1


def test_the_last_of_duplicate_keys_counts():
    facts = read("package.json", b'{"dependencies": {"a": "1.0.0", "a": "2.0.0"}}')
    assert [each.version for each in facts.requirements] == ["2.0.0"]


def test_many_warnings_are_reported_as_a_count():
    warnings = Warnings()
    for number in range(MAX_WARNINGS + 5):
        warnings.add(str(number))
    assert len(warnings.all()) == MAX_WARNINGS + 1
    assert "5 more" in warnings.all()[-1]


def test_the_number_of_packages_in_a_lock_file_is_limited():
    lock = Lock(Warnings())
    for number in range(MAX_PACKAGES + 2):
        lock.add(number, "a", str(number % 3))
    assert len(lock.packages()) == 3
    assert lock.position(MAX_PACKAGES) is None
    assert len(lock.warnings.all()) == 2


def test_a_range_of_blanks_is_read_in_bounded_time():
    facts = read("package.json", b'{"dependencies": {"a": "%sx"}}' % (b" " * 200_000))
    assert [(each.name, each.version) for each in facts.requirements] == [("a", None)]


def test_a_repeated_parent_counts_once():
    facts = read("requirements.txt", b"b==1\na==1  # via " + b"b," * 1000)
    assert [package.requires for package in facts.packages] == [(1,), ()]


def test_packages_beyond_the_limit_are_never_built():
    many = tuple(Requirement(f"p{number}", "^1") for number in range(1000))
    facts = {f"d{at}/package.json": ParsedManifest("npm", requirements=many) for at in range(200)}
    combined = combine(facts)
    assert len(combined.dependencies) == MAX_DEPENDENCIES
    assert combined.warnings[0].reason == "more than 100000 packages: the rest is left out"


def test_the_total_length_of_names_is_limited():
    names = [f"{'n' * 240}{number}" for number in range(6_000)]
    chain = tuple(Locked(name, "1.0.0", (at + 1,)) for at, name in enumerate(names[:-1]))
    lock = ParsedManifest("npm", packages=(*chain, Locked(names[-1], "1.0.0")), roots=(FIRST,))
    combined = combine({"package-lock.json": lock})
    assert 0 < len(combined.dependencies) < len(names)
    assert "the rest is left out" in combined.warnings[0].reason


def test_nested_workspaces_are_compared_in_bounded_time(monkeypatch):
    monkeypatch.setattr("agentjobs_dependencies.coverage._MAX_COMPARISONS", 10_000)
    inner = ParsedManifest("npm", project="x", members=tuple(f"**/{at}*" for at in range(200)))
    combined = combine({f"{'d/' * depth}package.json": inner for depth in range(100)})
    assert "too many patterns" in combined.warnings[0].reason


def test_ranges_of_many_projects_for_one_package_are_truncated():
    members = {
        f"d{at}/package.json": ParsedManifest("npm", requirements=(Requirement("p", f"^1.0.{at}"),))
        for at in range(300)
    }
    lock = ParsedManifest("npm", packages=(Locked("p", "1.0.0"),))
    root = ParsedManifest("npm", members=("*",))
    combined = combine({"yarn.lock": lock, "package.json": root, **members})
    assert [(each.name, each.direct) for each in combined.dependencies] == [("p", True)]
    assert len(combined.dependencies[0].requirement) < 1000


@pytest.mark.parametrize(
    "content",
    [
        b"a" + b" " * 10_000_000 + b"b",
        b"a" + b":b" * 5_000_000,
        b'"' + b'\\"' * 5_000_000,
        b"? a\n" * 100_000 + b" " * 5_000_000,
        b"a: {" + b"a, " * 3_000_000,
        b"a: {\n" + b"a,\n" * 500_000,
    ],
    ids=range(6),
)
def test_yaml_is_read_in_bounded_time(content):
    assert read("pnpm-lock.yaml", content).warnings
