"""composer.json and composer.lock."""

import pytest

from agentjobs_dependencies.combine import combine
from agentjobs_dependencies.formats import read
from agentjobs_dependencies.formats.composer import read_composer_json, read_composer_lock

COMPOSER_JSON = b"""{
  "name": "Example/Shop",
  "require": {
    "php": ">=8.1", "ext-json": "*", "composer-runtime-api": "^2",
    "Monolog/monolog": "^2.0", "guzzlehttp/guzzle": "v7.4.4", "a/stable": "1.0@stable",
    "a/any": "1.2.*", "a/early": "=2.0.0-RC1", "a/branch": "dev-main"
  },
  "require-dev": {"phpunit/phpunit": "9.5.0"}
}"""

COMPOSER_LOCK = b"""{
  "packages": [
    {"name": "laravel/framework", "version": "v8.75.0",
     "replace": {"illuminate/support": "self.version"},
     "require": {"php": "^8", "Monolog/Monolog": "^2.0", "psr/log-implementation": "*"}},
    {"name": "monolog/monolog", "version": "2.3.5", "provide": {"psr/log-implementation": "1.0"},
     "require": [], "dist": {"url": "https://example.com", "shasum": ""}},
    {"name": "a/plugin", "version": "dev-main", "require": {"illuminate/support": "*"}}
  ],
  "packages-dev": [
    {"name": "phpunit/phpunit", "version": "9.5.0",
     "require": {"a/plugin": "*", "phpunit/phpunit": "*"}}
  ],
  "platform": []
}"""


def test_php_itself_is_not_a_requirement():
    facts = read_composer_json(COMPOSER_JSON)
    assert (facts.project, facts.warnings) == ("example/shop", ())
    assert {r.name: (r.specifier, r.version, r.scope) for r in facts.requirements} == {
        "monolog/monolog": ("^2.0", None, "runtime"),
        "guzzlehttp/guzzle": ("v7.4.4", "7.4.4", "runtime"),
        "a/stable": ("1.0@stable", "1.0", "runtime"),
        "a/any": ("1.2.*", None, "runtime"),
        "a/early": ("=2.0.0-RC1", "2.0.0-RC1", "runtime"),
        "a/branch": ("dev-main", None, "runtime"),
        "phpunit/phpunit": ("9.5.0", "9.5.0", "dev"),
    }


def test_requirements_of_replaced_and_provided_names_are_resolved():
    facts = read_composer_lock(COMPOSER_LOCK)
    names = [package.name for package in facts.packages]
    assert facts.warnings == ()
    packages = {
        p.name: (p.version, p.scope, [names[i] for i in p.requires]) for p in facts.packages
    }
    assert packages == {
        "laravel/framework": ("8.75.0", "runtime", ["monolog/monolog"]),
        "monolog/monolog": ("2.3.5", "runtime", []),
        "a/plugin": ("dev-main", "runtime", ["laravel/framework"]),
        "phpunit/phpunit": ("9.5.0", "dev", ["a/plugin", "phpunit/phpunit"]),
    }
    # composer.json lists the direct requirements.
    assert facts.roots == ()


def test_the_manifest_next_to_a_lock_file_has_the_direct_requirements():
    manifest = b'{"require": {"a/plugin": "*"}, "require-dev": {"phpunit/phpunit": "^9"}}'
    dependencies = combine(
        {
            "composer.json": read_composer_json(manifest),
            "composer.lock": read_composer_lock(COMPOSER_LOCK),
        }
    ).dependencies
    assert {(d.name, d.requirement, d.direct, d.scope, d.parents) for d in dependencies} == {
        ("a/plugin", "*", True, "runtime", ()),
        ("phpunit/phpunit", "^9", True, "dev", ()),
        ("laravel/framework", "", False, "runtime", ("a/plugin",)),
        ("monolog/monolog", "", False, "runtime", ("a/plugin", "laravel/framework")),
    }


DEEP = b'{"packages": ' + b"[" * 100_000


@pytest.mark.parametrize(
    ("content", "kept", "warned"),
    [
        (b"", [], "JSON"),
        (b"\x00", [], "binary"),
        (COMPOSER_LOCK[:-200], [], "not valid JSON"),
        (b'{"packages": [{"name": "\xff", "version": "1"}, {"name": "a/a", "version": "1"}]}',
         ["\N{REPLACEMENT CHARACTER}", "a/a"], "not valid UTF-8"),
        (b'{"packages": [{"name": "a/a", "version": "1"}, {"name": "b/b"}, {"name": 1}, 7]}',
         ["a/a"], "left out"),
        (b'{"packages": [], "packages": [{"name": "a/a", "version": "1"}]}', ["a/a"], ""),
        (b'{"packages": {}}', [], "unexpected structure"),
        (b'{"packages-dev": null}', [], ""),
        (b"[]", [], "unexpected structure"),
        (DEEP, [], "JSON"),
    ],
    ids=["empty", "binary", "cut off", "bytes", "types", "twice", "no list", "null", "list",
         "deep"],
)  # fmt: skip
def test_a_broken_lock_file_warns_and_keeps_the_rest(content, kept, warned):
    facts = read("composer.lock", content)
    assert [package.name for package in facts.packages] == kept
    assert (warned in " ".join(facts.warnings)) if warned else facts.warnings == ()


@pytest.mark.parametrize(
    ("content", "kept", "warned"),
    [
        (b'{"require": {"a/a": "1", "b/b": 2}, "name": 3}', ["a/a"], "b/b"),
        (b'{"require": [], "require-dev": {"a/a": "*"}}', ["a/a"], ""),
        (b'{"require": "a/a", "require-dev": {"b/b": "*"}}', ["b/b"], "not an object"),
        (b'{"require": {"a/a": "1"', [], "not valid JSON"),
        (b'{"require": {"a/\\u0000": "1", "a/a": "1"}}', ["a/a"], "invalid name"),
    ],
    ids=["types", "empty list", "text", "cut off", "no name"],
)
def test_a_broken_manifest_warns_and_keeps_the_rest(content, kept, warned):
    facts = read("composer.json", content)
    assert [requirement.name for requirement in facts.requirements] == kept
    assert (warned in " ".join(facts.warnings)) if warned else facts.warnings == ()
