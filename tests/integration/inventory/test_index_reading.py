"""Reading a real repository in the process that does it: what is counted, found and warned of."""

from pathlib import Path

import pytest

from agentjobs.inventory.graph_data import unpack_graph
from agentjobs.inventory.index.process import IndexFailure
from agentjobs.inventory.index.wire import Result
from agentjobs.inventory.model import LanguageLines
from tests.support.indexing import IndexHouse, index_house
from tests.support.workspace import run_git


@pytest.fixture
def house(tmp_path: Path) -> IndexHouse:
    return index_house(tmp_path)


def warned(result: Result) -> dict[str, str]:
    return {warning.path: warning.reason for warning in result.warnings}


async def test_lines_are_counted_per_path_and_binary_links_and_submodules_are_left_out(
    house: IndexHouse,
) -> None:
    house.write(
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
    (house.repository / "run").chmod(0o755)
    (house.repository / "link").symlink_to("a.py")
    (house.repository / "requirements.txt").symlink_to("/etc/passwd")
    (house.repository / "module/inside").unlink()
    run_git(house.repository, "update-index", "--add", "--cacheinfo", f"160000,{'1' * 40},module")
    result = await house.index(house.commit())
    assert (result.line_count, result.file_count) == (9, 6)
    assert result.languages == (LanguageLines("Python", 2, 6),)
    assert result.warnings == ()


async def test_names_of_any_bytes_are_read_and_shown_as_text(house: IndexHouse) -> None:
    names = (b"new\nline", b"tab\t", b"\xff\xfe.py", b'"quoted"', b" ", b"\xe4/go.mod")
    commit = house.commit(dict.fromkeys(names, b"x\n"))
    result = await house.index(commit)
    assert result.line_count == len(names)
    assert result.graph is not None
    assert unpack_graph(result.graph).files == ("\\xff\\xfe.py",)
    assert all(path == "\\xe4/go.mod" for path in warned(result))


async def test_attributes_of_the_repository_change_nothing(house: IndexHouse) -> None:
    commit = house.commit({".gitattributes": b"* export-ignore filter=lfs -diff\n", "a": b"1\n"})
    assert (await house.index(commit)).line_count == 2


async def test_a_commit_without_files_has_no_lines(house: IndexHouse) -> None:
    result = await house.index(house.commit())
    assert (result.line_count, result.file_count, result.dependencies) == (0, 0, ())


async def test_a_large_file_is_counted_in_pieces_and_only_counted(house: IndexHouse) -> None:
    large = b"import os  \n" * 500_000
    result = await house.index(house.commit({"large.py": large, "next": b"1\n"}))
    assert result.line_count == 500_001
    assert "larger than 2 MiB" in warned(result)["large.py"]


async def test_dependencies_and_imports_are_found_and_a_broken_manifest_is_a_warning(
    house: IndexHouse,
) -> None:
    commit = house.commit(
        {
            "requirements.txt": b"requests==2.30.0\n",
            "web/package-lock.json": b'{"lockfileVersion": ',
            "shop/__init__.py": b"",
            "shop/cart.py": b"import requests\nfrom shop import price\n",
            "shop/price.py": b"",
        }
    )
    result = await house.index(commit)
    assert result.dependencies is not None
    assert [(one.name, one.version) for one in result.dependencies] == [("requests", "2.30.0")]
    assert result.purls == ("pkg:pypi/requests@2.30.0",)
    assert list(warned(result)) == ["web/package-lock.json"]
    assert result.graph is not None
    graph = unpack_graph(result.graph)
    named = {(graph.files[start], graph.files[end]) for start, end in graph.edges}
    assert ("shop/cart.py", "shop/price.py") in named
    assert "requests" in graph.externals


async def test_a_binary_manifest_is_a_warning_and_one_in_utf_16_is_read(house: IndexHouse) -> None:
    commit = house.commit(
        {
            "go.mod": b"\0\1\2",
            "a/uv.lock": bytes(3 * 1024 * 1024),
            "requirements.txt": "requests==2.0.0\r\n".encode("utf-16"),
        }
    )
    result = await house.index(commit)
    assert result.line_count == 0
    assert sorted(warned(result)) == ["a/uv.lock", "go.mod"]
    assert [one.name for one in result.dependencies or ()] == ["requests"]


async def test_a_blob_that_is_missing_or_broken_is_a_warning_and_the_rest_is_counted(
    house: IndexHouse,
) -> None:
    commit = house.commit({f"f{number}": b"%d\n" % number for number in range(9)})
    house.remove_object("HEAD:f2")
    house.remove_object("HEAD:f5").write_bytes(b"no object at all")
    house.remove_object("HEAD:f8").write_bytes(b"")
    result = await house.index(commit)
    assert (result.line_count, result.file_count) == (6, 9)
    assert sorted(warned(result)) == ["f2", "f5", "f8"]
    # What was lacking is not remembered as known: it may come with the next fetch.
    again = await house.index(commit)
    assert sorted(warned(again)) == ["f2", "f5", "f8"]


async def test_more_warnings_than_anybody_reads_are_counted(house: IndexHouse) -> None:
    commit = house.commit({f"d{number}/composer.lock": b"%d" % number for number in range(210)})
    result = await house.index(commit)
    assert len(result.warnings) == 201
    assert result.warnings[-1].reason == "and 10 more"


async def test_a_commit_that_is_not_there_is_a_failure_in_words(house: IndexHouse) -> None:
    house.commit()
    with pytest.raises(IndexFailure, match="could not be read"):
        await house.index("1" * 40)


async def test_many_files_are_read_by_several_processes_and_come_to_the_same(
    house: IndexHouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = await house.index(house.commit_many(2_000))
    assert (result.line_count, result.file_count) == (8_000, 2_000)
    assert result.languages == (LanguageLines("Python", 2_000, 8_000),)
    assert result.graph is not None
    graph = unpack_graph(result.graph)
    assert len(graph.files) == 2_000
    assert len(graph.edges) == 1_999
    assert house.seen[0] == (0, 2_000)
    assert house.seen[-1] == (2_000, 2_000)
    assert house.seen == sorted(house.seen)
