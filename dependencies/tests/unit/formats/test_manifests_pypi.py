"""Readers of Python manifests and lock files."""

import pytest

from agentjobs_dependencies.formats import read
from agentjobs_dependencies.model import ParsedManifest, Requirement, Root


def _graph(facts: ParsedManifest) -> dict[str, list[str]]:
    packages = facts.packages
    return {
        f"{p.name} {p.version}": [
            f"{packages[at].name} {packages[at].version}" for at in p.requires
        ]
        for p in packages
    }


def _asked(facts: ParsedManifest) -> list[tuple[str, str, str | None, str]]:
    return [(r.name, r.specifier, r.version, r.scope) for r in facts.requirements]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("requests", ("requests", "", None)),
        ("Foo_Bar.baz==1.0", ("foo-bar-baz", "==1.0", "1.0")),
        ("a [x, y] >= 1, < 2 ; python_version < '3.9' # why", ("a", ">= 1, < 2", None)),
        ("a==1.*", ("a", "==1.*", None)),
        ("a===1.0", ("a", "===1.0", "1.0")),
        ("a==1.0 --hash=sha256:00 --hash=sha256:11", ("a", "==1.0", "1.0")),
        ("a==1.0 \\\n    --hash=sha256:00 \\\n    --hash=sha256:11", ("a", "==1.0", "1.0")),
        ("a \\\n  # in between\n  ==1.0", ("a", "==1.0", "1.0")),
        ("a @ https://files.example/a.zip", ("a", "@ https://files.example/a.zip", None)),
        (
            "https://files.example/a_b-1.5-py3-none-any.whl",
            ("a-b", "@ https://files.example/a_b-1.5-py3-none-any.whl", "1.5"),
        ),
        (
            "-e git+https://git.example/x.git@main#egg=X",
            ("x", "@ git+https://git.example/x.git@main#egg=X", None),
        ),
    ],
)
def test_every_form_of_a_pip_requirement_is_read(line, expected):
    facts = read("requirements.txt", line.encode())
    assert facts.requirements == (Requirement(*expected),)
    assert facts.warnings == ()


def test_options_paths_and_comments_are_ignored():
    text = (
        "# top\n-r base.txt\n-c limits.txt\n--index-url https://pypi.example/simple\n./near\n-e .\n"
    )
    assert read("requirements.txt", text.encode()) == ParsedManifest("PyPI")


def test_prose_is_one_warning_and_affects_no_requirement():
    facts = read("requirements.txt", b"The system shall work.\nIt shall be fast!\na==1\n")
    assert _asked(facts) == [("a", "==1", "1", "runtime")]
    assert len(facts.warnings) == 1
    assert "line 1" in facts.warnings[0]
    assert "1 more" in facts.warnings[0]


def test_comments_of_pip_compile_name_parents():
    facts = read(
        "requirements.txt",
        b"""\
certifi==2023.1 \\
    --hash=sha256:00
    # via requests
flask==2.0  # via -r requirements.in
idna==3.4
    # via
    #   -c limits.txt
    #   anyio
    #   requests
anyio==4.0  # via flask, requests
requests[socks]==2.30
    # via my-project (pyproject.toml)
""",
    )
    assert _graph(facts) == {
        "certifi 2023.1": [],
        "flask 2.0": ["anyio 4.0"],
        "idna 3.4": [],
        "anyio 4.0": ["idna 3.4"],
        "requests 2.30": ["certifi 2023.1", "idna 3.4", "anyio 4.0"],
    }
    assert facts.roots == (Root("", (1, 4)),)
    assert [r.name for r in facts.requirements] == ["flask", "requests"]


def test_utf16_from_powershell_is_read():
    assert _asked(read("requirements.txt", "a==1\r\n".encode("utf-16"))) == [
        ("a", "==1", "1", "runtime")
    ]


def test_pyproject_requirements_of_all_tables_are_read():
    facts = read(
        "pyproject.toml",
        b"""
[project]
name = "My.Project"
dependencies = ["a>=1", "b[x]==2.0", "near"]
[project.optional-dependencies]
extra = ["c"]
[dependency-groups]
test = ["d", {include-group = "other"}]
other = ["e ; python_version > '3'"]
[tool.uv]
dev-dependencies = ["f"]
[tool.uv.sources]
near = {workspace = true}
[tool.uv.workspace]
members = ["packages/*"]
exclude = ["packages/old"]
[tool.poetry.dependencies]
python = "^3.11"
g = "^1.2"
h = "1.2.3"
i = {version = "*", optional = true}
j = {path = "../j"}
k = [{version = "1.0", python = "<3"}, {version = "2.0", python = ">=3"}]
l = {git = "https://git.example/l"}
[tool.poetry.group.dev.dependencies]
m = "*"
""",
    )
    assert facts.project == "my-project"
    assert facts.members == ("packages/*", "!packages/old")
    assert facts.warnings == ()
    assert _asked(facts) == [
        ("a", ">=1", None, "runtime"),
        ("b", "==2.0", "2.0", "runtime"),
        ("c", "", None, "optional"),
        ("d", "", None, "dev"),
        ("e", "", None, "dev"),
        ("f", "", None, "dev"),
        ("g", "^1.2", None, "runtime"),
        ("h", "1.2.3", "1.2.3", "runtime"),
        ("i", "", None, "optional"),
        ("k", "1.0", "1.0", "runtime"),
        ("k", "2.0", "2.0", "runtime"),
        ("l", "@ https://git.example/l", None, "runtime"),
        ("m", "", None, "dev"),
    ]


def test_setup_cfg_and_pipfile_requirements_are_read():
    facts = read(
        "setup.cfg",
        b"[metadata]\nname = X_Y\n[options]\ninstall_requires =\n  a>=1 # why\n  # b\n  c==2\n"
        b"[options.extras_require]\nmore =\n  d\n",
    )
    assert facts.project == "x-y"
    assert _asked(facts) == [
        ("a", ">=1", None, "runtime"),
        ("c", "==2", "2", "runtime"),
        ("d", "", None, "optional"),
    ]
    facts = read("Pipfile", b'[packages]\na = "==1.0"\nb = "*"\n[dev-packages]\nc = {path = "."}\n')
    assert _asked(facts) == [("a", "==1.0", "1.0", "runtime"), ("b", "", None, "runtime")]


UV_LOCK = b"""\
version = 1
requires-python = ">=3.11"

[manifest]
members = ["app", "lib"]

[[package]]
name = "app"
version = "0.1.0"
source = { virtual = "." }
dependencies = [
    { name = "lib" },
    { name = "old", version = "1.0", source = { registry = "https://pypi.example" }, marker = "x" },
    { name = "old", version = "2.0", source = { registry = "https://pypi.example" }, marker = "y" },
]

[package.optional-dependencies]
fast = [{ name = "speedup" }]

[package.dev-dependencies]
dev = [{ name = "tester" }]

[package.metadata]
requires-dist = [
    { name = "lib", editable = "packages/lib" },
    { name = "old", specifier = ">=1" },
    { name = "speedup", marker = "extra == 'fast'", specifier = "==3.0" },
]

[package.metadata.requires-dev]
dev = [{ name = "tester", specifier = ">=4" }]

[[package]]
name = "lib"
version = "0.2.0"
source = { editable = "packages/lib" }
dependencies = [
    { name = "deep" },
]

[[package]]
name = "old"
version = "1.0"
source = { registry = "https://pypi.example" }
sdist = { url = "https://files.example/old-1.0.tar.gz", hash = "sha256:00", size = 1 }
wheels = [
    { url = "https://files.example/old-1.0-py3-none-any.whl", hash = "sha256:00", size = 1 },
]

[[package]]
name = "old"
version = "2.0"
source = { registry = "https://pypi.example" }
dependencies = [
    { name = "deep" },
]

[[package]]
name = "deep"
version = "7"
source = { git = "https://git.example/deep?rev=main#00" }
dependencies = [
    { name = "speedup" },
]

[[package]]
name = "speedup"
version = "3.0"
source = { registry = "https://pypi.example" }

[[package]]
name = "tester"
version = "4.1"
source = { registry = "https://pypi.example" }
"""


def test_uv_lock_has_projects_packages_and_requirements():
    facts = read("uv.lock", UV_LOCK)
    assert facts.warnings == ()
    assert facts.project == "app"
    assert _graph(facts) == {
        "old 1.0": [],
        "old 2.0": ["deep 7"],
        "deep 7": ["speedup 3.0"],
        "speedup 3.0": [],
        "tester 4.1": [],
    }
    assert facts.roots == (Root("", (0, 1, 3, 4)), Root("packages/lib", (2,)))
    assert ("speedup", "==3.0", "3.0", "optional") in _asked(facts)
    assert ("tester", ">=4", None, "dev") in _asked(facts)


def test_complete_tables_of_a_truncated_lock_file_are_read():
    facts = read("uv.lock", UV_LOCK[: UV_LOCK.index(b'name = "speedup"\nversion')])
    assert list(_graph(facts)) == ["old 1.0", "old 2.0", "deep 7"]
    assert len(facts.warnings) == 1


def test_a_reformatted_lock_file_is_read():
    text = b'version=1\npackage=[{name="a",version="1",source={registry="r"},wheels=[{url="u"}]}]'
    assert list(_graph(read("uv.lock", text))) == ["a 1"]


def test_poetry_lock_has_packages_by_group_and_requirements():
    facts = read(
        "poetry.lock",
        b"""
[[package]]
name = "Requests"
version = "2.30"
optional = false
groups = ["main", "dev"]
files = [
    {file = "requests-2.30.tar.gz", hash = "sha256:00"},
]

[package.dependencies]
Idna = ">=2"
near = {path = "near"}

[[package]]
name = "idna"
version = "3.4"
optional = true
groups = ["main"]

[[package]]
name = "tester"
version = "8"
category = "dev"

[[package]]
name = "near"
version = "1"
[package.source]
type = "directory"
url = "near"
""",
    )
    assert _graph(facts) == {"requests 2.30": ["idna 3.4"], "idna 3.4": [], "tester 8": []}
    assert [package.scope for package in facts.packages] == ["runtime", "optional", "dev"]


def test_pipfile_lock_has_two_lists():
    facts = read(
        "Pipfile.lock",
        b'{"_meta": {}, "default": {"A_b": {"version": "==1.0", "index": "x"}, "c": {"version": 3},'
        b' "git": {"ref": "00"}}, "develop": {"d": {"version": "==2"}}}',
    )
    assert [(p.name, p.version, p.scope) for p in facts.packages] == [
        ("a-b", "1.0", "runtime"),
        ("d", "2", "dev"),
    ]
    assert facts.roots == (Root("", (0,)),)
    assert len(facts.warnings) == 1
