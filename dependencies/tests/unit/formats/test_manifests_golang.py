"""go.mod, read as Go reads it."""

import pytest

from agentjobs_dependencies.combine import combine
from agentjobs_dependencies.formats.golang import read_go_mod
from agentjobs_dependencies.model import ParsedManifest

GO_MOD = b"""\
module "example.com/shop" // the shop

go 1.22.0
toolchain go1.22.5

require golang.org/x/text v0.3.7
require (
\tgopkg.in/yaml.v3 v3.0.0-20210107192922-496545a6307b
\tgithub.com/docker/docker v20.10.7+incompatible // indirect
\t`github.com/dgrijalva/jwt-go` v3.2.0+incompatible // kept for old tokens
\texample.com/fork v1.0.0 // indirect; see replace
\texample.com/local v1.0.0
\texample.com/skipped v1.1.0
\texample.com/branch master
)

replace example.com/fork v1.0.0 => example.org/fork v1.0.1
replace (
\texample.com/local => ../local
\texample.com/other v9.9.9 => example.org/never v1.0.0
)
exclude example.com/skipped v1.1.0
retract [v0.1.0, v0.2.0]
tool golang.org/x/tools/cmd/stringer
"""


def locked(facts: ParsedManifest) -> dict[str, tuple[str, bool]]:
    """Returns the version of each name and whether it is a direct requirement."""
    direct = {place for root in facts.roots for place in root.packages}
    return {p.name: (p.version, place in direct) for place, p in enumerate(facts.packages)}


def test_modules_are_locked_as_required_replaced_and_excluded():
    facts = read_go_mod(GO_MOD)
    assert facts.project == "example.com/shop"
    assert facts.notes == {"go": "1.22.0", "toolchain": "go1.22.5"}
    assert facts.warnings == ()
    assert locked(facts) == {
        "golang.org/x/text": ("0.3.7", True),
        "gopkg.in/yaml.v3": ("3.0.0-20210107192922-496545a6307b", True),
        "github.com/docker/docker": ("20.10.7+incompatible", False),
        "github.com/dgrijalva/jwt-go": ("3.2.0+incompatible", True),
        "example.org/fork": ("1.0.1", False),
    }


def test_only_direct_modules_are_requirements():
    by_name = {r.name: (r.specifier, r.version) for r in read_go_mod(GO_MOD).requirements}
    assert by_name == {
        "golang.org/x/text": ("v0.3.7", "0.3.7"),
        "gopkg.in/yaml.v3": (
            "v3.0.0-20210107192922-496545a6307b",
            "3.0.0-20210107192922-496545a6307b",
        ),
        "github.com/dgrijalva/jwt-go": ("v3.2.0+incompatible", "3.2.0+incompatible"),
        "example.com/branch": ("master", None),
    }


def test_the_file_is_its_own_lock_file():
    dependencies = combine({"api/go.mod": read_go_mod(GO_MOD)}).dependencies
    assert {(d.name, d.direct, d.requirement, d.manifest) for d in dependencies} == {
        ("golang.org/x/text", True, "v0.3.7", "api/go.mod"),
        ("gopkg.in/yaml.v3", True, "v3.0.0-20210107192922-496545a6307b", "api/go.mod"),
        ("github.com/dgrijalva/jwt-go", True, "v3.2.0+incompatible", "api/go.mod"),
        ("example.com/branch", True, "master", "api/go.mod"),
        ("github.com/docker/docker", False, "", "api/go.mod"),
        ("example.org/fork", False, "", "api/go.mod"),
    }


@pytest.mark.parametrize(
    ("versions", "taken"),
    [
        (("v1.9.0", "v1.10.0"), "1.10.0"),
        (("v1.10.0", "v1.9.0"), "1.10.0"),
        (("v1.0.0", "v1.0.0-rc.1"), "1.0.0"),
        (("v0.0.0-20200101000000-aaaaaaaaaaaa", "v0.0.0-20210101000000-000000000000"),
         "0.0.0-20210101000000-000000000000"),
    ],
)  # fmt: skip
def test_the_highest_version_of_a_module_counts(versions, taken):
    lines = "\n".join(f"require example.com/a {version}" for version in versions)
    assert locked(read_go_mod(lines.encode())) == {"example.com/a": (taken, True)}


@pytest.mark.parametrize(
    ("content", "kept", "warned"),
    [
        (b"", [], ""),
        (b"\x00\x01\x02require a v1.0.0", [], "binary"),
        (b"require a v1.0.0\nrequire \xff v1.0.0\n", ["a", "\ufffd"], "not valid UTF-8"),
        (b"require (\n\ta v1.0.0\n\tb v1.", ["a"], "require"),
        (b"require (\r\n\ta v1.0.0\r\n)\r\n", ["a"], ""),
        (b"require a\nrequire b v1.0.0 v2.0.0\nrequire c v1.0.0", ["c"], "require b v1.0.0 v2.0.0"),
        (b"replace =>\nrequire a v1.0.0", ["a"], "replace =>"),
        (b"require " + b"(" * 1000 + b"\nrequire a v1.0.0", [], "left out"),
        (b"<<<<<<< HEAD\nrequire a v1.0.0\n=======\nrequire a v1.1.0\n>>>>>>> x", ["a"], ""),
    ],
    ids=["empty", "binary", "bytes", "cut off", "CRLF", "odd lines", "odd replace", "brackets",
         "conflict"],
)  # fmt: skip
def test_a_broken_file_warns_and_keeps_the_rest(content, kept, warned):
    facts = read_go_mod(content)
    assert [package.name for package in facts.packages] == kept
    assert (warned in " ".join(facts.warnings)) if warned else facts.warnings == ()


def test_the_number_of_warnings_is_limited():
    facts = read_go_mod(b"require x\n" * 2_000)
    assert len(facts.warnings) < 30
