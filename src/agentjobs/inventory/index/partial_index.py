"""What the files of a commit, or of a part of it, come to; parts add up to the whole.

Knows the facts of files; refuses to know where they came from.
"""

from collections.abc import Sequence

import msgspec

from agentjobs.inventory.graph_data import FlatGraph, PathColumns, from_columns
from agentjobs.inventory.graph_merge import join_graphs
from agentjobs.inventory.index.analysis import BlobFacts
from agentjobs.inventory.model import ManifestFacts

MISSING = "its content is missing from the repository: not counted"
TOO_MANY = "there are too many files of this kind: what it says about imports is not used"
TOO_MANY_IMPORTS = "there are too many imports: the graph of modules lacks some"
MAX_CONTENTS = 2_000
# The path of a warning that is about no file.
WHOLE = ""


class Portion(msgspec.Struct, array_like=True):
    """`languages` holds the number of files and of lines; `contents` what is needed as it is.

    `graph` is that of the portion's modules, of which there are `module_count`.
    """

    paths: list[str] = []
    line_count: int = 0
    languages: dict[str, tuple[int, int]] = {}
    warnings: dict[str, str] = {}
    manifests: dict[str, ManifestFacts] = {}
    contents: dict[str, bytes] = {}
    module_count: int = 0
    graph: PathColumns = PathColumns()

    def put(self, path: str, language: str | None, facts: BlobFacts | None) -> None:
        """A file; without facts, one whose blob the repository lacks. Its path is listed apart."""
        if facts is None:
            self.warnings[path] = MISSING
            return
        if facts.lines is not None:
            self._count(language, 1, facts.lines)
        if facts.manifest is not None:
            self.manifests[path] = facts.manifest
        elif facts.content is not None and len(self.contents) < MAX_CONTENTS:
            self.contents[path] = facts.content
        elif facts.content is not None:
            self.warnings[path] = TOO_MANY
        if facts.warning:
            self.warnings[path] = facts.warning

    def take(self, path: str, language: str | None, facts: BlobFacts) -> None:
        """The opposite of `put`."""
        if facts.lines is not None:
            self._count(language, -1, -facts.lines)
        for known in (self.manifests, self.contents, self.warnings):
            known.pop(path, None)

    def _count(self, language: str | None, files: int, lines: int) -> None:
        self.line_count += lines
        if language is not None:
            before = self.languages.get(language, (0, 0))
            self.languages[language] = (before[0] + files, before[1] + lines)


def merge(portions: Sequence[Portion], paths: list[str]) -> Portion:
    """The whole, whose paths are these; it has no graph."""
    whole = Portion(paths=paths)
    for portion in portions:
        whole.line_count += portion.line_count
        for language, (files, lines) in portion.languages.items():
            before = whole.languages.get(language, (0, 0))
            whole.languages[language] = (before[0] + files, before[1] + lines)
        for name in ("warnings", "manifests", "contents"):
            getattr(whole, name).update(getattr(portion, name))
    whole.module_count = sum(portion.module_count for portion in portions)
    return whole


def merged_graph(portions: Sequence[Portion], paths: Sequence[str]) -> FlatGraph:
    """Of portions whose graphs number these paths."""
    return join_graphs([from_columns(each.graph) for each in portions], paths)
