"""What the files of a commit say: lines, languages, manifests, imports and warnings."""

from collections.abc import Collection

import msgspec

from agentjobs_dependencies import imports
from agentjobs_dependencies.imports.model import ModuleGraph, ParsedModule
from agentjobs_dependencies.index.analysis import BlobAnalysis, FileKind
from agentjobs_dependencies.model import ParsedManifest

MISSING = "the repository lacks its content: not counted"
TOO_MANY = "too many files of this kind: its import settings are ignored"
TOO_MANY_IMPORTS = "too many imports: the module graph is incomplete"
MAX_CONTENTS = 2_000
# The path of a warning that is not about a single file.
WHOLE_REPOSITORY = ""


class CommitIndex(msgspec.Struct):
    """`languages` maps to the numbers of files and lines; `contents` has files needed verbatim."""

    file_count: int = 0
    line_count: int = 0
    languages: dict[str, tuple[int, int]] = {}
    warnings: dict[str, str] = {}
    manifests: dict[str, ParsedManifest] = {}
    contents: dict[str, bytes] = {}
    modules: dict[str, ParsedModule] = {}
    graph: ModuleGraph = ModuleGraph()

    def add_file(self, path: str, kind: FileKind, analysis: BlobAnalysis | None) -> None:
        """`analysis` is None if the repository lacks the blob."""
        if analysis is None:
            self.warnings[path] = MISSING
            return
        if analysis.lines is not None:
            self._count(kind.language, analysis.lines)
        if analysis.manifest is not None:
            self.manifests[path] = analysis.manifest
        if analysis.module is not None:
            self.modules[path] = analysis.module
        if analysis.content is not None and len(self.contents) < MAX_CONTENTS:
            self.contents[path] = analysis.content
        elif analysis.content is not None:
            self.warnings[path] = TOO_MANY
        if analysis.warning:
            self.warnings[path] = analysis.warning

    def resolve_imports(self, paths: Collection[str]) -> None:
        """`paths` are all paths of the commit."""
        configs = {path: text for path, text in self.contents.items() if imports.is_config(path)}
        self.graph = imports.resolve(self.modules, paths, self.manifests, configs)
        if imports.is_full(self.graph):
            self.warnings[WHOLE_REPOSITORY] = TOO_MANY_IMPORTS

    def _count(self, language: str | None, lines: int) -> None:
        self.line_count += lines
        if language is not None:
            files, lines_before = self.languages.get(language, (0, 0))
            self.languages[language] = (files + 1, lines_before + lines)
