"""Go imports, which are at the head of the file."""

import pytest

from agentjobs.inventory.imports import find


@pytest.mark.parametrize(
    ("source", "package", "names"),
    [
        ('package a\nimport "fmt"\n', "a", ["fmt"]),
        ('package a; import ("fmt"; "os")', "a", ["fmt", "os"]),
        (
            'package a\nimport (\n\tf "fmt" // "no"\n\t. "os"\n\t_ "x/y"\n)\n',
            "a",
            ["fmt", "os", "x/y"],
        ),
        ('// package no\n/* package no */ package a\nimport `raw`\nimport "C"', "a", ["raw", "C"]),
        ('package a\nimport "b"\nfunc f() { s := `\nimport "no"\n` }\n', "a", ["b"]),
        ('package a\nimport (\n)\nimport "b"\n', "a", ["b"]),
        ('\ufeffpackage a\r\nimport "b"\r\n', "a", ["b"]),
        ('import "no"\n', "", []),
        ('package a\nimport (\n"b"\n', "a", ["b"]),
        ("package a\nimport important\n", "a", []),
        ("/* package a", "", []),
        ("", "", []),
    ],
)
def test_package_and_imports_are_read_from_the_head(source, package, names):
    facts = find("Go", source.encode())
    assert (facts.declares, list(facts.imports)) == (package, names)
