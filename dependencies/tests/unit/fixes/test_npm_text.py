"""JSON and YAML of npm and pnpm: one value changes, and no other byte."""

import pytest

from agentjobs_dependencies.fixes import json_text, yaml_text
from agentjobs_dependencies.fixes.model import CannotFix
from agentjobs_dependencies.fixes.npm import package_json
from agentjobs_dependencies.fixes.npm.package_lock import match_style
from agentjobs_dependencies.fixes.npm.tree import find_copies, find_requirements
from agentjobs_dependencies.fixes.pnpm.overrides import Settings, raise_keeping

NAME = "pnpm-workspace.yaml"


@pytest.mark.parametrize(
    ("text", "old", "new", "after"),
    [
        ('{"a": 1,\n "b":[1,2]}', {"a": 1}, {"a": 2}, '{"a": 2,\n "b":[1,2]}'),
        ('{\n\t"a": {}\n}\n', {}, {"a": {"b": "c"}}, '{\n\t"a": {\n\t\t"b": "c"\n\t}\n}\n'),
        ('{\r\n  "a": 1\r\n}', {}, {"z": "ü"}, '{\r\n  "a": 1,\r\n  "z": "ü"\r\n}'),
        (
            '{"a": 1, "c": 3}',
            {"a": 1, "c": 3},
            {"a": 1, "b": 2, "c": 3},
            '{"a": 1, "b": 2, "c": 3}',
        ),
        (
            '{\n  "c": 3\n}',
            {"c": 3},
            {"a": [1], "b": 2, "c": 3},
            '{\n  "a": [\n    1\n  ],\n  "b": 2,\n  "c": 3\n}',
        ),
        ('{\n  "a": 1,\n  "b": 2,\n  "c": 3\n}', {"a": 1, "b": 2}, {}, '{\n  "c": 3\n}'),
        ('{\n  "a": 1,\n  "b": 2,\n  "c": 3\n}', {"b": 2, "c": 3}, {}, '{\n  "a": 1\n}'),
        ('{"a": {"b": 1}}', {"a": {"b": 1}}, {"a": {}}, '{"a": {}}'),
        ('{"a": {"b": 1}}', {"a": {"b": 1}}, {"a": {"c": 2}}, '{"a": {"c": 2}}'),
        ('{"own": 1, "a": "x"}', {"a": "b"}, {"a": "c"}, '{"own": 1, "a": "c"}'),
        ('{"a": 1}', {"gone": 1}, {}, '{"a": 1}'),
        ('\ufeff{ "a" : "}" }', {"a": "}"}, {"a": "{"}, '\ufeff{ "a" : "{" }'),
    ],
)
def test_differences_are_applied_to_the_text(
    text: str, old: dict[str, object], new: dict[str, object], after: str
) -> None:
    assert json_text.patch(text, old, new) == after


@pytest.mark.parametrize("text", ["", "[]", "{", "nonsense", '{"a":' * 100_000])
def test_other_text_than_a_json_object_is_refused_with_a_reason(text: str) -> None:
    with pytest.raises(CannotFix, match=r"^package\.json "):
        package_json.read(text)


def test_a_range_is_raised_only_where_it_excludes_the_version() -> None:
    text = '{ "devDependencies": {"a": "^1.0.0", "b":"1.0.0" }, "peerDependencies": {"b": "1"} }'
    assert package_json.allow_version(text, "a", "1.2.0") == text
    assert package_json.allow_version(text, "b", "2.0.0") == text.replace(
        '"b":"1.0.0"', '"b":"2.0.0"'
    )
    assert package_json.allow_version(text, "unknown", "2.0.0") == text


def test_the_range_of_an_alias_is_raised() -> None:
    text = (
        '{"dependencies": {"old-a": "npm:a@1.0.0", "b": "npm:c@1.0.0", "@s/a": "npm:@s/a@1.0.0"}}'
    )
    raised = text.replace("npm:a@1.0.0", "npm:a@1.2.0")
    assert package_json.allow_version(text, "a", "1.2.0") == raised
    assert package_json.allow_version(text, "b", "1.2.0") == text


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('{"a": 1}', '{"a": 1, "overrides": {"mkdirp": {"minimist": "0.2.4"}}}'),
        (
            '{"overrides": {"b": "1"}}',
            '{"overrides": {"b": "1", "mkdirp": {"minimist": "0.2.4"}}}',
        ),
        (
            '{"overrides": {"mkdirp": "0.5.1"}}',
            '{"overrides": {"mkdirp": {".": "0.5.1", "minimist": "0.2.4"}}}',
        ),
    ],
)
def test_an_override_is_added_to_existing_ones(before: str, after: str) -> None:
    assert package_json.add_override(before, "mkdirp", "minimist", "0.2.4") == after


def test_rules_about_a_package_are_found_at_any_depth() -> None:
    overrides = {"a": {"b@^1": "1.0.0", ".": "2.0.0"}, "b": {".": "3.0.0", "c": "4.0.0"}}
    assert list(package_json.override_rules(overrides, "b")) == [
        (("a", "b@^1"), "1.0.0"),
        (("b", "."), "3.0.0"),
    ]
    assert package_json.remove_rules(overrides, "b") == {"a": {".": "2.0.0"}, "b": {"c": "4.0.0"}}


def test_the_copy_omits_what_could_run_or_redirect_a_package_manager() -> None:
    text = (
        '{"name": "app", "scripts": {"preinstall": "x"}, "packageManager": "pnpm@1.0.0", '
        '"devEngines": {}, "engines": {"node": "1"}, "dependencies": {"a": "1"}}'
    )
    assert package_json.strip_manifest(text) == {"name": "app", "dependencies": {"a": "1"}}


def test_requirements_resolve_as_in_node() -> None:
    packages = {
        "": {"dependencies": {"x": "^2"}, "devDependencies": {"y": "npm:x@1"}},
        "node_modules/x": {"version": "2.0.0"},
        "node_modules/y": {"name": "x", "version": "1.0.0"},
        "node_modules/a": {
            "version": "1.0.0",
            "dependencies": {"x": "1"},
            "devDependencies": {"y": "1"},
        },
        "node_modules/a/node_modules/x": {"version": "1.0.0"},
        "node_modules/a/node_modules/@s/b": {"version": "1.0.0", "peerDependencies": {"x": "*"}},
        "packages/m": {"dependencies": {"x": "2"}},
        "node_modules/m": {"resolved": "packages/m", "link": True},
    }
    places = find_copies(packages, "x")
    assert list(places) == ["node_modules/x", "node_modules/y", "node_modules/a/node_modules/x"]
    asks = {
        (ask.requirer, ask.name): ask.resolved_path for ask in find_requirements(packages, places)
    }
    assert asks == {
        ("", "x"): "node_modules/x",
        ("", "y"): "node_modules/y",
        ("node_modules/a", "x"): "node_modules/a/node_modules/x",
        ("node_modules/a/node_modules/@s/b", "x"): "node_modules/a/node_modules/x",
        ("packages/m", "x"): "node_modules/x",
    }


def test_new_entries_use_the_registry_addresses_of_the_file() -> None:
    text = '{"resolved": "https://one.example/npm/@s/a/-/a-1.0.0.tgz"}'
    made = {"b": {"resolved": "https://two.example/b/-/b-2.0.0.tgz", "license": "MIT"}}
    assert match_style(text, made) == {"b": {"resolved": "https://one.example/npm/b/-/b-2.0.0.tgz"}}
    assert match_style('{"license": "MIT"}', made) == made


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", "overrides:\n  a>b: 1.0.0\n"),
        ("packages:\n- x/*\n", "packages:\n- x/*\n\noverrides:\n  a>b: 1.0.0\n"),
        ("packages: [x]", "packages: [x]\n\noverrides:\n  a>b: 1.0.0\n"),
        (
            "overrides:\n    # why\n    c: 2.0.0 # kept\n\nother: 1\n",
            "overrides:\n    # why\n    c: 2.0.0 # kept\n    a>b: 1.0.0\n\nother: 1\n",
        ),
        ('overrides:\n  "a>b": "0.5.0" # was\n', 'overrides:\n  "a>b": "1.0.0" # was\n'),
        ("overrides: {}\n", "overrides: {a>b: 1.0.0}\n"),
        ("overrides: {'@c/d': ^1} # x\n", "overrides: {'@c/d': ^1, a>b: 1.0.0} # x\n"),
    ],
)
def test_an_entry_is_added_in_the_style_of_the_yaml_file(before: str, after: str) -> None:
    assert yaml_text.set_entry(before, ("overrides", "a>b"), "1.0.0", name=NAME) == after


@pytest.mark.parametrize(
    "text", ["{overrides: {a: 1}}\n", "a: 1\na: 2\n", "&x a: 1\n", "? a\n: 1\n", "%YAML 1.2\n"]
)
def test_unsupported_yaml_is_refused(text: str) -> None:
    with pytest.raises(CannotFix, match=r"^pnpm-workspace\.yaml "):
        yaml_text.set_entry(text, ("overrides", "a"), "1.0.0", name=NAME)


@pytest.mark.parametrize(
    ("scalar", "written"),
    [
        ("1.0.0", "1.0.0"),
        ("1.0", "'1.0'"),
        ("@a/b", "'@a/b'"),
        ("^1", "^1"),
        ("*", "'*'"),
        ("true", "'true'"),
    ],
)
def test_ambiguous_yaml_scalars_are_quoted(scalar: str, written: str) -> None:
    assert yaml_text.quote(scalar) == written
    assert yaml_text.unquote(written) == scalar


@pytest.mark.parametrize(
    ("workspace", "manifest", "place"),
    [
        ("", "{}", NAME),
        ("", '{"packageManager": "pnpm@9.1.0"}', "package.json"),
        ("", '{"packageManager": "pnpm@10.1.0+sha512.x"}', NAME),
        (
            "",
            '{"pnpm": {"overrides": {"x": "1"}}, "packageManager": "pnpm@10.1.0"}',
            "package.json",
        ),
        ("overrides:\n  x: 1\n", '{"packageManager": "pnpm@9.1.0"}', NAME),
    ],
)
def test_an_override_is_added_where_the_projects_pnpm_reads_it(
    workspace: str, manifest: str, place: str
) -> None:
    settings = Settings(workspace, manifest)
    assert settings.place == place
    assert settings.add_override("a>b", "1.0.0").overrides["a>b"] == "1.0.0"


def test_overrides_that_keep_the_old_version_are_found_by_their_target() -> None:
    overrides = {
        "a": "1.0.0",
        "x@2>a@^1": "^1.0.0",
        "a>b": "1.0.0",
        "@s/a": "1.0.0",
        "a@3": "3.0.0",
    }
    assert raise_keeping(overrides, "a", "1.0.0", "2.0.0") == {"a": "2.0.0", "x@2>a@^1": "^2.0.0"}
