"""Targets: manifests, sources and configuration files of a repository."""

from collections.abc import Callable, Mapping
from importlib import import_module

from agentjobs.inventory.test_command import READ_FILES, RootFiles, guess_test_command
from agentjobs_dependencies import imports
from agentjobs_dependencies.combine import combine
from agentjobs_dependencies.formats.kinds import READERS
from agentjobs_dependencies.formats.text import UnreadableManifest
from agentjobs_dependencies.imports.javascript.tsconfig import read_aliases
from agentjobs_dependencies.installed_together import find_installed_together
from agentjobs_dependencies.model import ParsedManifest
from agentjobs_runtime.environments.devcontainer import DevcontainerError, parse_devcontainer
from agentjobs_runtime.repo_configuration import ConfigurationError, parse_configuration
from tests.hostile.fuzz.documents import documents, json_documents
from tests.hostile.fuzz.target import Target

_TOML_TOKENS = (
    b"[[",
    b"]]",
    b"[a.b]",
    b'"""',
    b"'''",
    b"a.b.c=1\n",
    b"{a=1}",
    b"1979-05-27",
    b"\n",
)
_POM = b"""<project xmlns="http://maven.apache.org/POM/4.0.0"><parent><groupId>a</groupId>
<artifactId>p</artifactId><version>1</version></parent><artifactId>b</artifactId>
<properties><v>1.${w}</v><w>${v}</w></properties><dependencyManagement><dependencies><dependency>
<groupId>g</groupId><artifactId>x</artifactId><version>${v}</version><scope>test</scope>
</dependency></dependencies></dependencyManagement><modules><module>sub</module></modules>
<dependencies><dependency><groupId>g</groupId><artifactId>x</artifactId></dependency>
</dependencies></project>"""
_CARGO_LOCK = b"""version = 3

[[package]]
name = "a"
version = "1.0.0"
source = "registry+https://github.com/rust-lang/crates.io-index"
checksum = "00"
dependencies = [
 "b",
 "c 1.0.0 (registry+https://github.com/rust-lang/crates.io-index)",
]

[[package]]
name = "b"
version = "2.0.0"
"""
_UV_LOCK = b"""version = 1
requires-python = ">=3.11"

[[package]]
name = "a"
version = "1.0"
source = { editable = "." }
dependencies = [
    { name = "b", extra = ["x"], marker = "python_version < '3.12'" },
]

[package.optional-dependencies]
x = [{ name = "c" }]

[package.dev-dependencies]
dev = [{ name = "d" }]

[[package]]
name = "b"
version = "2.0"
source = { registry = "https://pypi.org/simple" }
sdist = { url = "https://x/b.tar.gz", hash = "sha256:00", size = 1 }
wheels = [
    { url = "https://x/b.whl", hash = "sha256:00" },
]
"""
_POETRY_LOCK = b"""[[package]]
name = "a"
version = "1.0"
optional = true
python-versions = "*"
groups = ["main", "dev"]
files = [
    {file = "a.whl", hash = "sha256:00"},
]

[package.dependencies]
b = {version = ">=1", markers = "extra == 'x'"}

[[package]]
name = "b"
version = "2.0"

[metadata]
lock-version = "2.1"
"""
_PYPROJECT = b"""[project]
name = "a"
dependencies = ["b[x]>=1.0,<2; python_version < '3.12'", "c @ git+https://x/c"]
[project.optional-dependencies]
x = ["d==1.0"]
[dependency-groups]
dev = ["e", {include-group = "x"}]
[tool.poetry.dependencies]
python = "^3.11"
f = {version = "^1.0", optional = true}
g = [{version = "1"}, {git = "x"}]
[tool.poetry.group.dev.dependencies]
h = "*"
[tool.uv.workspace]
members = ["packages/*"]
"""
_PNPM_LOCK = b"""lockfileVersion: '9.0'

importers:

  .:
    dependencies:
      a:
        specifier: ^1.0.0
        version: 1.0.0(b@2.0.0)
    devDependencies:
      '@s/c':
        specifier: workspace:*
        version: link:packages/c

packages:

  a@1.0.0:
    resolution: {integrity: sha512-x}

snapshots:

  a@1.0.0(b@2.0.0):
    dependencies:
      b: 2.0.0
"""
_YARN_LOCK = b"""# yarn lockfile v1


"@s/a@^1.0.0", a@~1:
  version "1.0.1"
  resolved "https://x/a.tgz#00"
  dependencies:
    b "^2.0.0"

b@^2.0.0:
  version "2.0.0"
"""
_YARN_BERRY = b"""__metadata:
  version: 8

"a@npm:^1.0.0, a@npm:~1":
  version: 1.0.1
  resolution: "a@npm:1.0.1"
  dependencies:
    b: "npm:^2.0.0"
  languageName: node
  linkType: hard
"""
_GEMFILE_LOCK = b"""PATH
  remote: .
  specs:
    own (1.0)
      b (>= 1)

GEM
  remote: https://rubygems.org/
  specs:
    a (1.0.0-x86_64-linux)
      b (~> 2.0, >= 2.0.1)
    b (2.0.1)

PLATFORMS
  ruby

DEPENDENCIES
  a (= 1.0.0)
  own!

BUNDLED WITH
   2.5.0
"""
_PACKAGE_JSON = {
    "name": "a",
    "workspaces": ["packages/*"],
    "dependencies": {"b": "^1.0.0", "c": "npm:d@1.2.3", "e": "1.x || >=2 <3"},
    "devDependencies": {"f": "file:../f"},
    "optionalDependencies": {"g": "*"},
    "scripts": {"test": "jest"},
}
_PACKAGE_LOCK = {
    "lockfileVersion": 3,
    "packages": {
        "": {"name": "a", "dependencies": {"b": "^1"}, "devDependencies": {"c": "1"}},
        "node_modules/b": {"version": "1.0.0", "dependencies": {"c": "^2"}},
        "node_modules/b/node_modules/c": {"version": "2.0.0", "dev": True},
        "node_modules/c": {"version": "1.0.0", "peer": True, "optional": True},
        "node_modules/d": {"resolved": "packages/d", "link": True},
    },
}
_OLD_PACKAGE_LOCK = {
    "lockfileVersion": 1,
    "dependencies": {
        "b": {
            "version": "1.0.0",
            "requires": {"c": "^2"},
            "dependencies": {"c": {"version": "2.0.0", "dev": True}},
        }
    },
}
_COMPOSER = {"name": "a/b", "require": {"php": ">=8", "c/d": "^1.0"}, "require-dev": {"e/f": "1.0"}}
_COMPOSER_LOCK = {
    "packages": [{"name": "c/d", "version": "v1.0.0", "require": {"g/h": "*"}, "provide": []}],
    "packages-dev": [{"name": "g/h", "version": "2.0", "replace": {"i/j": "self.version"}}],
}
_PIPFILE_LOCK = {
    "_meta": {"hash": {"sha256": "00"}},
    "default": {"a": {"version": "==1.0", "index": "pypi", "extras": ["x"]}},
    "develop": {"b": {"git": "https://x", "ref": "00"}},
}
_GO_MOD = b"""module example.com/a // comment

go 1.22

require (
\tgithub.com/b/c v1.2.3 // indirect
\tgolang.org/x/text v0.3.8
)
replace github.com/b/c => ../c
replace golang.org/x/text v0.3.8 => golang.org/x/text v0.3.9
exclude (
\ta v1
)
"""

_TOML_FRAMES = ("{}", "a = {}", 'a = "{}', "[{}", '[[package]]\nname = "{}')
_JSON_FRAMES = ("{}", '{"dependencies": {"a": "{}"}}', '{"a": {}', '{"{}": [{}]}')
_TEXT_FRAMES = ("{}", "a {}", "a\n  {}")
_SEEDS: Mapping[str, object] = {
    "requirements.txt": b"a[x]==1.0 ; python_version < '3' \\\n  --hash=sha256:00\n-r b.txt\n"
    b"-e git+https://x#egg=c\n# via\nd>=1,<2  # via a, b\n./local\n",
    "pyproject.toml": _PYPROJECT,
    "setup.cfg": b"[metadata]\nname = a\n[options]\ninstall_requires =\n  b>=1\n  c; x == 'y'\n"
    b"[options.extras_require]\nx = d\n  e\n",
    "Pipfile": b'[packages]\na = "*"\nb = {version = "==1"}\n[dev-packages]\nc = "1"\n',
    "Pipfile.lock": _PIPFILE_LOCK,
    "uv.lock": _UV_LOCK,
    "poetry.lock": _POETRY_LOCK,
    "package.json": _PACKAGE_JSON,
    "package-lock.json": [_PACKAGE_LOCK, _OLD_PACKAGE_LOCK],
    "pnpm-lock.yaml": _PNPM_LOCK,
    "yarn.lock": [_YARN_LOCK, _YARN_BERRY],
    "go.mod": _GO_MOD,
    "Cargo.toml": b'[package]\nname = "a"\n[dependencies]\nb = "1"\nc = {version = "=1", optional ='
    b' true}\nd.workspace = true\n[target."cfg(unix)".dev-dependencies]\ne = "1"\n[workspace]\n'
    b'members = ["x/*"]\n[workspace.dependencies]\nd = "2"\n',
    "Cargo.lock": _CARGO_LOCK,
    "pom.xml": _POM,
    "Gemfile.lock": _GEMFILE_LOCK,
    "composer.json": _COMPOSER,
    "composer.lock": _COMPOSER_LOCK,
}


def _reader(kind: str) -> Callable[[bytes], object]:
    """Without `formats.read`, which turns an exception that nobody expected into a warning."""
    _, module, function = READERS[kind]
    reader: Callable[[bytes], ParsedManifest] = getattr(
        import_module(f"agentjobs_dependencies.formats.{module}"), function
    )

    def read(content: bytes) -> object:
        parsed = reader(content)
        return parsed, combine({kind: parsed, f"sub/{kind}": parsed})

    return read


def _manifest(kind: str) -> Target:
    seeds = _SEEDS[kind]
    items = seeds if isinstance(seeds, list) else [seeds]
    is_json = isinstance(items[0], dict)
    frames = _JSON_FRAMES if is_json else _TOML_FRAMES if kind.endswith("l") else _TEXT_FRAMES
    if kind in {"uv.lock", "poetry.lock", "Cargo.lock", "Pipfile"}:
        frames = _TOML_FRAMES
    if kind == "pom.xml":
        frames = ("{}", "<project>{}", "<project><properties><a>{}</a></properties></project>")
    return Target(
        f"manifest {kind}",
        json_documents(*items) if is_json else documents(*items, tokens=_TOML_TOKENS),
        _reader(kind),
        (UnreadableManifest,),
        frames=frames,
        units=("[[a]]\n", "a = 1\n", '"a": 1,', "a==1\n", "${a}", "a@1, ", "(a", " \\\n", "  a:\n"),
    )


_SOURCES = {
    "Python": b'"""x"""\nimport a.b as c, d\nfrom . import (e,\n f) # g\nif 1: import h; f"{i}"\n'
    b"__import__('j')\nimportlib.import_module('k')\n",
    "JavaScript": b"import a, {b} from './c'\nexport * from \"d\"; const e = require('f')\n"
    b"import('g'); /* import 'h' */ const r = /[/'\"]/g; `${import(`i`)}`\n",
    "Go": b'// x\npackage a\nimport "b"\nimport (\n\tc "d/e"\n\t_ `f`\n)\n',
    "Java": b'/* x */ package a.b; import c.d.E; import static f.G.*;\nclass H { String s = "x"; }',
    "Rust": b'use a::{b::{self, c}, d as e}; mod f; mod g { use super::*; }\n#[path = "x"] mod h;\n'
    b'extern crate i; let s = r#"use j;"#; // use k\n',
}


_ENDINGS = {"Python": "py", "JavaScript": "js", "Go": "go", "Java": "java", "Rust": "rs"}


def _resolve(language: str, content: bytes) -> object:
    module = imports.find(language, content)
    path = f"src/a/b.{_ENDINGS[language]}"
    graph = imports.resolve({path: module}, {path}, {}, {})
    return module, graph.externals


def _language(name: str) -> Target:
    return Target(
        f"imports of {name}",
        documents(_SOURCES[name], tokens=(b"import ", b"use ", b'r#"', b"'''", b"`${", b"from ")),
        lambda content: _resolve(name, content),
        frames=("{}", "import {}", "use {}", "package a; import ({}", '"{}'),
        units=(
            "import a\n",
            "a/",
            "a::",
            "use a::{",
            "from a import (",
            "`${",
            "'''",
            'r#"',
            "=/[",
            "\\\n",
        ),
    )


def _read_aliases(content: bytes) -> object:
    aliases = read_aliases("a/tsconfig.json", {"a/tsconfig.json": content})
    return aliases.paths_for("@x/y")[:1_000]


def _find_together(content: bytes) -> object:
    text = content.decode("utf-8", "replace")
    files = ("Dockerfile", "tox.ini", "a.sh", "requirements/a.txt", "b/requirements.txt")
    return find_installed_together({}, dict.fromkeys(files, text), (*files, "requirements.in"))


def _guess(content: bytes) -> object:
    return guess_test_command(RootFiles(READ_FILES, dict.fromkeys(READ_FILES, content)))


_CONFIGURATION = b"""verify = "make test"
timeout_seconds = 600
max_cost_usd = 2.5
network = ["packages.test", "*.example.org:8443"]
protected_paths = ["infra/**", "*.lock"]
reviewers = ["ada"]
draft = true
auto_trigger_on_cve_severity = "Moderate"
unknown = 1

[agents.claude-code]
verify = ["pytest", "-q"]
on_verify_failure = "draft"

[fixes]
group = "ecosystem"

[environment]
image = "registry.test:5000/acme/build:12"
setup = '''
uv sync
'''
cache = ["uv.lock"]
variables.A = "1"
[[environment.services]]
name = "db"
image = "db@sha256:00"
[environment.services.variables]
B = "2"
"""

TARGETS = (
    *map(_manifest, _SEEDS),
    *map(_language, _SOURCES),
    Target(
        "tsconfig.json",
        json_documents(
            {"extends": "./b", "compilerOptions": {"baseUrl": ".", "paths": {"@x/*": ["s/*"]}}}
        ),
        _read_aliases,
        frames=("{}", '{"a": {}', "//{}", "/*{}"),
        units=("/*", "//\n", ",]", '"a",'),
    ),
    Target(
        "devcontainer.json",
        json_documents(
            {
                "image": "registry.test/a:1",
                "onCreateCommand": "a ${localEnv:B:c} ${containerWorkspaceFolder}",
                "updateContentCommand": ["a", "b c"],
                "postCreateCommand": {"a": "b", "c": ["d"]},
                "containerEnv": {"A": "${localEnv:B}", "HOME": "x"},
                "build": {"dockerfile": "D"},
            }
        ),
        parse_devcontainer,
        (DevcontainerError,),
        frames=(
            *("{}", '{"a": {}', "//{}", "/*{}", '{"image": "{}"}'),
            *('{"image": "a", "onCreateCommand": "{}"}', '{"image": "a", "onCreateCommand": {}}'),
            '{"image": "a", "containerEnv": {"A": "{}"}}',
        ),
        units=("/*", "//\n", ",]", '"a",', "${", "${localEnv:", "${env:a", "'", '{"a":', "[", "a/"),
        max_bytes=64 * 1024,
    ),
    Target(
        "test command",
        documents(
            b"test:\n\tmake\n", b'{"scripts": {"test": "x"}}', b"task :test\n", b"[tool.pytest]"
        ),
        _guess,
        frames=("{}", "test{}", "task{}", '{"scripts": {"test": "{}'),
        units=("test", "task ", "\ntest"),
        max_bytes=256 * 1024,
    ),
    Target(
        "files installed together",
        documents(
            b"RUN pip install -r requirements/a.txt \\\n -r /b/requirements.txt\n",
            b"[testenv]\ndeps =\n  -r requirements/*.txt\n  -c b/requirements.txt\n",
            b"-r ../b/requirements.txt\n--constraint=a.txt\n",
            tokens=(b"install ", b"-r", b".txt ", b"*", b"../", b"\\\n"),
        ),
        _find_together,
        frames=("{}", "install {}", "deps =\n {}", "-r {}"),
        units=("-r a.txt ", "../", "**/", "\\\n", "\n ", "install *.txt\n", "a.txt"),
        max_bytes=256 * 1024,
    ),
    Target(
        ".agentjobs.toml",
        documents(_CONFIGURATION, tokens=(*_TOML_TOKENS, b"[agents.x]", b"[[agents]]", b"agents=")),
        parse_configuration,
        (ConfigurationError,),
        frames=(
            *("{}", "x = {}", 'x = """\n{}\n"""\ny = 1', 'x = """\n[{}\n"""\ny = 1', '"{}" = 1'),
            "[environment]\nimage = '{}'",
        ),
        units=("a=1\n", "[agents.a]\n", "a.b=1\n", "[a]\n", "[[a]]\n", "a/", "a-", "a__"),
        max_bytes=64 * 1024,
    ),
)
