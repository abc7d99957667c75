"""Indexing a real repository in the index process: lines, dependencies, imports, warnings."""

import os
from pathlib import Path

import pytest

from agentjobs.inventory.index.process import IndexFailure
from agentjobs.inventory.index.wire import Result
from agentjobs_dependencies.graph.encoding import unpack_graph
from agentjobs_dependencies.languages import LanguageLines
from tests.support.indexing import IndexSetup, index_setup
from tests.support.workspace import run_git


@pytest.fixture
def setup(tmp_path: Path) -> IndexSetup:
    return index_setup(tmp_path)


def warnings_of(result: Result) -> dict[str, str]:
    return {warning.path: warning.reason for warning in result.warnings}


async def test_lines_are_counted_per_path_without_binaries_symlinks_and_submodules(
    setup: IndexSetup,
) -> None:
    setup.write(
        {
            "a.py": b"1\n2\n3\n",
            "same.py": b"1\n2\n3\n",
            "unterminated": b"1\n2",
            "empty": b"",
            "image.png": b"\x89PNG\0\n\n\n",
            "run": b"#!/bin/sh\n",
            "module/inside": b"",
        }
    )
    (setup.repository / "run").chmod(0o755)
    (setup.repository / "link").symlink_to("a.py")
    (setup.repository / "requirements.txt").symlink_to("/etc/passwd")
    (setup.repository / "module/inside").unlink()
    run_git(setup.repository, "update-index", "--add", "--cacheinfo", f"160000,{'1' * 40},module")
    result = await setup.index(setup.commit())
    assert (result.line_count, result.file_count) == (9, 6)
    assert result.languages == (LanguageLines("Python", 2, 6),)
    assert result.warnings == ()


async def test_paths_of_any_bytes_are_read_and_displayed_as_text(setup: IndexSetup) -> None:
    names = (b"new\nline", b"tab\t", b"\xff\xfe.py", b'"quoted"', b" ", b"\xe4/go.mod")
    commit = setup.commit(dict.fromkeys(names, b"x\n"))
    result = await setup.index(commit)
    assert result.line_count == len(names)
    assert unpack_graph(result.graph).files == ("\\xff\\xfe.py",)
    assert all(path == "\\xe4/go.mod" for path in warnings_of(result))


async def test_git_attributes_have_no_effect(setup: IndexSetup) -> None:
    commit = setup.commit({".gitattributes": b"* export-ignore filter=lfs -diff\n", "a": b"1\n"})
    assert (await setup.index(commit)).line_count == 2


async def test_a_commit_without_files_has_no_lines(setup: IndexSetup) -> None:
    result = await setup.index(setup.commit())
    assert (result.line_count, result.file_count, result.dependencies) == (0, 0, ())


async def test_a_large_source_file_is_a_warning_and_large_data_is_none(setup: IndexSetup) -> None:
    large = b"import os  \n" * 500_000
    files = {"large.py": large, "large.csv": large, "next": b"1\n"}
    result = await setup.index(setup.commit(files))
    assert result.line_count == 1
    assert list(warnings_of(result)) == ["large.py"]
    assert "larger than 2 MiB" in warnings_of(result)["large.py"]


async def test_dependencies_and_imports_are_found_and_a_broken_manifest_is_a_warning(
    setup: IndexSetup,
) -> None:
    commit = setup.commit(
        {
            "requirements.txt": b"requests==2.30.0\n",
            "web/package-lock.json": b'{"lockfileVersion": ',
            "shop/__init__.py": b"",
            "shop/cart.py": b"import requests\nfrom shop import price\n",
            "shop/price.py": b"",
        }
    )
    result = await setup.index(commit)
    assert result.dependencies is not None
    assert [(row.name, row.version) for row in result.dependencies] == [("requests", "2.30.0")]
    assert list(warnings_of(result)) == ["web/package-lock.json"]
    graph = unpack_graph(result.graph)
    edges = {(graph.files[start], graph.files[end]) for start, end in graph.edges}
    assert ("shop/cart.py", "shop/price.py") in edges
    assert "requests" in graph.externals


async def test_a_binary_manifest_is_a_warning_and_one_in_utf_16_is_read(setup: IndexSetup) -> None:
    commit = setup.commit(
        {
            "go.mod": b"\0\1\2",
            "a/uv.lock": bytes(3 * 1024 * 1024),
            "requirements.txt": "requests==2.0.0\r\n".encode("utf-16"),
        }
    )
    result = await setup.index(commit)
    assert result.line_count == 0
    assert sorted(warnings_of(result)) == ["a/uv.lock", "go.mod"]
    assert [package.name for package in result.dependencies or ()] == ["requests"]


async def test_a_blob_that_is_missing_or_broken_is_a_warning_and_the_rest_is_counted(
    setup: IndexSetup,
) -> None:
    commit = setup.commit({f"f{number}": b"%d\n" % number for number in range(9)})
    setup.remove_object("HEAD:f2")
    setup.remove_object("HEAD:f5").write_bytes(b"no object at all")
    setup.remove_object("HEAD:f8").write_bytes(b"")
    result = await setup.index(commit)
    assert (result.line_count, result.file_count) == (6, 9)
    assert sorted(warnings_of(result)) == ["f2", "f5", "f8"]


async def test_warnings_beyond_the_limit_are_counted(setup: IndexSetup) -> None:
    commit = setup.commit({f"d{number}/composer.lock": b"%d" % number for number in range(210)})
    result = await setup.index(commit)
    assert len(result.warnings) == 201
    assert result.warnings[-1].reason == "and 10 more"


async def test_a_missing_commit_is_reported_as_a_failure(setup: IndexSetup) -> None:
    setup.commit()
    with pytest.raises(IndexFailure, match="could not be read"):
        await setup.index("1" * 40)


async def test_the_progress_of_a_large_index_is_reported(setup: IndexSetup) -> None:
    result = await setup.index(setup.commit_many(2_000))
    assert (result.line_count, result.file_count) == (8_000, 2_000)
    assert result.languages == (LanguageLines("Python", 2_000, 8_000),)
    graph = unpack_graph(result.graph)
    assert len(graph.files) == 2_000
    assert len(graph.edges) == 1_999
    assert setup.progress[0] == (0, 2_000)
    assert setup.progress[-1] == (2_000, 2_000)
    assert setup.progress == sorted(setup.progress)


async def test_a_blob_with_many_paths_is_read_once_and_counted_for_each(
    setup: IndexSetup, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "blobs"
    (tmp_path / "bin").mkdir()
    script = tmp_path / "bin" / "git"
    script.write_text(
        f"#!/bin/sh\nPATH={os.environ['PATH']}\n"
        f'if [ "$1" = cat-file ]; then tee -a {log} | git "$@"; else exec git "$@"; fi\n'
    )
    script.chmod(0o755)
    commit = setup.commit({f"f{number}.py": b"import os\n" for number in range(9)})
    monkeypatch.setenv("PATH", f"{script.parent}:{os.environ['PATH']}")
    assert (await setup.index(commit)).line_count == 9
    assert len(log.read_text().splitlines()) == 1


def test_a_change_of_the_fixtures_is_sent_although_no_manifest_changed(setup: IndexSetup) -> None:
    files = {"requirements.txt": b"a==1\n", "examples/requirements.txt": b"b==1\n"}
    first = setup.index_in_process(setup.commit(files))
    assert [(d.name, d.fixture) for d in first.dependencies or ()] == [("b", True), ("a", False)]
    digest = first.dependencies_digest
    same = setup.commit({".agentjobs.toml": b"draft = true\n"})
    result = setup.index_in_process(same, stored_digest=digest)
    assert (result.dependencies, result.dependencies_digest) == (None, digest)
    changed = setup.commit({".agentjobs.toml": b"inventory.fixtures = ['/requirements.txt']\n"})
    result = setup.index_in_process(changed, stored_digest=digest)
    assert [(d.name, d.fixture) for d in result.dependencies or ()] == [("b", False), ("a", True)]


def test_a_change_of_imports_is_sent_although_no_manifest_changed(setup: IndexSetup) -> None:
    lock = b'[[package]]\nname = "pyyaml"\nversion = "6.0"\nsource = { registry = "x" }\n'
    first = setup.index_in_process(setup.commit({"uv.lock": lock, "a.py": b"import os\n"}))
    assert [each.imported for each in first.dependencies or ()] == ["no"]
    digest = first.dependencies_digest
    same = setup.commit({"b.py": b"import os, a\n"})
    result = setup.index_in_process(same, stored_digest=digest)
    assert (result.dependencies, result.dependencies_digest) == (None, digest)
    changed = setup.commit({"a.py": b"import yaml\n"})
    result = setup.index_in_process(changed, stored_digest=digest)
    assert [each.imported for each in result.dependencies or ()] == ["yes"]
    notebook = setup.commit({"a.py": b"import os\n", "b.ipynb": b"{}\n"})
    result = setup.index_in_process(notebook, stored_digest=digest)
    assert [each.imported for each in result.dependencies or ()] == ["unknown"]


async def test_a_shallow_repository_is_indexed(setup: IndexSetup, tmp_path: Path) -> None:
    setup.commit({"a": b"1\n"})
    setup.commit({"b": b"1\n"})
    shallow = tmp_path / "shallow"
    run_git(tmp_path, "clone", "-q", "--depth=1", f"file://{setup.repository}", str(shallow))
    copy = IndexSetup(shallow, setup.poms_path)
    assert (await copy.index(run_git(shallow, "rev-parse", "HEAD"))).file_count == 2
