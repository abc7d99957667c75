"""Java imports, which are at the head of the file."""

import pytest

from agentjobs_dependencies.imports import find


@pytest.mark.parametrize(
    ("source", "names"),
    [
        (
            "package a.b;\nimport c.D;\nimport e.*;\nclass A {}\nimport no.No;",
            ["c.D", "e.*"],
        ),
        ("import static a.B.c;\nimport static a.B.*;", ["static a.B.c", "static a.B.*"]),
        ("/* import no.A; */ package a;;\n// import no.B;\nimport b . C /* x */ ;", ["b.C"]),
        ('@Gen(value = "a)b", x = 1)\n@Other package a;\nimport b.C;', ["b.C"]),
        ("import module java.base;\nimport a.B;", ["java.base", "a.B"]),
        ("import staticky.A;\nimport modules.B;", ["staticky.A", "modules.B"]),
        ("@interface A {}\nimport no.No;", []),
        ("package a", []),
        ("import a.B", []),
        ("/* package a;", []),
        ("", []),
    ],
)
def test_imports_are_read_from_the_head(source, names):
    facts = find("Java", source.encode())
    assert list(facts.imports) == names
