"""Cargo.toml and Cargo.lock."""

import pytest

from agentjobs_dependencies.combine import combine
from agentjobs_dependencies.formats import read
from agentjobs_dependencies.formats.cargo.manifest import complete, read_cargo_toml
from agentjobs_dependencies.model import ParsedManifest

CARGO_TOML = b"""\
[package]
name = "shop"
version = "0.1.0"

[dependencies]
time = "=0.2.7"
serde = { version = "1", features = ["derive"] }
tls = { package = "openssl", version = "0.10", optional = true }
shop-core = { path = "core", version = "0.1" }
patched = { git = "https://example.com/patched" }
log = { workspace = true }
renamed.workspace = true
core.workspace = true

[dev-dependencies]
proptest = "1"
[build-dependencies]
cc = "1"
[target.'cfg(windows)'.dependencies]
winapi = "0.3"
[target.'cfg(unix)'.dev-dependencies]
nix = "0.27"
"""

WORKSPACE = b"""\
[workspace]
members = ["shop", "crates/*"]

[workspace.dependencies]
log = "0.4"
renamed = { package = "real", version = "=2.0.0" }
core = { path = "crates/core" }
unused = "1"
"""


def asked(facts: ParsedManifest) -> dict[str, tuple[str, str | None, str]]:
    return {r.name: (r.specifier, r.version, r.scope) for r in facts.requirements}


def graph(facts: ParsedManifest) -> dict[str, list[str]]:
    """Returns the requirements of each locked crate; those of the repository have no name."""
    names = [f"{package.name} {package.version}" for package in facts.packages]
    requirements = {names[i]: [names[j] for j in p.requires] for i, p in enumerate(facts.packages)}
    own = complete({"Cargo.lock": facts})["Cargo.lock"].roots
    return requirements | {"": [names[place] for root in own for place in root.packages]}


def test_a_manifest_requires_crates_of_every_table_by_their_real_names():
    facts = complete({"shop/Cargo.toml": read_cargo_toml(CARGO_TOML)})["shop/Cargo.toml"]
    assert (facts.project, facts.warnings) == ("shop", ())
    assert asked(facts) == {
        "time": ("=0.2.7", "0.2.7", "runtime"),
        "serde": ("1", None, "runtime"),
        "openssl": ("0.10", None, "optional"),
        "patched": ("git https://example.com/patched", None, "runtime"),
        "log": ("", None, "runtime"),
        "renamed": ("", None, "runtime"),
        "core": ("", None, "runtime"),
        "proptest": ("1", None, "dev"),
        "cc": ("1", None, "dev"),
        "winapi": ("0.3", None, "runtime"),
        "nix": ("0.27", None, "dev"),
    }


def test_members_inherit_what_their_workspace_shares():
    facts = {
        "Cargo.toml": read_cargo_toml(WORKSPACE),
        "shop/Cargo.toml": read_cargo_toml(CARGO_TOML),
    }
    assert facts["Cargo.toml"].members == ("shop", "crates/*")
    done = complete(facts)
    assert asked(done["Cargo.toml"]) == {}
    member = asked(done["shop/Cargo.toml"])
    assert member["log"] == ("0.4", None, "runtime")
    assert member["real"] == ("=2.0.0", "2.0.0", "runtime")
    # Neither the local name of a renamed crate nor the repository's own crate is a requirement.
    assert not {"renamed", "core"} & member.keys()


FIRST_FORM = b"""\
[root]
name = "shop"
version = "0.1.0"
dependencies = ["a 1.0.0 (registry+https://registry.example/index)"]

[[package]]
name = "a"
version = "1.0.0"
source = "registry+https://registry.example/index"
dependencies = ["b 1.0.0 (registry+https://registry.example/index)"]

[[package]]
name = "b"
version = "1.0.0"
source = "registry+https://registry.example/index"

[metadata]
"checksum a 1.0.0 (registry+https://registry.example/index)" = "00"
"""

LATER_FORM = b"""\
version = 4

[[package]]
name = "shop"
version = "0.1.0"
dependencies = ["a", "b 2.0.0", "shop-core"]

[[package]]
name = "shop-core"
version = "0.1.0"
dependencies = ["b 1.0.0"]

[[package]]
name = "a"
version = "1.0.0"
source = "git+https://example.com/a?rev=1#0123456"
dependencies = ["b 1.0.0"]

[[package]]
name = "b"
version = "1.0.0"
source = "registry+https://registry.example/index"
checksum = "00"

[[package]]
name = "b"
version = "2.0.0"
source = "registry+https://registry.example/index"
checksum = "00"
dependencies = ["a"]

[[patch.unused]]
name = "c"
version = "1.0.0"
"""


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (FIRST_FORM, {"a 1.0.0": ["b 1.0.0"], "b 1.0.0": [], "": ["a 1.0.0"]}),
        (
            LATER_FORM,
            {
                "a 1.0.0": ["b 1.0.0"],
                "b 1.0.0": [],
                "b 2.0.0": ["a 1.0.0"],
                "": ["a 1.0.0", "b 2.0.0", "b 1.0.0"],
            },
        ),
    ],
    ids=["first", "later"],
)
def test_a_lock_file_has_the_requirements_of_every_crate(content, expected):
    facts = read("Cargo.lock", content)
    assert (graph(facts), facts.warnings) == (expected, ())


def test_a_lock_file_and_the_manifests_of_its_workspace_are_combined():
    member = b"""\
[package]
name = "shop"
[dependencies]
a = "1"
shop-core = { path = "../core" }
[dev-dependencies]
b.workspace = true
"""
    lock = LATER_FORM.replace(
        b'["b 1.0.0"]\n\n[[package]]\nname = "a"', b'[]\n\n[[package]]\nname = "a"'
    )
    fuzz = LATER_FORM.replace(b'"shop"', b'"fuzz"')
    files = {
        "Cargo.lock": lock,
        "fuzz/Cargo.lock": fuzz,
        "fuzz/Cargo.toml": b'[package]\nname = "fuzz"\n[dependencies]\na = "1"\nb = "2"\n',
        "Cargo.toml": b"""\
[workspace]
members = ["*"]
exclude = ["fuzz"]
[workspace.dependencies]
b = "2"
""",
        "shop/Cargo.toml": member,
        "core/Cargo.toml": b'[package]\nname = "shop-core"\n',
    }
    combined = combine({p: read(p.rpartition("/")[2], content) for p, content in files.items()})
    assert combined.warnings == ()
    assert [
        (d.name, d.version, d.requirement, d.direct, d.scope, d.manifest, d.parents)
        for d in combined.dependencies
    ] == [
        ("a", "1.0.0", "1", True, "runtime", "Cargo.lock", ()),
        ("b", "2.0.0", "2", True, "dev", "Cargo.lock", ()),
        ("b", "1.0.0", "", False, "runtime", "Cargo.lock", ("a",)),
        ("a", "1.0.0", "1", True, "runtime", "fuzz/Cargo.lock", ()),
        # shop-core requires it; that crate of the repository is not in fuzz's workspace.
        ("b", "1.0.0", "", True, "runtime", "fuzz/Cargo.lock", ()),
        ("b", "2.0.0", "2", True, "runtime", "fuzz/Cargo.lock", ()),
    ]


CRATE = b'[[package]]\nname = "a"\nversion = "1.0.0"\nsource = "registry+x"\n'


@pytest.mark.parametrize(
    ("content", "kept", "warned"),
    [
        (b"", [], ""),
        (b"\x00\x01", [], "binary"),
        (b'name = "\xff"', [], "not valid UTF-8"),
        (CRATE + b'\n[[package]]\nname = "b"\nvers', ["a"], "not valid TOML"),
        (CRATE + b'name = "again"\n', [], "not valid TOML"),
        (CRATE + b'dependencies = ["a", "gone 1.0", "a b c d", ""]\n', ["a"], ""),
        (CRATE + b"\n[[package]]\nname = 1\n", ["a"], "left out"),
        (b"package = 1", [], ""),
        (b"a = " + b"[" * 100_000, [], "TOML"),
    ],
    ids=["empty", "binary", "bytes", "cut off", "twice", "cyclic", "types", "no list", "deep"],
)
def test_a_broken_lock_file_warns_and_keeps_the_rest(content, kept, warned):
    facts = read("Cargo.lock", content)
    assert [package.name for package in facts.packages] == kept
    assert (warned in " ".join(facts.warnings)) if warned else facts.warnings == ()


@pytest.mark.parametrize(
    ("content", "kept", "warned"),
    [
        (b"\xff", [], "not valid UTF-8"),
        (b'[dependencies]\na = "1"\nb = ', [], "not valid TOML"),
        (b'[dependencies]\na = "1"\na = "2"\n', [], "not valid TOML"),
        (b'[dependencies]\na = "1"\nb = 2\nc = {}\n', ["a"], "b is left out"),
        (b'dependencies = 1\ntarget = "x"\nworkspace = []\npackage = 3', [], ""),
        (b"a." * 100_000 + b"b = 1", [], "dotted key"),
    ],
    ids=["bytes", "cut off", "twice", "types", "tables", "deep"],
)
def test_a_broken_manifest_warns_and_keeps_the_rest(content, kept, warned):
    facts = read("Cargo.toml", content)
    assert [requirement.name for requirement in facts.requirements] == kept
    assert (warned in " ".join(facts.warnings)) if warned else facts.warnings == ()
