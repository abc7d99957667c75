"""Text edits of go.mod and pom.xml change the version and no other byte."""

import dataclasses
from pathlib import Path

import pytest

from agentjobs_dependencies.fixes import pom
from agentjobs_dependencies.fixes.go import go_mod
from agentjobs_dependencies.fixes.model import CannotFix, Fix

GO = Fix("Go", "go.mod", "golang.org/x/text", "0.3.7", "0.3.8")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("require golang.org/x/text v0.3.7\n", "require golang.org/x/text v0.3.8\n"),
        (
            "require (\r\n\tgolang.org/x/text v0.3.7 // indirect\r\n\tb v1.0.0\r\n)\r\n",
            "require (\r\n\tgolang.org/x/text v0.3.8 // indirect\r\n\tb v1.0.0\r\n)\r\n",
        ),
        ("require golang.org/x/text v0.3.7", "require golang.org/x/text v0.3.8"),
        ("exclude (\n\tgolang.org/x/text v0.3.7\n)\n", None),
        ("require golang.org/x/text/v2 v0.3.7\n", None),
        ("require golang.org/x/text v0.3.70\n", None),
        ("// require golang.org/x/text v0.3.7\n", None),
    ],
)
def test_a_go_module_is_required_at_the_new_version(before: str, after: str | None) -> None:
    if after is None:
        with pytest.raises(CannotFix, match="no line `require"):
            go_mod.update_require(before, GO)
    else:
        assert go_mod.update_require(before, GO) == after


def test_a_replaced_go_module_is_not_fixed() -> None:
    text = "require golang.org/x/text v0.3.7\nreplace golang.org/x/text => ./fork\n"
    with pytest.raises(CannotFix, match=r"replaces golang\.org/x/text with \./fork"):
        go_mod.update_require(text, GO)


def test_a_pseudo_version_is_replaced_and_go_sum_mentioned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "go.mod").write_text(
        "require gopkg.in/yaml.v3 v3.0.0-20210107192922-496545a6307b\n"
    )
    (tmp_path / "go.sum").write_text("kept\n")
    fix = Fix(
        *("Go", "go.mod", "gopkg.in/yaml.v3"),
        *("3.0.0-20210107192922-496545a6307b", "3.0.0-20220521103104-8f96da9f5d5e"),
    )
    monkeypatch.setattr(go_mod, "has_tool", lambda _: False)
    outcome = go_mod.apply([fix], tmp_path)
    assert outcome.fixed == [fix]
    assert "go mod tidy" in outcome.unproven[0]
    text = "require gopkg.in/yaml.v3 v3.0.0-20220521103104-8f96da9f5d5e\n"
    assert (tmp_path / "go.mod").read_text() == text
    assert (tmp_path / "go.sum").read_text() == "kept\n"


@pytest.mark.parametrize(
    "rest",
    [
        "require (\n" + "\ta/b v1.0.0\n" * 300_000 + ")\n",
        "require a " + " " * 5_000_000 + "b",
        "go " + "9" * 5_000_000,
    ],
    ids=range(3),
)
def test_a_go_mod_of_five_megabytes_is_edited(rest: str) -> None:
    text = "module a\nrequire golang.org/x/text v0.3.7\n"
    edited = go_mod.update_require(text + rest, GO)
    assert edited == text.replace("0.3.7", "0.3.8") + rest


LOG4J = Fix("Maven", "pom.xml", "org.apache.logging.log4j:log4j-core", "2.14.1", "2.17.1")


def dependency(
    version: str, group: str = "org.apache.logging.log4j", name: str = "log4j-core"
) -> str:
    return (
        f"<dependency>\n <groupId>{group}</groupId>\r\n <artifactId>{name}</artifactId>"
        f"<exclusions><exclusion><version>2.14.1</version></exclusion></exclusions>"
        f"<!-- <version>2.14.1</version> -->\t<version> {version} </version></dependency>"
    )


def project(*parts: str, properties: str = "", parent: str = "") -> str:
    return (
        f"<project>{parent}<groupId>g</groupId><version>1</version>"
        f"<properties>{properties}</properties><dependencies>{''.join(parts)}</dependencies></project>"
    )


PROPERTY = "<log4j.version>2.14.1</log4j.version>"
REFERENCE = "${log4j.version}"
API = dependency(REFERENCE, name="log4j-api")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (project(dependency("2.14.1")), project(dependency("2.17.1"))),
        (
            project(dependency(REFERENCE), API, properties=PROPERTY),
            project(dependency(REFERENCE), API, properties=PROPERTY.replace("14", "17")),
        ),
        (
            project(dependency(REFERENCE), dependency(REFERENCE, "other"), properties=PROPERTY),
            project(dependency("2.17.1"), dependency(REFERENCE, "other"), properties=PROPERTY),
        ),
        (project(dependency("[2.14.1]")), project(dependency("[2.17.1]"))),
        (
            project(dependency(REFERENCE), properties="<log4j.version>[2.14.1]</log4j.version>"),
            project(dependency(REFERENCE), properties="<log4j.version>[2.17.1]</log4j.version>"),
        ),
        (project(dependency("2.13.0"), dependency("2.14.1", "other")), None),
        (project(dependency("[2.14.1,2.15)")), None),
        (project(dependency("${unknown}")), None),
        ("<dependency>" * 50, None),
        ("", None),
    ],
)
def test_a_maven_version_changes_where_it_is_set(
    tmp_path: Path, before: str, after: str | None
) -> None:
    path = tmp_path / "pom.xml"
    path.write_bytes(before.encode())
    outcome = pom.apply([LOG4J], tmp_path)
    assert len(outcome.fixed) == (after is not None)
    assert path.read_bytes().decode() == (before if after is None else after)
    assert len(outcome.failed) == (after is None)


def test_a_range_of_the_same_package_makes_a_draft(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a/pom.xml").write_text(project(dependency("[2.14,2.15)")))
    (tmp_path / "pom.xml").write_text(project(dependency("2.14.1")))
    together = (("a/pom.xml", "pom.xml"),)
    outcome = pom.apply([dataclasses.replace(LOG4J, installed_together=together)], tmp_path)
    assert outcome.unproven == [
        "`a/pom.xml` has the range `[2.14,2.15)`: check it with `mvn verify`."
    ]
    assert "<version> 2.17.1 </version>" in (tmp_path / "pom.xml").read_text()


def test_a_version_set_in_the_parent_changes_there(tmp_path: Path) -> None:
    (tmp_path / "child").mkdir()
    parent = "<parent><groupId>g</groupId><artifactId>p</artifactId><version>1</version></parent>"
    (tmp_path / "child/pom.xml").write_text(project(dependency(REFERENCE), parent=parent))
    (tmp_path / "pom.xml").write_text(project(properties=PROPERTY).replace("17", "14"))
    fix = Fix("Maven", "child/pom.xml", LOG4J.package, LOG4J.old, LOG4J.new)
    outcome = pom.apply([fix], tmp_path)
    assert outcome.fixed == [fix]
    assert "<log4j.version>2.17.1</log4j.version>" in (tmp_path / "pom.xml").read_text()
    assert REFERENCE in (tmp_path / "child/pom.xml").read_text()
    assert "The version is set in `pom.xml`." in outcome.changes


def managed(properties: str, dependencies: str) -> str:
    return f"<project>\n  <artifactId>a</artifactId>\n{properties}{dependencies}</project>\n"


ENTRY = """\
      <dependency>
        <groupId>org.apache.logging.log4j</groupId>
        <artifactId>log4j-core</artifactId>
        <version>2.17.1</version>
      </dependency>
"""
OPENING = "  <dependencyManagement>\n    <dependencies>\n"
CLOSING = "    </dependencies>\n  </dependencyManagement>\n"
WITHOUT_VERSION = dependency("").replace("<version>  </version>", "")
UNVERSIONED = f"  <dependencies>\n{WITHOUT_VERSION}\n  </dependencies>\n"
PROFILE = f"  <profiles><profile>\n{OPENING}{CLOSING}  </profile></profiles>\n"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (managed("", UNVERSIONED), managed(OPENING + ENTRY + CLOSING, UNVERSIONED)),
        (managed(OPENING + CLOSING, ""), managed(OPENING + ENTRY + CLOSING, "")),
        (managed("", ""), managed("", OPENING + ENTRY + CLOSING)),
        (managed("", PROFILE), managed("", PROFILE + OPENING + ENTRY + CLOSING)),
        (managed("", dependency(REFERENCE)), managed("", dependency("2.17.1"))),
        ("<project>", None),
    ],
)
@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
def test_a_version_of_a_published_pom_is_overridden(
    tmp_path: Path, before: str, after: str | None, line_end: str
) -> None:
    path = tmp_path / "pom.xml"
    path.write_bytes(before.replace("\r", "").replace("\n", line_end).encode())
    fix = dataclasses.replace(LOG4J, managed_by="org.boot:bom:1")
    outcome = pom.apply([fix, fix], tmp_path)
    assert len(outcome.fixed) == (0 if after is None else 2)
    expected = (after or before).replace("\r", "").replace("\n", line_end)
    assert path.read_bytes().decode() == expected
