"""The version of a fix runs with the Java release that the project compiles for."""

import struct
import zipfile
from pathlib import Path

import pytest

from agentjobs_dependencies.fixes.candidates import choose_candidate
from agentjobs_dependencies.fixes.model import Candidate, CannotFix, Fix

PLUGIN = """\
<build><plugins><plugin>
  <artifactId>maven-compiler-plugin</artifactId>
  <configuration><release>${java}</release></configuration>
</plugin></plugins></build>"""


def class_file(release: int) -> bytes:
    return struct.pack(">IHH", 0xCAFEBABE, 0, 44 + release)


def publish(registry: Path, version: str, release: int) -> None:
    directory = registry / "org/shop/cart" / version
    directory.mkdir(parents=True)
    with zipfile.ZipFile(directory / f"cart-{version}.jar", "w") as jar:
        jar.writestr("module-info.class", class_file(21))
        jar.writestr("META-INF/versions/21/shop/Cart.class", class_file(21))
        jar.writestr("shop/Cart.class", class_file(release))


@pytest.fixture
def fix(tmp_path: Path) -> Fix:
    registry = tmp_path / "registry"
    publish(registry, "1.2", release=17)
    publish(registry, "1.1", release=8)
    candidates = (Candidate("1.2"), Candidate("1.1"))
    return Fix(
        *("Maven", "pom.xml", "org.shop:cart", "1.0", "1.2"),
        registry=registry.as_uri(),
        candidates=candidates,
    )


def project(directory: Path, pom: str) -> Path:
    root = directory / "project"
    root.mkdir()
    (root / "pom.xml").write_text(f"<project>{pom}</project>")
    return root


@pytest.mark.parametrize(
    ("pom", "expected"),
    [
        ("<properties><java.version>1.8</java.version></properties>", "1.1"),
        ("<properties><maven.compiler.release>11</maven.compiler.release></properties>", "1.1"),
        (f"<properties><java>8</java></properties>{PLUGIN}", "1.1"),
        (f"<properties><java>21</java></properties>{PLUGIN}", "1.2"),
        ("<properties><java.version>17</java.version></properties>", "1.2"),
        ("", "1.2"),
    ],
)
def test_the_first_version_that_runs_is_chosen(
    pom: str, expected: str, fix: Fix, tmp_path: Path
) -> None:
    chosen = choose_candidate(fix, project(tmp_path, pom))
    assert chosen.new == expected
    assert ("1.2 needs Java 17" in chosen.why) == (expected == "1.1")


def test_a_fix_without_a_version_that_runs_says_why(fix: Fix, tmp_path: Path) -> None:
    root = project(tmp_path, "<properties><java.version>7</java.version></properties>")
    with pytest.raises(CannotFix, match=r"1\.1 needs Java 8, and the project compiles for 7"):
        choose_candidate(fix, root)


def test_a_package_without_a_jar_is_not_refused(fix: Fix, tmp_path: Path) -> None:
    for jar in tmp_path.rglob("*.jar"):
        jar.write_bytes(b"not a jar")
    root = project(tmp_path, "<properties><java.version>8</java.version></properties>")
    assert choose_candidate(fix, root).new == "1.2"
