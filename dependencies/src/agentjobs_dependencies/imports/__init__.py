"""Finds the imports of source files and resolves them to files of the repository.

`find` reads one file's bytes; `resolve` uses only names and paths. Neither touches git or a store.
"""

from collections.abc import Callable, Mapping

from agentjobs_dependencies.imports.golang.imports import find_go
from agentjobs_dependencies.imports.java.imports import find_java
from agentjobs_dependencies.imports.javascript.imports import find_javascript
from agentjobs_dependencies.imports.model import ParsedModule
from agentjobs_dependencies.imports.module_graph import CONFIG_MARK, is_config, is_full, resolve
from agentjobs_dependencies.imports.python.imports import find_python
from agentjobs_dependencies.imports.rust.imports import find_rust

__all__ = [
    "CONFIG_MARK",
    "LANGUAGES",
    "find",
    "is_config",
    "is_full",
    "resolve",
]

_FINDERS: Mapping[str, Callable[[bytes], ParsedModule]] = {
    "Go": find_go,
    "Java": find_java,
    "JavaScript": find_javascript,
    "Python": find_python,
    "Rust": find_rust,
    "TypeScript": find_javascript,
}
LANGUAGES = frozenset(_FINDERS)


def find(language: str, content: bytes) -> ParsedModule:
    """The imports of a file; empty for a language that is not in `LANGUAGES`."""
    finder = _FINDERS.get(language)
    return finder(content) if finder is not None else ParsedModule()
