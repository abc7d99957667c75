"""Every file that the service reads as configuration is protected from agents."""

import re
from collections.abc import Iterator

from agentjobs_runtime.repo_files.rules import protected_paths
from agentjobs_runtime.repo_files.service_files import ServiceFile
from tests.support.paths import SOURCES

# They read files of a commit by a path that they choose. A new reader of configuration uses
# `read_service_file`, which takes a declared file only; a module belongs here if what it reads
# decides neither what the service executes nor what it allows.
READERS = {
    "agentjobs/repos/service_file_reader.py": "the reader of declared files",
    "agentjobs/inventory/commit_summary.py": "declared files, and hints for the prompt",
    "agentjobs/inventory/index/child.py": "sources and manifests, as data",
    "agentjobs/local_git/rebase.py": "whole commits",
    "agentjobs/inventory/index/install_files.py": "manifests, as data",
    "agentjobs/inventory/index/scan.py": "sources and manifests, as data",
    "agentjobs/environments/request.py": "object IDs of the files in `cache`, as a key",
    "agentjobs_worker/workspace/change_checks.py": "what the agent changed",
}
READING = re.compile(r'\b(read_small_blobs|read_blobs|list_tree|list_files)\(|"(ls-tree|cat-file)"')


def test_a_declared_file_and_what_replaces_its_directory_are_protected() -> None:
    paths = [path.encode() for file in ServiceFile for path in file.value]
    paths += [b".devcontainer", b".devcontainer/setup.sh", b".DevContainer/Dockerfile"]
    assert protected_paths(paths) == paths


def test_only_known_modules_read_files_of_a_commit() -> None:
    reading = {name for name, text in _modules() if READING.search(text) and "/git/" not in name}
    assert reading == set(READERS), "use read_service_file, or give the reason in READERS"


def test_no_other_module_spells_the_path_of_a_declared_file() -> None:
    declared = {f'"{path}"' for file in ServiceFile for path in file.value}
    spelled = {name for name, text in _modules() if any(path in text for path in declared)}
    # The command line only shows it.
    assert spelled == {
        "agentjobs_runtime/repo_files/service_files.py",
        "agentjobs/cli/repos/environment_text.py",
    }


def _modules() -> Iterator[tuple[str, str]]:
    for source in SOURCES:
        for path in source.rglob("*.py"):
            yield str(path.relative_to(source)), path.read_text()
