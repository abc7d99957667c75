"""What a commit says of its repository: languages, guidance, tests, configuration.

Read from the mirror with two git processes. Whatever is told here was written by strangers.
"""

import asyncio
import re
from collections import Counter, OrderedDict
from contextlib import aclosing
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from agentjobs.git.blobs import blob_pieces
from agentjobs.git.trees import REGULAR, TreeEntry, list_tree
from agentjobs.inventory.languages import language_of
from agentjobs.inventory.test_command import READ_FILES, RootFiles, guess_test_command
from agentjobs.repos.configuration import (
    FILE_NAME,
    Configuration,
    ConfigurationError,
    parse_configuration,
)

MAX_FILE_BYTES = 256 * 1024
MAX_LANGUAGES = 10
MAX_GUIDANCE = 20
MAX_ROOT_NAMES = 2_000

# An agent reads them itself; the prompt only says that they are there.
_GUIDANCE = re.compile(
    rb"(?:.*/)?(?:AGENTS|CLAUDE|GEMINI)\.md|\.cursorrules|\.cursor/rules/[^/]+|\.windsurfrules"
    rb"|\.github/copilot-instructions\.md"
    rb"|(?i:(?:docs/|\.github/)?contributing(?:\.\w+)?|(?:development|hacking|readme)(?:\.\w+)?)"
)
# A path goes into the prompt: nothing that reads as more than a path.
_PLAIN_PATH = re.compile(r"[\w.@+-]+(?:/[\w.@+-]+)*")
_MAX_PATH_CHARACTERS = 200


class RepoFacts(msgspec.Struct, frozen=True, kw_only=True):
    """`languages` with their numbers of files, most first. `configuration` is the file's bytes."""

    languages: tuple[tuple[str, int], ...] = ()
    guidance: tuple[str, ...] = ()
    test_command: str | None = None
    configuration: bytes | None = None
    configuration_fault: str | None = None

    def parsed_configuration(self) -> Configuration:
        """All defaults when there is no file; raises ConfigurationError."""
        if self.configuration_fault is not None:
            raise ConfigurationError(self.configuration_fault)
        return parse_configuration(self.configuration or b"")


async def read_facts(git_dir: Path, commit: str) -> RepoFacts:
    """Raises GitError when the git directory cannot give the commit."""
    listing = _Listing()
    async with aclosing(list_tree(git_dir, commit)) as entries:
        async for entry in entries:
            listing.note(entry)
    contents = await _read(git_dir, listing.to_read)
    fault = listing.configuration_fault
    if FILE_NAME in contents and contents[FILE_NAME] is None:
        fault = f"is larger than {MAX_FILE_BYTES // 1024} KiB"
    texts = {name: content for name, content in contents.items() if content is not None}
    configuration = texts.pop(FILE_NAME, None)
    return RepoFacts(
        languages=listing.by_number_of_files(),
        guidance=listing.guidance_files(),
        test_command=guess_test_command(RootFiles(listing.root_names, texts)),
        configuration=configuration,
        configuration_fault=fault,
    )


class FactsCache:
    """Facts of the commits asked for lately; those who ask together wait for one reading."""

    def __init__(self, size: int = 256) -> None:
        self._size = size
        self._known: OrderedDict[tuple[str, str], RepoFacts] = OrderedDict()
        self._reading: dict[tuple[str, str], asyncio.Task[RepoFacts]] = {}

    async def of(self, git_dir: Path, repo_id: str, commit: str) -> RepoFacts:
        key = (repo_id, commit)
        if key in self._known:
            self._known.move_to_end(key)
            return self._known[key]
        if key not in self._reading:
            reading = asyncio.create_task(self._read(key, git_dir))
            # Looked at here too: all who waited for it may have gone.
            reading.add_done_callback(lambda task: task.cancelled() or task.exception())
            self._reading[key] = reading
        # One who gives up waiting must not take the facts from the others.
        return await asyncio.shield(self._reading[key])

    async def _read(self, key: tuple[str, str], git_dir: Path) -> RepoFacts:
        try:
            facts = await read_facts(git_dir, key[1])
        finally:
            del self._reading[key]
        self._known[key] = facts
        while len(self._known) > self._size:
            self._known.popitem(last=False)
        return facts


@dataclass(slots=True)
class _Listing:
    """What the names alone tell, gathered entry by entry."""

    languages: Counter[str] = field(default_factory=Counter)
    root_names: set[str] = field(default_factory=set)
    to_read: dict[str, str] = field(default_factory=dict)
    configuration_fault: str | None = None
    _guidance: list[str] = field(default_factory=list)

    def note(self, entry: TreeEntry) -> None:
        root, _, rest = entry.path.partition(b"/")
        if len(self.root_names) < MAX_ROOT_NAMES:
            self.root_names.add(root.decode("utf-8", "replace"))
        if entry.mode in REGULAR:
            if language := language_of(entry.path):
                self.languages[language] += 1
            if not rest:
                self._note_root_file(entry)
            if _GUIDANCE.fullmatch(entry.path):
                self._note_guidance(entry.path)
        elif entry.path == FILE_NAME.encode():
            self.configuration_fault = "must be a file, neither a link nor a submodule"

    def by_number_of_files(self) -> tuple[tuple[str, int], ...]:
        most_first = sorted(self.languages.items(), key=lambda one: (-one[1], one[0]))
        return tuple(most_first[:MAX_LANGUAGES])

    def guidance_files(self) -> tuple[str, ...]:
        """Those nearest to the root first."""
        found = sorted(self._guidance, key=lambda path: (path.count("/"), path))
        return tuple(found[:MAX_GUIDANCE])

    def _note_root_file(self, entry: TreeEntry) -> None:
        name = entry.path.decode("utf-8", "replace")
        if name == FILE_NAME or name in READ_FILES:
            self.to_read[name] = entry.object_id

    def _note_guidance(self, path: bytes) -> None:
        text = path.decode("utf-8", "replace")
        if len(text) <= _MAX_PATH_CHARACTERS and _PLAIN_PATH.fullmatch(text):
            self._guidance.append(text)


async def _read(git_dir: Path, object_ids: dict[str, str]) -> dict[str, bytes | None]:
    """The content of each by its name; None for one that is too large."""
    if not object_ids:
        return {}
    contents: list[bytes | None] = []
    gathered: bytes | None = b""
    async with aclosing(blob_pieces(git_dir, list(object_ids.values()))) as pieces:
        async for piece, is_last in pieces:
            if gathered is not None:
                gathered = gathered + piece
                gathered = gathered if len(gathered) <= MAX_FILE_BYTES else None
            if is_last:
                contents.append(gathered)
                gathered = b""
    return dict(zip(object_ids, contents, strict=True))
