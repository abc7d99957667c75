"""Go imports, which are at the head of the file."""

import pytest

from agentjobs_dependencies.imports import find


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ('package a\nimport "fmt"\n', ["fmt"]),
        ('package a; import ("fmt"; "os")', ["fmt", "os"]),
        (
            'package a\nimport (\n\tf "fmt" // "no"\n\t. "os"\n\t_ "x/y"\n)\n',
            ["fmt", "os", "x/y"],
        ),
        ('// package no\n/* package no */ package a\nimport `raw`\nimport "C"', ["raw", "C"]),
        ('package a\nimport "b"\nfunc f() { s := `\nimport "no"\n` }\n', ["b"]),
        ('package a\nimport (\n)\nimport "b"\n', ["b"]),
        ('\ufeffpackage a\r\nimport "b"\r\n', ["b"]),
        ('import "no"\n', []),
        ('package a\nimport (\n"b"\n', ["b"]),
        ("package a\nimport important\n", []),
        ("/* package a", []),
        ("", []),
    ],
)
def test_imports_are_read_from_the_head(source, names):
    facts = find("Go", source.encode())
    assert list(facts.imports) == names
