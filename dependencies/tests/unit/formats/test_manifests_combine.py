"""Recognizing manifests and combining them."""

import json

import pytest

from agentjobs_dependencies.combine import combine
from agentjobs_dependencies.formats import detect_kind, read
from agentjobs_dependencies.model import (
    Dependency,
    IndexWarning,
    Locked,
    ParsedManifest,
    Requirement,
    Root,
)


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("package.json", "package.json"),
        ("a/b/uv.lock", "uv.lock"),
        ("requirements.txt", "requirements.txt"),
        ("a/requirements-dev.txt", "requirements.txt"),
        ("dev-requirements.txt", "requirements.txt"),
        ("requirements/base.txt", "requirements.txt"),
        ("requirements/constraints.txt", None),
        ("docs/notes.txt", None),
        ("node_modules/a/package.json", None),
        ("a/vendor/b/go.mod", None),
        ("package.json.bak", None),
    ],
)
def test_manifests_are_recognized_by_name_outside_of_third_party_code(path, kind):
    assert detect_kind(path) == kind


def _lock(*packages: Locked, roots: tuple[Root, ...] = (), **more) -> ParsedManifest:
    return ParsedManifest("npm", packages=packages, roots=roots, **more)


def _manifest(*requirements: Requirement, **more) -> ParsedManifest:
    return ParsedManifest("npm", requirements=requirements, **more)


def _lines(facts: dict[str, ParsedManifest]) -> list[str]:
    return [_line(each) for each in combine(facts).dependencies]


def _line(each: Dependency) -> str:
    way = " < ".join(reversed(each.parents)) if not each.direct else f"direct {each.requirement}"
    return f"{each.manifest}: {each.name} {each.version} {each.scope} | {way}".rstrip()


def test_a_lock_file_replaces_the_manifest_next_to_it_and_has_the_paths():
    facts = {
        "app/package.json": _manifest(Requirement("a", "^1"), Requirement("t", "^8", None, "dev")),
        "app/package-lock.json": _lock(
            Locked("c", "1"),
            Locked("a", "1", (2,)),
            Locked("b", "1", (0, 1)),
            Locked("t", "8", (0, 4)),
            Locked("u", "1", (), "dev"),
            Locked("stray", "1"),
            roots=(Root("", (1, 3)),),
        ),
        "other/package.json": _manifest(Requirement("a", "2.0.0", "2.0.0"), Requirement("z", "*")),
    }
    assert _lines(facts) == [
        "app/package-lock.json: a 1 runtime | direct ^1",
        "app/package-lock.json: t 8 dev | direct ^8",
        "app/package-lock.json: b 1 runtime | a",
        "app/package-lock.json: c 1 runtime | b < a",
        "app/package-lock.json: stray 1 runtime |",
        "app/package-lock.json: u 1 dev | t",
        "other/package.json: a 2.0.0 runtime | direct 2.0.0",
        "other/package.json: z None runtime | direct *",
    ]


def test_other_projects_of_a_workspace_are_found_by_its_patterns():
    facts = {
        "package.json": _manifest(
            Requirement("a", "^1"), members=("packages/*", "!packages/skip", "deep/**")
        ),
        "packages/x/package.json": _manifest(Requirement("b", "^1"), Requirement("a", "^2")),
        "packages/skip/package.json": _manifest(Requirement("own", "^1")),
        "deep/er/y/package.json": _manifest(Requirement("c", "^1")),
        "yarn.lock": _lock(
            Locked("a", "1"),
            Locked("a", "2"),
            Locked("b", "1", (3,)),
            Locked("c", "1"),
            notes={"a@^1": "0", "a@^2": "1"},
        ),
    }
    assert _lines(facts) == [
        "packages/skip/package.json: own None runtime | direct ^1",
        "yarn.lock: a 1 runtime | direct ^1",
        "yarn.lock: a 2 runtime | direct ^2",
        "yarn.lock: b 1 runtime | direct ^1",
        "yarn.lock: c 1 runtime | direct ^1",
    ]


def test_projects_of_a_workspace_are_not_packages():
    facts = {
        "package.json": _manifest(members=("packages/*",), project="root"),
        "packages/x/package.json": _manifest(Requirement("y", "*"), Requirement("b", "^1")),
        "packages/y/package.json": _manifest(project="y"),
    }
    assert _lines(facts) == ["packages/x/package.json: b None runtime | direct ^1"]


def test_packages_that_no_other_requires_count_as_direct_by_default():
    assert _lines({"yarn.lock": _lock(Locked("a", "1", (1,)), Locked("b", "1"))}) == [
        "yarn.lock: a 1 runtime | direct",
        "yarn.lock: b 1 runtime | a",
    ]


def test_a_broken_lock_file_replaces_nothing_and_a_damaged_one_only_its_packages():
    manifest = _manifest(Requirement("a", "^1"), Requirement("lost", "^2"))
    broken = {"package.json": manifest, "package-lock.json": _lock(warnings=("not valid JSON",))}
    assert _lines(broken) == [
        "package.json: a None runtime | direct ^1",
        "package.json: lost None runtime | direct ^2",
    ]
    assert combine(broken).warnings == (IndexWarning("package-lock.json", "not valid JSON"),)
    damaged = {
        "package.json": manifest,
        "package-lock.json": _lock(Locked("a", "1"), warnings=("one entry was left out",)),
    }
    assert _lines(damaged) == [
        "package-lock.json: a 1 runtime | direct ^1",
        "package.json: lost None runtime | direct ^2",
    ]


def test_cycles_end_and_long_paths_are_shortened():
    circle = (
        Locked("p0", "1", (1,)),
        *(Locked(f"p{i}", "1", ((i + 1) % 99,)) for i in range(1, 99)),
    )
    dependencies = combine(
        {"package-lock.json": _lock(*circle, roots=(Root("", (0,)),))}
    ).dependencies
    last = next(dependency for dependency in dependencies if dependency.name == "p98")
    assert (last.parents[0], last.parents[-1], len(last.parents)) == ("p0", "p97", 32)


def test_a_compiled_list_is_its_own_lock_file_and_its_name_sets_the_scope():
    text = b"a==1  # via -r in.txt\nb==2  # via a\nc>=3\n"
    facts = {
        path: read("requirements.txt", text)
        for path in ("requirements.txt", "dev/requirements-test.txt")
    }
    assert _lines(facts) == [
        "dev/requirements-test.txt: a 1 dev | direct ==1",
        "dev/requirements-test.txt: c None dev | direct >=3",
        "dev/requirements-test.txt: b 2 dev | a",
        "requirements.txt: a 1 runtime | direct ==1",
        "requirements.txt: c None runtime | direct >=3",
        "requirements.txt: b 2 runtime | a",
    ]


def test_the_pipfile_takes_precedence_over_the_guess_from_its_lock_file():
    lock = {"default": {"a": {"version": "==1", "index": "x"}, "b": {"version": "==2"}}}
    facts = {"Pipfile.lock": read("Pipfile.lock", json.dumps(lock).encode())}
    assert _lines(facts) == ["Pipfile.lock: a 1 runtime | direct", "Pipfile.lock: b 2 runtime |"]
    facts["Pipfile"] = read("Pipfile", b'[packages]\nb = ">1"\n')
    assert _lines(facts) == ["Pipfile.lock: b 2 runtime | direct >1", "Pipfile.lock: a 1 runtime |"]


def test_crates_below_a_lock_file_are_covered_by_the_nearest_one():
    def crate(name: str) -> ParsedManifest:
        return ParsedManifest("crates.io", requirements=(Requirement(name, "1"),))

    lock = ParsedManifest("crates.io", packages=(Locked("a", "1.0.0"),), roots=(Root("", (0,)),))
    facts = {
        "Cargo.lock": lock,
        "Cargo.toml": crate("a"),
        "crates/x/Cargo.toml": crate("a"),
        "own/Cargo.lock": lock,
        "own/y/Cargo.toml": crate("b"),
    }
    assert [line.partition(" ")[0] for line in _lines(facts)] == ["Cargo.lock:", "own/Cargo.lock:"]
