"""Fixes of published packages, with the manifests and lock files that their authors published."""

import io
import json
import tarfile
import urllib.request
import zipfile
from pathlib import Path

import pytest

from agentjobs_runtime.settings.registries import public_registry
from tests.support.fix_corpus import Corpus, Project, advisory
from tests.support.fix_proofs import prove_maven_dependencies


def download(url: str) -> bytes:
    with urllib.request.urlopen(url, timeout=60) as response:
        content: bytes = response.read()
    return content


def unpack_crate(project: Project, name: str, version: str) -> None:
    index = json.loads(download(f"{public_registry('crates')}/config.json"))
    content = download(f"{index['dl']}/{name}/{version}/download")
    with tarfile.open(fileobj=io.BytesIO(content)) as archive:
        archive.extractall(project.tree, filter="data")
    move_up(project, project.tree / f"{name}-{version}")


def unpack_module(project: Project, name: str, version: str) -> None:
    content = download(f"{public_registry('go')}/{name}/@v/{version}.zip")
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        archive.extractall(project.tree)
    move_up(project, project.tree / f"{name}@{version}")


def move_up(project: Project, directory: Path) -> None:
    for path in directory.iterdir():
        path.rename(project.tree / path.name)


@pytest.mark.parametrize(("name", "version"), [("ripgrep", "13.0.0"), ("fd-find", "8.2.1")])
def test_a_crate(corpus: Corpus, name: str, version: str) -> None:
    project = corpus.project({})
    unpack_crate(project, name, version)
    fixes = {"regex": "1.5.5", "thread_local": "1.1.4"}
    jobs = project.fix_all(*(advisory("crates.io", *fix) for fix in fixes.items()))
    assert [job.outcome for job in jobs] == ["ready", "ready"]
    assert [job.changed for job in jobs] == [{"Cargo.lock"}, {"Cargo.lock"}]


@pytest.mark.parametrize(
    ("name", "version", "package", "fixed"),
    [
        ("github.com/labstack/echo/v4", "v4.1.17", "golang.org/x/net", "0.23.0"),
        ("github.com/gin-gonic/gin", "v1.7.7", "gopkg.in/yaml.v2", "2.4.0"),
    ],
)
def test_a_go_module(corpus: Corpus, name: str, version: str, package: str, fixed: str) -> None:
    project = corpus.project({})
    unpack_module(project, name, version)
    job = project.fix(advisory("Go", package, fixed))
    assert job.changed == {"go.mod", "go.sum"}


def test_a_maven_project(corpus: Corpus) -> None:
    """Its parent is published, too."""
    path = "org/apache/commons/commons-configuration2/2.7/commons-configuration2-2.7.pom"
    pom = download(f"{public_registry('maven')}/{path}").decode()
    project = corpus.project({"pom.xml": pom})
    fix = advisory("Maven", "org.apache.commons:commons-text", "1.10.0")
    job = project.fix(fix, prove=prove_maven_dependencies)
    assert job.read("pom.xml") == pom.replace("<version>1.8</version>", "<version>1.10.0</version>")
