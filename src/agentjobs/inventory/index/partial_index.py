"""The index of some files of a commit; partial indexes merge into the index of the commit."""

from collections.abc import Sequence

import msgspec

from agentjobs.inventory.graph.encoding import FlatGraph, PathColumns, from_columns
from agentjobs.inventory.graph.merge import join_graphs
from agentjobs.inventory.index.analysis import BlobAnalysis
from agentjobs.inventory.model import ParsedManifest

MISSING = "the repository lacks its content: not counted"
TOO_MANY = "too many files of this kind: its import settings are ignored"
TOO_MANY_IMPORTS = "too many imports: the module graph is incomplete"
MAX_CONTENTS = 2_000
# The path of a warning that is not about a single file.
WHOLE_REPOSITORY = ""


class PartialIndex(msgspec.Struct, array_like=True):
    """`languages` maps to the numbers of files and lines; `contents` has files needed verbatim.

    `graph` has the imports of the `module_count` modules.
    """

    paths: list[str] = []
    line_count: int = 0
    languages: dict[str, tuple[int, int]] = {}
    warnings: dict[str, str] = {}
    manifests: dict[str, ParsedManifest] = {}
    contents: dict[str, bytes] = {}
    module_count: int = 0
    graph: PathColumns = PathColumns()

    def add_file(self, path: str, language: str | None, analysis: BlobAnalysis | None) -> None:
        """`analysis` is None if the repository lacks the blob. Does not change `paths`."""
        if analysis is None:
            self.warnings[path] = MISSING
            return
        if analysis.lines is not None:
            self._count(language, 1, analysis.lines)
        if analysis.manifest is not None:
            self.manifests[path] = analysis.manifest
        elif analysis.content is not None and len(self.contents) < MAX_CONTENTS:
            self.contents[path] = analysis.content
        elif analysis.content is not None:
            self.warnings[path] = TOO_MANY
        if analysis.warning:
            self.warnings[path] = analysis.warning

    def remove_file(self, path: str, language: str | None, analysis: BlobAnalysis) -> None:
        """Reverses `add_file`."""
        if analysis.lines is not None:
            self._count(language, -1, -analysis.lines)
        for by_path in (self.manifests, self.contents, self.warnings):
            by_path.pop(path, None)

    def _count(self, language: str | None, files: int, lines: int) -> None:
        self.line_count += lines
        if language is not None:
            before = self.languages.get(language, (0, 0))
            self.languages[language] = (before[0] + files, before[1] + lines)


def merge(partials: Sequence[PartialIndex], paths: list[str]) -> PartialIndex:
    """Everything but the graph; `paths` are the paths of the merged index."""
    index = PartialIndex(paths=paths)
    for partial in partials:
        index.line_count += partial.line_count
        for language, (files, lines) in partial.languages.items():
            before = index.languages.get(language, (0, 0))
            index.languages[language] = (before[0] + files, before[1] + lines)
        for name in ("warnings", "manifests", "contents"):
            getattr(index, name).update(getattr(partial, name))
    index.module_count = sum(partial.module_count for partial in partials)
    return index


def merge_graphs(partials: Sequence[PartialIndex], paths: Sequence[str]) -> FlatGraph:
    """The graph of partial indexes that number files by their position in `paths`."""
    return join_graphs([from_columns(partial.graph) for partial in partials], paths)
