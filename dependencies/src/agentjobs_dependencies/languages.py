"""Programming languages: that of a file, from its path, and lines of each."""

from functools import lru_cache

import msgspec


class LanguageLines(msgspec.Struct, frozen=True, array_like=True):
    language: str
    files: int
    lines: int


_EXTENSIONS = {
    "Ada": "adb ads",
    "Assembly": "asm s",
    "C": "c h",
    "C#": "cs",
    "C++": "cc cpp cxx hh hpp hxx",
    "CSS": "css",
    "Clojure": "clj cljc cljs",
    "Common Lisp": "lisp",
    "Crystal": "cr",
    "Cuda": "cu cuh",
    "D": "d",
    "Dart": "dart",
    "Elixir": "ex exs",
    "Elm": "elm",
    "Erlang": "erl hrl",
    "F#": "fs fsx",
    "Fortran": "f f90 f95 f03",
    "GraphQL": "graphql gql",
    "Go": "go",
    "Groovy": "groovy gradle",
    "HCL": "tf hcl",
    "HTML": "html htm",
    "Haskell": "hs",
    "Java": "java",
    "JavaScript": "js jsx mjs cjs",
    "Julia": "jl",
    "Jupyter Notebook": "ipynb",
    "Kotlin": "kt kts",
    "Less": "less",
    "Lua": "lua",
    "Nim": "nim",
    "Nix": "nix",
    "OCaml": "ml mli",
    "Objective-C": "m mm",
    "PHP": "php",
    "Pascal": "pas",
    "Perl": "pl pm",
    "PowerShell": "ps1 psm1",
    "Protocol Buffers": "proto",
    "Python": "py pyi pyx",
    "R": "r",
    "Ruby": "rb rake gemspec",
    "Rust": "rs",
    "SCSS": "scss",
    "SQL": "sql",
    "Sass": "sass",
    "Scala": "scala sbt",
    "Scheme": "scm",
    "Shell": "sh bash zsh fish",
    "Solidity": "sol",
    "Svelte": "svelte",
    "Swift": "swift",
    "Tcl": "tcl",
    "TypeScript": "ts tsx mts cts",
    "Verilog": "v sv",
    "VHDL": "vhd vhdl",
    "Vue": "vue",
    "Zig": "zig",
}
_FILE_NAMES = {
    "CMake": "cmakelists.txt",
    "Dockerfile": "dockerfile containerfile",
    "Makefile": "makefile gnumakefile",
    "Ruby": "gemfile rakefile",
    "Starlark": "build.bazel workspace.bazel",
}
# Third-party code.
_VENDORED_DIRECTORIES = frozenset({b"node_modules", b"vendor", b"third_party", b"dist", b".yarn"})


def _invert(table: dict[str, str]) -> dict[bytes, str]:
    return {word.encode(): name for name, words in table.items() for word in words.split()}


_BY_EXTENSION = _invert(_EXTENSIONS)
_BY_FILE_NAME = _invert(_FILE_NAMES)


def detect_language(path: bytes) -> str | None:
    """None for prose, data and third-party code."""
    directory, _, name = path.lower().rpartition(b"/")
    stem, _, extension = name.rpartition(b".")
    language = _BY_FILE_NAME.get(name) or (_BY_EXTENSION.get(extension) if stem else None)
    return None if language is None or _is_vendored(directory) else language


@lru_cache
def _is_vendored(directory: bytes) -> bool:
    """Cached because consecutive paths share directories."""
    return not _VENDORED_DIRECTORIES.isdisjoint(directory.split(b"/"))
