"""Fixes of pom.xml files, which Maven then resolves and compiles."""

from tests.support.fix_corpus import Corpus, advisory

BEANS = advisory("Maven", "org.springframework:spring-beans", "5.3.18")
TEXT = advisory("Maven", "org.apache.commons:commons-text", "1.10.0")
DATABIND = advisory("Maven", "com.fasterxml.jackson.core:jackson-databind", "2.12.7")
JAVA = "public class {name} {{}}\n"
COMPILER = (
    "<maven.compiler.source>8</maven.compiler.source>"
    "<maven.compiler.target>8</maven.compiler.target>"
)


def pom(name: str, body: str, parent: str = "", properties: str = "") -> str:
    """With coordinates and a parent; `body` follows them."""
    inherited = f"<parent>{coordinates(parent)}</parent>" if parent else ""
    return f"""<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  {inherited}
  {coordinates(name)}
  <properties>
    {COMPILER}
    {properties}
  </properties>
{body}
</project>
"""


def coordinates(name: str, group: str = "shop", version: str = "1") -> str:
    versioned = f"<version>{version}</version>" if version else ""
    return f"<groupId>{group}</groupId><artifactId>{name}</artifactId>{versioned}"


def dependencies(*entries: str) -> str:
    listed = "\n".join(f"    <dependency>{entry}</dependency>" for entry in entries)
    return f"  <dependencies>\n{listed}\n  </dependencies>"


def managed(*entries: str) -> str:
    return f"  <dependencyManagement>\n{dependencies(*entries)}\n  </dependencyManagement>"


def modules(*names: str) -> str:
    listed = "".join(f"<module>{name}</module>" for name in names)
    return f"  <packaging>pom</packaging>\n  <modules>{listed}</modules>"


def spring(name: str, version: str = "") -> str:
    return coordinates(name, "org.springframework", version)


def commons(name: str, version: str = "") -> str:
    return coordinates(name, "org.apache.commons", version)


def jackson(name: str) -> str:
    return coordinates(name, "com.fasterxml.jackson.core", "")


def test_a_version_is_updated(corpus: Corpus) -> None:
    before = pom("shop", dependencies(commons("commons-text", "1.9")))
    project = corpus.project({"pom.xml": before})
    assert project.fix(TEXT).read("pom.xml") == before.replace(">1.9<", ">1.10.0<")


def test_a_property_of_one_group_is_updated(corpus: Corpus) -> None:
    version = "<spring.version>5.3.17</spring.version> <!-- kept -->"
    required = dependencies(
        spring("spring-beans", "${spring.version}"), spring("spring-context", "${spring.version}")
    )
    before = pom("shop", required, properties=version)
    job = corpus.project({"pom.xml": before}).fix(BEANS)
    assert job.read("pom.xml") == before.replace("5.3.17", "5.3.18")


def test_a_property_with_another_use_is_kept(corpus: Corpus) -> None:
    properties = "<shop.version>1.9</shop.version>"
    body = dependencies(commons("commons-text", "${shop.version}"))
    body += "\n  <build><finalName>shop-${shop.version}</finalName></build>"
    job = corpus.project({"pom.xml": pom("shop", body, properties=properties)}).fix(TEXT)
    assert properties in job.read("pom.xml")
    assert "<version>1.10.0</version>" in job.read("pom.xml")


JACKSON_VERSION = "<jackson.version>2.13.4</jackson.version>"
# Only this artifact has a version 2.13.4.2.
JACKSON_FIX = advisory("Maven", "com.fasterxml.jackson.core:jackson-databind", "2.13.4.2")


def jackson_property(name: str, group: str = "core") -> str:
    return coordinates(name, f"com.fasterxml.jackson.{group}", "${jackson.version}")


def test_a_property_of_artifacts_without_the_new_version_is_kept(corpus: Corpus) -> None:
    required = dependencies(jackson_property("jackson-databind"), jackson_property("jackson-core"))
    project = corpus.project({"pom.xml": pom("shop", required, properties=JACKSON_VERSION)})
    job = project.fix(JACKSON_FIX)
    assert "`jackson-core` too, which has no version 2.13.4.2" in job.report
    assert JACKSON_VERSION in job.read("pom.xml")


def test_a_property_that_another_module_uses_is_kept(corpus: Corpus) -> None:
    objects = jackson_property("jackson-jr-objects", "jr")
    project = corpus.project(
        {
            "pom.xml": pom("shop", modules("a", "b"), properties=JACKSON_VERSION),
            "a/pom.xml": pom("a", dependencies(jackson_property("jackson-databind")), "shop"),
            "b/pom.xml": pom("b", dependencies(objects), "shop"),
        }
    )
    assert project.fix(JACKSON_FIX).changed == {"a/pom.xml"}


def test_a_version_that_the_parent_manages_is_updated_there(corpus: Corpus) -> None:
    project = corpus.project(
        {
            "pom.xml": pom(
                "shop",
                modules("api", "web") + "\n" + managed(commons("commons-text", "${text.version}")),
                properties="<text.version>1.9</text.version>",
            ),
            "api/pom.xml": pom("api", dependencies(commons("commons-text")), parent="shop"),
            "api/src/main/java/Api.java": JAVA.format(name="Api"),
            "web/pom.xml": pom(
                "web", dependencies(commons("commons-text"), coordinates("api")), parent="shop"
            ),
            "web/src/main/java/Web.java": JAVA.format(name="Web"),
        }
    )
    job = project.fix(TEXT)
    assert job.changed == {"pom.xml"}
    assert "<text.version>1.10.0</text.version>" in job.read("pom.xml")


def test_modules_with_their_own_versions_are_updated_by_one_job(corpus: Corpus) -> None:
    project = corpus.project(
        {
            "pom.xml": pom("shop", modules("api", "web")),
            "api/pom.xml": pom("api", dependencies(commons("commons-text", "1.9")), parent="shop"),
            "api/src/main/java/Api.java": JAVA.format(name="Api"),
            "web/pom.xml": pom(
                "web",
                dependencies(commons("commons-text", "1.8"), coordinates("api")),
                parent="shop",
            ),
            "web/src/main/java/Web.java": JAVA.format(name="Web"),
        }
    )
    assert project.fix(TEXT).changed == {"api/pom.xml", "web/pom.xml"}


def test_a_property_that_a_module_overrides_is_updated_in_both(corpus: Corpus) -> None:
    text = dependencies(commons("commons-text"))
    project = corpus.project(
        {
            "pom.xml": pom(
                "shop",
                modules("api", "web") + "\n" + managed(commons("commons-text", "${text.version}")),
                properties="<text.version>1.9</text.version>",
            ),
            "api/pom.xml": pom("api", text, parent="shop"),
            "web/pom.xml": pom(
                "web", text, parent="shop", properties="<text.version>1.8</text.version>"
            ),
        }
    )
    assert project.fix(TEXT).changed == {"pom.xml", "web/pom.xml"}


def test_a_version_of_a_bill_of_materials_is_updated_there(corpus: Corpus) -> None:
    imported = coordinates("bom") + "<type>pom</type><scope>import</scope>"
    project = corpus.project(
        {
            "pom.xml": pom("shop", modules("bom", "app")),
            "bom/pom.xml": pom(
                "bom",
                "  <packaging>pom</packaging>\n" + managed(commons("commons-text", "1.9")),
                parent="shop",
            ),
            "app/pom.xml": pom(
                "app",
                managed(imported) + "\n" + dependencies(commons("commons-text")),
                parent="shop",
            ),
        }
    )
    assert project.fix(TEXT).changed == {"bom/pom.xml"}


def test_a_version_that_a_published_parent_sets_is_overridden(corpus: Corpus) -> None:
    parent = coordinates("spring-boot-starter-parent", "org.springframework.boot", "2.5.0")
    before = pom("shop", dependencies(jackson("jackson-databind"))).replace(
        "</modelVersion>", f"</modelVersion>\n  <parent>{parent}<relativePath/></parent>"
    )
    job = corpus.project({"pom.xml": before}).fix(DATABIND)
    assert "<version>2.12.7</version>" in job.read("pom.xml")


def test_a_version_that_a_published_bom_sets_is_overridden_for_all_modules(corpus: Corpus) -> None:
    bom = coordinates("jackson-bom", "com.fasterxml.jackson", "2.12.3")
    imported = managed(f"{bom}<type>pom</type><scope>import</scope>")
    databind = dependencies(jackson("jackson-databind"))
    project = corpus.project(
        {
            "pom.xml": pom("shop", modules("api", "web") + "\n" + imported),
            "api/pom.xml": pom("api", databind, parent="shop"),
            "web/pom.xml": pom("web", databind, parent="shop"),
        }
    )
    job = project.fix(DATABIND)
    assert job.changed == {"pom.xml"}
    assert job.read("pom.xml").count("<version>2.12.7</version>") == 1


def test_two_projects_of_a_repository_are_updated_by_one_job(corpus: Corpus) -> None:
    project = corpus.project(
        {
            "server/pom.xml": pom("server", dependencies(commons("commons-text", "1.9"))),
            "tools/import/pom.xml": pom(
                "import", dependencies(commons("commons-text", "1.6") + "<scope>test</scope>")
            ),
        }
    )
    assert project.fix(TEXT).changed == {"server/pom.xml", "tools/import/pom.xml"}


def test_a_version_that_needs_a_newer_java_is_not_chosen(corpus: Corpus) -> None:
    before = pom("shop", dependencies(spring("spring-web", "5.3.39")))
    web = advisory("Maven", "org.springframework:spring-web", "6.0.0")
    job = corpus.project({"pom.xml": before}).fix(web, expect="failed")
    assert "6.0.0 needs Java 17, and the project compiles for 8." in job.reason
