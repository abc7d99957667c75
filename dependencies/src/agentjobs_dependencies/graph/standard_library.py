"""Which external names belong to the standard library of a language, by family of languages."""

import sys

# The modules that can be imported without `node:`.
_NODE = frozenset(
    """
    assert async_hooks buffer child_process cluster console constants crypto dgram
    diagnostics_channel dns domain events fs http http2 https inspector module net os path
    perf_hooks process punycode querystring readline repl stream string_decoder sys timers tls
    trace_events tty url util v8 vm wasi worker_threads zlib
    """.split()  # noqa: SIM905 - a list would take fifty lines
)
_RUST = frozenset(("alloc", "core", "proc_macro", "std", "test"))
_JAVA = frozenset(("java", "javax", "jdk", "sun"))


def is_standard(family: str, name: str) -> bool:
    """`family` as in `imports.module_graph.find_family`."""
    match family:
        case "python":
            return name in sys.stdlib_module_names
        case "javascript":
            return name.startswith("node:") or name in _NODE
        case "go":
            # Other paths start with a host name.
            return "." not in name.partition("/")[0]
        case "java":
            return name.partition(".")[0] in _JAVA
        case "rust":
            return name in _RUST
    return False
