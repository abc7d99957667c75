"""Reads the files of a commit that say which requirements are installed together."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from agentjobs.inventory.index.scan import display_path
from agentjobs_dependencies.installed_together import (
    Group,
    find_installed_together,
    is_install_file,
    is_requirements_file,
)
from agentjobs_dependencies.model import ParsedManifest
from agentjobs_runtime.git.blocking import read_blobs, split_record

MAX_FILES = 1_000
MAX_FILE_BYTES = 256 * 1024


def read_installed_together(
    git_dir: Path, records: Sequence[bytes], manifests: Mapping[str, ParsedManifest]
) -> tuple[Group, ...]:
    """`records` are those of `list_files`."""
    files = {display_path(path): blob for path, blob in map(split_record, records)}
    wanted = [path for path in files if is_install_file(path) or is_requirements_file(path)]
    del wanted[MAX_FILES:]
    contents = read_blobs(git_dir, [files[path] for path in wanted], MAX_FILE_BYTES)
    texts = {
        path: content.decode("utf-8", "replace")
        for path, content in zip(wanted, contents, strict=True)
        if isinstance(content, bytes)
    }
    return find_installed_together(manifests, texts, files)
