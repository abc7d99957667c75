"""Which modules a source file asks for, and which files of the repository they are.

`find` knows one file's bytes, `resolve` only names and paths: neither touches git or a store.
"""

from collections.abc import Callable, Mapping

from agentjobs.repos.index.imports.golang import find_go
from agentjobs.repos.index.imports.java import find_java
from agentjobs.repos.index.imports.javascript import find_javascript
from agentjobs.repos.index.imports.module_graph import CONFIG_MARK, is_config, is_full, resolve
from agentjobs.repos.index.imports.python import find_python
from agentjobs.repos.index.imports.reach import reached
from agentjobs.repos.index.imports.rust import find_rust
from agentjobs.repos.index.model import ModuleFacts

__all__ = [
    "CONFIG_MARK",
    "LANGUAGES",
    "VERSION",
    "find",
    "is_config",
    "is_full",
    "reached",
    "resolve",
]

# A language's number goes up when its finder or resolver answers differently: what was kept is then
# stale.
VERSION: Mapping[str, int] = {
    "Go": 2,
    "Java": 1,
    "JavaScript": 1,
    "Python": 1,
    "Rust": 1,
    "TypeScript": 1,
}
LANGUAGES = frozenset(VERSION)

_FINDERS: Mapping[str, Callable[[bytes], ModuleFacts]] = {
    "Go": find_go,
    "Java": find_java,
    "JavaScript": find_javascript,
    "Python": find_python,
    "Rust": find_rust,
    "TypeScript": find_javascript,
}


def find(language: str, content: bytes) -> ModuleFacts:
    """What the file imports; nothing for a language that is not one of `LANGUAGES`."""
    finder = _FINDERS.get(language)
    return finder(content) if finder is not None else ModuleFacts()
