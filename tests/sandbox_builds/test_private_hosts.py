"""Go and Maven fetch from a private host through the broker."""

import io
import zipfile
from pathlib import Path

from tests.support.brokered import broker_harness, files

PREFIX = "/api/packages"
GO_MOD = "module acme.example/shared\n\ngo 1.16\n"
SETTINGS = """\
<settings><mirrors><mirror>
  <id>acme</id><mirrorOf>*</mirrorOf><url>${env.AGENTJOBS_ARTIFACTORY_URL}</url>
</mirror></mirrors></settings>
"""
PARENT = """\
<project>
  <modelVersion>4.0.0</modelVersion>
  <groupId>com.acme</groupId><artifactId>parent</artifactId><version>1.0</version>
  <packaging>pom</packaging>
</project>
"""
PROJECT = """\
<project>
  <modelVersion>4.0.0</modelVersion>
  <parent><groupId>com.acme</groupId><artifactId>parent</artifactId><version>1.0</version></parent>
  <artifactId>shop</artifactId><packaging>pom</packaging>
</project>
"""


async def test_go_fetches_a_private_module(tmp_path: Path) -> None:
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as module:
        module.writestr("acme.example/shared@v1.0.0/go.mod", GO_MOD)
        module.writestr("acme.example/shared@v1.0.0/shared.go", "package shared\n")
    base = f"{PREFIX}/acme.example/shared/@v/v1.0.0"
    content = {
        f"{base}.info": ("application/json", b'{"Version": "v1.0.0"}'),
        f"{base}.mod": ("text/plain", GO_MOD.encode()),
        f"{base}.zip": ("application/zip", archive.getvalue()),
    }
    (tmp_path / "go.mod").write_text("module shop\n\ngo 1.16\n")
    (tmp_path / "shop.go").write_text('package shop\n\nimport _ "acme.example/shared"\n')
    async with broker_harness(files(content), tmp_path, kind="go", path_prefix=PREFIX) as harness:
        # Otherwise the test could not delete the module cache.
        await harness.run(tmp_path, "go", "get", "-modcacherw", "acme.example/shared@v1.0.0")
        await harness.run(tmp_path, "go", "build", "./...")

        assert "acme.example/shared v1.0.0 h1:" in (tmp_path / "go.sum").read_text()


async def test_maven_fetches_a_parent_through_a_mirror_in_its_settings(tmp_path: Path) -> None:
    path = f"{PREFIX}/com/acme/parent/1.0/parent-1.0.pom"
    (tmp_path / "pom.xml").write_text(PROJECT)
    (tmp_path / "settings.xml").write_text(SETTINGS)
    async with broker_harness(
        files({path: ("text/xml", PARENT.encode())}), tmp_path, path_prefix=PREFIX
    ) as harness:
        local = f"-Dmaven.repo.local={tmp_path / 'repository'}"
        await harness.run(tmp_path, "mvn", "--batch-mode", "-s", "settings.xml", local, "validate")

        assert ("GET", path) in [request[:2] for request in harness.host.requests]
