"""Which modules a source file asks for, and which files of the repository they are.

`find` knows one file's bytes, `resolve` only names and paths: neither touches git or a store.
"""

from collections.abc import Callable, Mapping

from agentjobs.inventory.imports.affected import reached
from agentjobs.inventory.imports.golang.imports import find_go
from agentjobs.inventory.imports.java.imports import find_java
from agentjobs.inventory.imports.javascript.imports import find_javascript
from agentjobs.inventory.imports.module_graph import CONFIG_MARK, is_config, is_full, resolve
from agentjobs.inventory.imports.python.imports import find_python
from agentjobs.inventory.imports.rust.imports import find_rust
from agentjobs.inventory.model import ModuleFacts

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
