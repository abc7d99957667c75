"""Readers of npm manifests and lock files."""

import json

import pytest

from agentjobs_dependencies.formats import read
from agentjobs_dependencies.model import ParsedManifest


def _graph(facts: ParsedManifest) -> dict[str, list[str]]:
    packages = facts.packages
    return {
        f"{p.name} {p.version}": [
            f"{packages[at].name} {packages[at].version}" for at in p.requires
        ]
        for p in packages
    }


def _roots(facts: ParsedManifest) -> dict[str, list[str]]:
    packages = facts.packages
    return {
        root.directory: sorted(
            f"{packages[at].name} {packages[at].version}" for at in root.packages
        )
        for root in facts.roots
    }


def _asked(facts: ParsedManifest) -> list[tuple[str, str, str | None, str]]:
    return [(r.name, r.specifier, r.version, r.scope) for r in facts.requirements]


@pytest.mark.parametrize("workspaces", [["packages/*"], {"packages": ["packages/*"]}])
def test_package_json_has_requirements_and_workspace_patterns(workspaces):
    facts = read(
        "package.json",
        json.dumps(
            {
                "name": "root",
                "workspaces": workspaces,
                "dependencies": {
                    "exact": "1.2.3",
                    "range": "^1",
                    "alias": "npm:@real/name@2.0.0",
                    "near": "workspace:*",
                    "file": "file:../x",
                    "both": "^1",
                    "far": "github:someone/far",
                    "wrong": 3,
                },
                "devDependencies": {"tester": "=8.0.0", "peer": "^1"},
                "optionalDependencies": {"both": "^1"},
                "peerDependencies": {"peer": "*", "host": ">=1", "maybe": "*"},
                "peerDependenciesMeta": {"maybe": {"optional": True}},
            }
        ).encode(),
    )
    assert facts.project == "root"
    assert facts.members == ("packages/*",)
    assert _asked(facts) == [
        ("exact", "1.2.3", "1.2.3", "runtime"),
        ("range", "^1", None, "runtime"),
        ("@real/name", "npm:@real/name@2.0.0", "2.0.0", "runtime"),
        ("far", "github:someone/far", None, "runtime"),
        ("tester", "=8.0.0", "8.0.0", "dev"),
        ("peer", "^1", None, "dev"),
        ("both", "^1", None, "optional"),
        ("host", ">=1", None, "runtime"),
        ("maybe", "*", None, "optional"),
    ]
    assert len(facts.warnings) == 1
    assert "wrong" in facts.warnings[0]


def test_package_lock_resolves_requirements_as_node_does():
    packages = {
        "": {"dependencies": {"a": "^1", "member": "*", "other": "npm:real@^1"}},
        "node_modules/a": {"version": "1.0.0", "dependencies": {"b": "^1", "c": "^1"}},
        "node_modules/a/node_modules/b": {"version": "1.5.0", "dependencies": {"c": "^2"}},
        "node_modules/a/node_modules/b/node_modules/c": {"version": "2.0.0"},
        "node_modules/b": {"version": "2.0.0", "dev": True, "peerDependencies": {"a": "*"}},
        "node_modules/c": {"version": "1.0.0", "optional": True},
        "node_modules/other": {"name": "real", "version": "1.1.0"},
        "node_modules/member": {"resolved": "packages/member", "link": True},
        "packages/member": {"dependencies": {"c": "^3"}, "devDependencies": {"b": "^2"}},
        "packages/member/node_modules/c": {"version": "3.0.0"},
    }
    text = json.dumps({"lockfileVersion": 3, "packages": packages}).encode()
    facts = read("package-lock.json", text)
    assert facts.warnings == ()
    assert _graph(facts) == {
        "a 1.0.0": ["b 1.5.0", "c 1.0.0"],
        "b 1.5.0": ["c 2.0.0"],
        "c 2.0.0": [],
        "b 2.0.0": ["a 1.0.0"],
        "c 1.0.0": [],
        "real 1.1.0": [],
        "c 3.0.0": [],
    }
    assert _roots(facts) == {
        "": ["a 1.0.0", "real 1.1.0"],
        "packages/member": ["b 2.0.0", "c 3.0.0"],
    }
    scopes = {f"{p.name} {p.version}": p.scope for p in facts.packages}
    assert (scopes["b 2.0.0"], scopes["c 1.0.0"]) == ("dev", "optional")


def test_package_lock_version_1_is_a_tree():
    tree = {
        "a": {
            "version": "1.0.0",
            "requires": {"b": "^1", "c": "^1"},
            "dependencies": {"b": {"version": "1.5.0", "requires": {"c": "^1"}}},
        },
        "b": {"version": "2.0.0", "dev": True, "requires": True},
        "c": {"version": "npm:real@1.0.0"},
        "member": {"version": "file:packages/member", "requires": {"a": "*"}},
        "far": {"version": "github:someone/far#00"},
    }
    facts = read("package-lock.json", json.dumps({"dependencies": tree}).encode())
    assert _graph(facts) == {
        "a 1.0.0": ["b 1.5.0", "real 1.0.0"],
        "b 2.0.0": [],
        "real 1.0.0": [],
        "b 1.5.0": ["real 1.0.0"],
    }
    assert _roots(facts) == {"packages/member": ["a 1.0.0"]}
    # Which of several versions the project itself gets, whose package.json is another file.
    assert facts.packages[int(facts.notes["b"])].version == "2.0.0"


PNPM = {
    "5.4": """\
lockfileVersion: 5.4

importers:

  .:
    specifiers:
      '@s/a': ^1
      alias: npm:real@^3
      lib: workspace:*
    dependencies:
      '@s/a': 1.0.0_peer@2.0.0
      alias: /real/3.0.0
      lib: link:packages/lib

  packages/lib:
    specifiers:
      tester: ^8
    devDependencies:
      tester: 8.0.0

packages:

  /@s/a/1.0.0_peer@2.0.0:
    resolution: {integrity: sha512-00==}
    engines: {node: '>=6.9.0'}
    peerDependencies:
      peer: ^2
    dependencies:
      peer: 2.0.0
    transitivePeerDependencies:
      - supports-color
    dev: false

  /peer/2.0.0:
    resolution: {integrity: sha512-00==}
    deprecated: |-
      two: lines
      of # text
    optionalDependencies:
      os: 0.1.2
    dev: false

  /os/0.1.2:
    resolution: {integrity: sha512-00==}
    os: [linux]
    optional: true

  /real/3.0.0:
    resolution: {integrity: sha512-00==}

  /tester/8.0.0:
    resolution: {integrity: sha512-00==}
    dev: true
""",
    "6.0": """\
lockfileVersion: '6.0'

importers:

  .:
    dependencies:
      '@s/a':
        specifier: ^1
        version: 1.0.0(peer@2.0.0)
      alias:
        specifier: npm:real@^3
        version: /real@3.0.0
      lib:
        specifier: workspace:*
        version: link:packages/lib

  packages/lib:
    devDependencies:
      tester:
        specifier: ^8
        version: 8.0.0

packages:

  /@s/a@1.0.0(peer@2.0.0):
    resolution: {integrity: sha512-00==}
    dependencies:
      peer: 2.0.0
    dev: false

  /peer@2.0.0:
    resolution: {integrity: sha512-00==}
    optionalDependencies:
      os: 0.1.2

  /os@0.1.2:
    resolution: {integrity: sha512-00==}
    optional: true

  /real@3.0.0:
    resolution: {integrity: sha512-00==}

  /tester@8.0.0:
    resolution: {integrity: sha512-00==}
    dev: true
""",
    "9.0": """\
lockfileVersion: '9.0'

importers:

  .:
    dependencies:
      '@s/a':
        specifier: ^1
        version: 1.0.0(peer@2.0.0)
      alias:
        specifier: npm:real@^3
        version: real@3.0.0
      lib:
        specifier: workspace:*
        version: link:packages/lib

  packages/lib:
    devDependencies:
      tester:
        specifier: ^8
        version: 8.0.0

packages:

  '@s/a@1.0.0':
    resolution: {integrity: sha512-00==}
    peerDependencies:
      peer: ^2

  peer@2.0.0:
    resolution: {integrity: sha512-00==}

  os@0.1.2:
    resolution: {integrity: sha512-00==}

  real@3.0.0:
    resolution: {integrity: sha512-00==}

  tester@8.0.0:
    resolution: {integrity: sha512-00==}

snapshots:

  '@s/a@1.0.0(peer@2.0.0)':
    dependencies:
      peer: 2.0.0

  peer@2.0.0:
    optionalDependencies:
      os: 0.1.2

  os@0.1.2:
    optional: true

  real@3.0.0: {}

  tester@8.0.0: {}
""",
}


def _in_flow_form(text: str) -> str:
    """Adds a mapping in flow style."""
    return text.replace("importers:", "settings: {autoInstallPeers: true}\n\nimporters:", 1)


@pytest.mark.parametrize("version", PNPM)
@pytest.mark.parametrize("form", [str, _in_flow_form])
def test_all_versions_of_pnpm_lock_are_read_the_same(version, form):
    facts = read("pnpm-lock.yaml", form(PNPM[version]).encode())
    assert facts.warnings == ()
    assert _graph(facts) == {
        "@s/a 1.0.0": ["peer 2.0.0"],
        "peer 2.0.0": ["os 0.1.2"],
        "os 0.1.2": [],
        "real 3.0.0": [],
        "tester 8.0.0": [],
    }
    assert _roots(facts) == {"": ["@s/a 1.0.0", "real 3.0.0"], "packages/lib": ["tester 8.0.0"]}
    assert _asked(facts) == [
        ("@s/a", "^1", None, "runtime"),
        ("real", "npm:real@^3", None, "runtime"),
        ("tester", "^8", None, "dev"),
    ]
    assert facts.packages[2].scope == "optional"


PNPM_ALONE = """\
---
lockfileVersion: '9.0'

packages:

  pnpm@11.0.0: {}

---
lockfileVersion: '6.0'

dependencies:
  a:
    specifier: ^1
    version: 1.0.0

packages:

  /a@1.0.0:
    resolution: {integrity: sha512-00==}
"""


@pytest.mark.parametrize("tail", ["", "settings: {autoInstallPeers: true}\n"])
def test_a_single_pnpm_project_follows_pnpms_own_document(tail):
    facts = read("pnpm-lock.yaml", (PNPM_ALONE + tail).encode())
    assert list(_graph(facts)) == ["a 1.0.0"]
    assert _roots(facts) == {"": ["a 1.0.0"]}


def test_pnpm_packages_from_urls_have_a_version_field():
    text = """\
lockfileVersion: '9.0'

packages:

  far@https://git.example/tar.gz/00:
    resolution: {tarball: https://git.example/tar.gz/00}
    version: 4.0.0

snapshots:

  far@https://git.example/tar.gz/00: {}
"""
    assert list(_graph(read("pnpm-lock.yaml", text.encode()))) == ["far 4.0.0"]


YARN_1 = """\
# THIS IS AN AUTOGENERATED FILE. DO NOT EDIT THIS FILE DIRECTLY.
# yarn lockfile v1


"@s/a@^1.0.0", "@s/a@^1.1.0":
  version "1.2.0"
  resolved "https://registry.example/a.tgz#00"
  integrity sha512-00==
  dependencies:
    b "^1.0.0"
    "@s/c" "1 || 2"
  optionalDependencies:
    replaced "^1.0.0"

"alias@npm:@s/c@^3.0.0":
  version "3.0.0"

b@^1.0.0:
  version "1.0.0"

b@^2.0.0:
  version "2.0.0"

"@s/c@1 || 2":
  version "2.5.0"

"near@file:./near":
  version "0.0.0"

replaced@9.0.0:
  version "9.0.0"
"""


@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
def test_yarn_lock_resolves_by_ranges(line_end):
    facts = read("yarn.lock", YARN_1.replace("\n", line_end).encode())
    assert facts.warnings == ()
    assert _graph(facts) == {
        "@s/a 1.2.0": ["b 1.0.0", "@s/c 2.5.0", "replaced 9.0.0"],
        "@s/c 3.0.0": [],
        "b 1.0.0": [],
        "b 2.0.0": [],
        "@s/c 2.5.0": [],
        "replaced 9.0.0": [],
    }
    assert facts.packages[int(facts.notes["b@^2.0.0"])].version == "2.0.0"
    assert facts.packages[int(facts.notes["@s/c@npm:@s/c@^3.0.0"])].version == "3.0.0"


BERRY = """\
# This file is generated by running "yarn install" inside your project.

__metadata:
  version: 8
  cacheKey: 10c0

"a@npm:^1.0.0, a@npm:^1.1.0":
  version: 1.2.0
  resolution: "a@npm:1.2.0"
  dependencies:
    b: "npm:^1.0.0"
    c: ^2.0.0
  checksum: 10c0/00
  languageName: node
  linkType: hard

"alias@npm:real@^3.0.0":
  version: 3.0.0
  resolution: "real@npm:3.0.0"

"b@npm:^1.0.0":
  version: 1.0.0
  resolution: "b@npm:1.0.0"

"b@patch:b@npm%3A^1.0.0#optional!builtin<compat/b>":
  version: 1.0.0
  resolution: "b@patch:b@npm%3A1.0.0#optional!builtin<compat/b>::version=1.0.0&hash=00"

"c@npm:^2.0.0":
  version: 2.1.0
  resolution: "c@npm:2.1.0"

"lib@workspace:*, lib@workspace:packages/lib":
  version: 0.0.0-use.local
  resolution: "lib@workspace:packages/lib"
  dependencies:
    c: "npm:^2.0.0"
  languageName: unknown
  linkType: soft

"root@workspace:.":
  version: 0.0.0-use.local
  resolution: "root@workspace:."
  dependencies:
    a: "npm:^1.0.0"
    alias: "npm:real@^3.0.0"
    lib: "workspace:*"
  languageName: unknown
  linkType: soft
"""


@pytest.mark.parametrize(
    "tail", ["", '\n? "plain@npm:^5"\n:\n  version: 5.0.0\n  resolution: "plain@npm:5.0.0"\n']
)
def test_later_yarn_locks_are_yaml_and_have_projects(tail):
    facts = read("yarn.lock", (BERRY + tail).encode())
    assert facts.warnings == ()
    graph = _graph(facts)
    graph.pop("plain 5.0.0", None)
    assert graph == {
        "a 1.2.0": ["b 1.0.0", "c 2.1.0"],
        "real 3.0.0": [],
        "b 1.0.0": [],
        "c 2.1.0": [],
    }
    assert _roots(facts) == {"packages/lib": ["c 2.1.0"], "": ["a 1.2.0", "real 3.0.0"]}
    assert _asked(facts) == [
        ("c", "^2.0.0", None, "runtime"),
        ("a", "^1.0.0", None, "runtime"),
        ("real", "npm:real@^3.0.0", None, "runtime"),
    ]


def test_a_number_out_of_range_only_hides_its_field():
    facts = read("package.json", b'{"name": %s, "dependencies": {"a": "1"}}' % (b"9" * 5_000))
    assert [each.name for each in facts.requirements] == ["a"]
    assert facts.project == ""


def test_a_pnpm_lock_that_prettier_formatted_is_read():
    text = """\
lockfileVersion: "9.0"

importers:
  .:
    dependencies:
      a: { specifier: ^1, version: 1.0.0(b@2.0.0) }

packages:
  a@1.0.0:
    resolution:
      {
        integrity: sha512-00==,
      }
    engines: { node: ">=10" }
  "@s/b@2.0.0":
    resolution: { integrity: "sha512-00==", tarball: "https://registry.example/b.tgz" }

snapshots:
  a@1.0.0(b@2.0.0):
    dependencies:
      "@s/b": 2.0.0 # a comment
    transitivePeerDependencies:
      - supports-color
  "@s/b@2.0.0": {}
"""
    facts = read("pnpm-lock.yaml", text.encode())
    assert facts.warnings == ()
    assert _graph(facts) == {"a 1.0.0": ["@s/b 2.0.0"], "@s/b 2.0.0": []}
    assert _roots(facts) == {"": ["a 1.0.0"]}
    assert _asked(facts) == [("a", "^1", None, "runtime")]
