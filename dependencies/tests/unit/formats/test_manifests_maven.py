"""Single pom.xml files, and those of a repository combined."""

import pytest

from agentjobs_dependencies.combine import combine
from agentjobs_dependencies.formats.maven.inheritance import find_missing_poms
from agentjobs_dependencies.formats.maven.pom import complete, read_pom
from agentjobs_dependencies.formats.maven.published import MAX_POMS, PublishedPoms
from agentjobs_dependencies.model import ParsedManifest


def pom(body: str, artifact: str = "app", parent: str = "", version: str = "1.0") -> bytes:
    """A project; with a parent it inherits the rest of its coordinates."""
    own = "" if parent else f"<groupId>com.example</groupId><version>{version}</version>"
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>'
        f"{parent}{own}<artifactId>{artifact}</artifactId>{body}</project>"
    ).encode()


def parent(artifact: str, rest: str = "", version: str = "1.0") -> str:
    return (
        f"<parent><groupId>com.example</groupId><artifactId>{artifact}</artifactId>"
        f"<version>{version}</version>{rest}</parent>"
    )


def dependency(name: str, version: str = "", rest: str = "") -> str:
    group, _, artifact = name.partition(":")
    number = f"<version>{version}</version>" if version else ""
    return (
        f"<dependency><groupId>{group}</groupId><artifactId>{artifact}</artifactId>"
        f"{number}{rest}</dependency>"
    )


def dependencies(*each: str) -> str:
    return f"<dependencies>{''.join(each)}</dependencies>"


def managed(*each: str) -> str:
    return f"<dependencyManagement>{dependencies(*each)}</dependencyManagement>"


def asked(facts: ParsedManifest) -> dict[str, tuple[str | None, str]]:
    return {r.name: (r.version, r.scope) for r in facts.requirements}


def completed(**poms: bytes) -> dict[str, dict[str, tuple[str | None, str]]]:
    """Returns the requirements of the pom in each directory; `root` is the top level."""
    facts = {
        "pom.xml" if directory == "root" else f"{directory}/pom.xml": read_pom(content)
        for directory, content in poms.items()
    }
    done = complete(facts)
    assert len(combine(facts).dependencies) == sum(len(each.requirements) for each in done.values())
    return {path.removesuffix("/pom.xml"): asked(each) for path, each in done.items()}


def published(**poms: bytes) -> tuple[PublishedPoms, list[str]]:
    """Poms of the group `com.example` in version 1.0, by artifact; and what was looked up."""
    asked_for: list[str] = []

    def load(coordinate: str) -> ParsedManifest | None:
        asked_for.append(coordinate)
        group, artifact, version = coordinate.split(":")
        content = poms.get(artifact) if (group, version) == ("com.example", "1.0") else None
        return None if content is None else read_pom(content)

    return PublishedPoms(load), asked_for


def managed_requirements(
    facts: dict[str, ParsedManifest], poms: PublishedPoms
) -> dict[str, tuple[str | None, str]]:
    """The version of each dependency, and what sets it."""
    return {d.name: (d.version, d.managed_by) for d in combine(facts, poms).dependencies}


BOM_IMPORT = "<type>pom</type><scope>import</scope>"


def test_published_parents_and_boms_set_versions():
    bom = pom(
        "<properties><core>2.1</core></properties>"
        + managed(
            dependency("org.a:core", "${core}"), dependency("org.a:own", "${project.version}")
        ),
        "bom",
    )
    grandparent = pom(
        "<properties><bom.version>1.0</bom.version><log>1.2</log></properties>"
        + managed(dependency("com.example:bom", "${bom.version}", BOM_IMPORT)),
        "grandparent",
    )
    base = pom(dependencies(dependency("org.a:everywhere", "3")), "base", parent("grandparent"))
    poms, _ = published(bom=bom, grandparent=grandparent, base=base)
    facts = {
        "pom.xml": read_pom(
            pom(
                dependencies(
                    dependency("org.a:core"),
                    dependency("org.a:own"),
                    dependency("org.a:log", "${log}"),
                    dependency("org.a:pinned", "5"),
                    dependency("org.a:nowhere"),
                ),
                "app",
                parent("base", "<relativePath/>"),
            )
        )
    }
    assert managed_requirements(facts, poms) == {
        "org.a:core": ("2.1", "com.example:bom:1.0"),
        "org.a:own": ("1.0", "com.example:bom:1.0"),
        "org.a:log": ("1.2", "com.example:grandparent:1.0"),
        "org.a:pinned": ("5", ""),
        "org.a:everywhere": ("3", "com.example:base:1.0"),
        "org.a:nowhere": (None, ""),
    }
    assert poms.missing == []
    assert {d.manifest for d in combine(facts, poms).dependencies} == {"pom.xml"}


def test_a_property_of_the_repository_replaces_that_of_a_published_parent():
    old = managed(dependency("org.a:core", "${core}"))
    base = pom(f"<properties><core>2.1</core></properties>{old}", "base")
    app = pom(
        "<properties><core>2.2</core></properties>" + dependencies(dependency("org.a:core")),
        "app",
        parent("base"),
    )
    poms, _ = published(base=base)
    found = managed_requirements({"pom.xml": read_pom(app)}, poms)
    assert found == {"org.a:core": ("2.2", "com.example:base:1.0")}


def test_modules_inherit_requirements_of_a_published_parent_once():
    base = pom(dependencies(dependency("org.a:everywhere", "3")), "base")
    poms, _ = published(base=base)
    facts = {
        "pom.xml": read_pom(pom("", "app", parent("base"))),
        "a/pom.xml": read_pom(pom("", "a", parent("app"))),
    }
    (found,) = combine(facts, poms).dependencies
    assert (found.manifest, found.version) == ("pom.xml", "3")


def test_poms_that_cannot_be_resolved_are_named():
    app = pom(
        managed(
            dependency("com.example:gone", "1.0", BOM_IMPORT),
            dependency("com.example:new", "2-SNAPSHOT", BOM_IMPORT),
        )
        + dependencies(dependency("org.a:core")),
        "app",
        parent("base", version="7"),
    )
    poms, _ = published()
    combined = combine({"pom.xml": read_pom(app)}, poms)
    assert [warning.reason.split(" is neither")[0] for warning in combined.warnings] == [
        "com.example:base:7",
        "com.example:gone:1.0",
        "com.example:new:2-SNAPSHOT",
    ]
    # A snapshot is not requested: its path is not that of a release.
    assert poms.missing == ["com.example:base:7", "com.example:gone:1.0"]
    # If every version is known, nothing is said.
    pinned = pom(dependencies(dependency("org.a:core", "1")), "app", parent("base", version="7"))
    assert combine({"pom.xml": read_pom(pinned)}, poms).warnings == ()


def test_published_poms_that_require_each_other_end():
    loop = pom(managed(dependency("com.example:other", "1.0", BOM_IMPORT)), "loop", parent("other"))
    other = pom(managed(dependency("com.example:loop", "1.0", BOM_IMPORT)), "other", parent("loop"))
    poms, asked_for = published(loop=loop, other=other)
    app = pom(dependencies(dependency("org.a:core")), "app", parent("loop"))
    assert managed_requirements({"pom.xml": read_pom(app)}, poms) == {"org.a:core": (None, "")}
    assert sorted(asked_for) == ["com.example:loop:1.0", "com.example:other:1.0"]
    missing = find_missing_poms(["com.example:loop:1.0"], lambda _: read_pom(loop))
    assert missing == []


def test_at_most_a_few_hundred_published_poms_are_looked_up():
    imports = [dependency(f"com.example:b{at}", "1.0", BOM_IMPORT) for at in range(MAX_POMS + 50)]
    facts = {
        f"m{at}/pom.xml": read_pom(
            pom(managed(*imports[at::10]) + dependencies(dependency("org.a:core")), f"m{at}")
        )
        for at in range(10)
    }
    poms, asked_for = published()
    combine(facts, poms)
    assert len(asked_for) == MAX_POMS


def test_a_single_pom_has_requirements_with_scopes():
    facts = read_pom(
        pom(
            "<modules><module>core</module></modules>"
            + dependencies(
                dependency("org.apache.logging.log4j:log4j-core", "2.14.1"),
                dependency("a:test", "1", "<scope>test</scope>"),
                dependency("a:provided", "1", "<scope>provided</scope>"),
                dependency("a:optional", "1", "<optional>true</optional>"),
                dependency("a:pinned", "[1.5]"),
                dependency("a:range", "[1,2)"),
                dependency("a:latest", "LATEST"),
                dependency(
                    "a:b",
                    "1",
                    "<exclusions><exclusion><groupId>x</groupId></exclusion></exclusions>",
                ),
            )
            + "<build><plugins><plugin>"
            + dependencies(dependency("a:plugin-only", "1"))
            + "</plugin></plugins></build><profiles><profile><id>on</id>"
            + dependencies(dependency("a:profile", "1"))
            + "</profile></profiles>"
        )
    )
    assert (facts.project, facts.members, facts.warnings) == ("com.example:app", ("core",), ())
    assert asked(facts) == {
        "org.apache.logging.log4j:log4j-core": ("2.14.1", "runtime"),
        "a:test": ("1", "dev"),
        "a:provided": ("1", "optional"),
        "a:optional": ("1", "optional"),
        "a:pinned": ("1.5", "runtime"),
        "a:range": (None, "runtime"),
        "a:latest": (None, "runtime"),
        "a:b": ("1", "runtime"),
        "a:profile": ("1", "optional"),
    }


def test_namespace_prefixes_are_ignored():
    content = pom(dependencies(dependency("a:b", "1"))).replace(b"xmlns=", b"xmlns:m=")
    prefixed = content.replace(b"</", b"</m:").replace(b"<", b"<m:").replace(b"<m:/m:", b"</m:")
    assert asked(read_pom(prefixed.replace(b"<m:?", b"<?"))) == {"a:b": ("1", "runtime")}


def test_properties_are_resolved_through_properties_and_parents():
    requirements = completed(
        root=pom(
            "<properties><spring>5.3.17</spring><outer>${inner}</outer><inner>2.0</inner>"
            "<major>1</major></properties>",
            "parent",
        ),
        web=pom(
            "<properties><own>3.0</own><spring>5.3.16</spring></properties>"
            + dependencies(
                dependency("a:own", "${own}"),
                dependency("a:outer", "${outer}"),
                dependency("a:mixed", "${major}.5"),
                dependency("${project.groupId}.x:y", "${project.parent.version}"),
                dependency("a:unknown", "${unknown}"),
                dependency("org.springframework:spring-beans", "${spring}"),
            ),
            "web",
            parent("parent"),
        ),
    )
    assert requirements == {
        "pom.xml": {},
        "web": {
            "a:own": ("3.0", "runtime"),
            "a:outer": ("2.0", "runtime"),
            "a:mixed": ("1.5", "runtime"),
            "com.example.x:y": ("1.0", "runtime"),
            "a:unknown": (None, "runtime"),
            "org.springframework:spring-beans": ("5.3.16", "runtime"),
        },
    }


def test_managed_versions_come_from_parents_and_from_boms_of_the_repository():
    bom = dependency("com.example:bom", "1.0", "<type>pom</type><scope>import</scope>")
    outside = dependency("org.other:bom", "9", "<type>pom</type><scope>import</scope>")
    requirements = completed(
        root=pom(
            managed(
                dependency("a:managed", "1.1"),
                dependency("a:junit", "4", "<scope>test</scope>"),
                dependency("a:elsewhere", "7"),
                dependency("a:set", "${set}"),
                bom,
                outside,
            )
            + "<properties><set>1</set></properties>",
            "parent",
        ),
        bom=pom(
            "<properties><v>6.6</v></properties>" + managed(dependency("a:from-bom", "${v}")), "bom"
        ),
        one=pom(
            dependencies(*map(dependency, ["a:managed", "a:junit", "a:from-bom", "a:nobody"])),
            "one",
            parent("parent"),
        ),
        two=pom(
            "<properties><set>2</set></properties>"
            + dependencies(
                dependency("a:set"),
                dependency("a:managed", rest="<scope>test</scope>"),
                dependency("a:elsewhere", "8"),
                dependency("com.example:one", "${project.version}"),
            ),
            "two",
            parent("parent"),
        ),
    )
    # A managed version belongs to the pom that manages it, which is the file to edit.
    assert requirements == {
        "pom.xml": {"a:managed": ("1.1", "runtime"), "a:junit": ("4", "dev")},
        "bom": {"a:from-bom": ("6.6", "runtime")},
        "one": {"a:nobody": (None, "runtime")},
        "two": {"a:set": ("2", "runtime"), "a:elsewhere": ("8", "runtime")},
    }


@pytest.mark.parametrize(
    ("hint", "version", "expected"),
    [
        ("", "1.0", "5"),
        ("<relativePath>../build/pom.xml</relativePath>", "1.0", "5"),
        ("<relativePath>../build</relativePath>", "1.0", "5"),
        ("<relativePath/>", "1.0", "5"),
        ("<relativePath>../../../../outside</relativePath>", "1.0", "5"),
        ("<relativePath>../build</relativePath>", "0.9", None),
    ],
    ids=["by name", "file", "directory", "by name only", "outside", "another version"],
)
def test_a_parent_is_found_by_path_or_name_in_the_required_version(hint, version, expected):
    requirements = completed(
        build=pom("<properties><v>5</v></properties>", "parent"),
        app=pom(dependencies(dependency("a:b", "${v}")), "app", parent("parent", hint, version)),
    )
    assert requirements["app"] == {"a:b": (expected, "runtime")}


def test_cycles_of_parents_and_properties_end():
    circle = "<properties><x>${y}</x><y>${x}</y><z>${z}${z}${z}</z></properties>"
    uses = dependencies(*(dependency(f"a:{name}", f"${{{name}}}") for name in "xyz"))
    requirements = completed(
        root=pom(circle, "a", parent("b", "<relativePath>b</relativePath>")),
        b=pom(uses, "b", parent("a")),
    )
    assert requirements["b"] == {f"a:{name}": (None, "runtime") for name in "xyz"}


def test_an_undefined_property_in_a_name_is_a_warning():
    content = pom(dependencies(dependency("${who}:b", "1"), dependency("a:b", "1")))
    facts = complete({"pom.xml": read_pom(content)})["pom.xml"]
    assert asked(facts) == {"a:b": ("1", "runtime")}
    assert facts.warnings == ("no pom.xml of the repository defines ${who}:b",)


def test_manifests_of_other_ecosystems_are_unchanged():
    facts = {"go.mod": ParsedManifest("Go", project="example.com/a")}
    assert complete(facts) == facts


GOOD = dependency("a:b", "1")
WHOLE = pom(dependencies(GOOD, dependency("c:d", "2.3")))
BOMB = (
    b'<!DOCTYPE project [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;">]>'
    b"<project><artifactId>&b;</artifactId></project>"
)
OUTSIDE = (
    b'<!DOCTYPE project SYSTEM "file:///etc/passwd"><project><artifactId>x</artifactId></project>'
)


@pytest.mark.parametrize(
    ("content", "kept", "warned"),
    [
        (b"", [], "not well-formed XML"),
        (b"\x00\x01\x02", [], "not well-formed XML"),
        (BOMB, [], "DOCTYPE"),
        (OUTSIDE, [], "DOCTYPE"),
        (WHOLE[: WHOLE.index(b".3")], ["a:b"], "not well-formed XML"),
        (WHOLE.replace(b"2.3", b"&gone;"), ["a:b"], "undefined entity"),
        (WHOLE.replace(b"<modelVersion>", b"<name>Caf\xe9</name><modelVersion>"),
         ["a:b", "c:d"], "not UTF-8"),
        (pom(dependencies("<dependency><groupId>a</groupId></dependency>", GOOD)),
         ["a:b"], "without groupId or artifactId"),
        (b"<project>" * 100_000, [], "levels deep"),
        (pom(dependencies(GOOD) + "<a/>" * 100_001), ["a:b"], "XML elements"),
        (b"<html><body/></html>", [], "no <project>"),
        (b"<project><dependencies>x</dependencies><parent/></project>", [], ""),
        (WHOLE.decode().replace("UTF-8", "UTF-16").encode("utf-16"), ["a:b", "c:d"], ""),
        (WHOLE.replace(b"UTF-8", b"no-such"), [], "encoding"),
    ],
    ids=["empty", "binary", "bomb", "outside", "cut off", "entity", "bytes", "half", "deep", "wide",
         "another", "types", "UTF-16", "encoding"],
)  # fmt: skip
def test_a_broken_pom_warns_and_keeps_the_rest(content, kept, warned):
    facts = read_pom(content)
    assert [requirement.name for requirement in facts.requirements] == kept
    assert (warned in " ".join(facts.warnings)) if warned else facts.warnings == ()
