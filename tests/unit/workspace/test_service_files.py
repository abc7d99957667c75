"""Every file that the service reads as configuration is protected from agents."""

import re
from collections.abc import Iterator
from pathlib import Path

import agentjobs
from agentjobs.workspace.rules import protected_paths
from agentjobs.workspace.service_files import ServiceFile

SOURCE = Path(agentjobs.__file__).parent
# They read files of a commit by a path that they choose. A new reader of configuration uses
# `read_service_file`, which takes a declared file only; a module belongs here if what it reads
# decides neither what the service executes nor what it allows.
READERS = {
    "repos/service_file_reader.py": "the reader of declared files",
    "inventory/commit_summary.py": "declared files, and hints for the prompt",
    "inventory/index/child.py": "sources and manifests, as data",
    "local_git/rebase.py": "whole commits",
    "inventory/index/install_files.py": "manifests, as data",
    "inventory/index/scan.py": "sources and manifests, as data",
    "jobs/environments/request.py": "object IDs of the files in `cache`, as a key",
    "jobs/open_pulls.py": "object IDs of manifests, as a key",
    "workspace/change_checks.py": "what the agent changed",
}
READING = re.compile(r'\b(blob_pieces|read_blobs|list_tree|list_files)\(|"(ls-tree|cat-file)"')


def test_a_declared_file_and_what_replaces_its_directory_are_protected() -> None:
    paths = [path.encode() for file in ServiceFile for path in file.value]
    paths += [b".devcontainer", b".devcontainer/setup.sh", b".DevContainer/Dockerfile"]
    assert protected_paths(paths) == paths


def test_only_known_modules_read_files_of_a_commit() -> None:
    reading = {name for name, text in _modules() if READING.search(text) and "git/" not in name[:4]}
    assert reading == set(READERS), "use read_service_file, or give the reason in READERS"


def test_no_other_module_spells_the_path_of_a_declared_file() -> None:
    declared = {f'"{path}"' for file in ServiceFile for path in file.value}
    spelled = {name for name, text in _modules() if any(path in text for path in declared)}
    # The command line only shows it.
    assert spelled == {"workspace/service_files.py", "cli/repos/environment_text.py"}


def _modules() -> Iterator[tuple[str, str]]:
    for path in SOURCE.rglob("*.py"):
        yield str(path.relative_to(SOURCE)), path.read_text()
