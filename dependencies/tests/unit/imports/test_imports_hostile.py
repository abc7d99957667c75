"""Files designed to be slow or large take linear time and are stored in less space.

A quadratic reader would take minutes for these and run into the suite's time limit.
"""

import pytest

from agentjobs_dependencies.imports import LANGUAGES, find
from agentjobs_dependencies.imports.model import MAX_IMPORTS

SIZE = 1 << 18
FOR_ALL = ['"', "\\", "/*", "import a,"]
FOR_ONE = {
    "Python": [
        "'''",
        "import (",
        "from a import (",
        "import \\\n",
        '\\"""',
        "'import a' ",
        "from a import b\\\n",
        "; ",
        # Unterminated strings: each quote and each line end is escaped.
        '\\"import\\\n',
        "\\'import \\",
        # To the list in parentheses the rest was a comment, to the code a string.
        "from a import ('#';",
        # Continuation lines that look like separate statements.
        "\\\nimport a#",
    ],
    "JavaScript": [
        *("`${", "export {", "import a ", "import(/*", "require(`", "=/["),
        "import }\\'",
        '\\"require(',
        "import`${'\\",
        # Unterminated regular expressions.
        "import/[=",
        "(/require(/[",
    ],
    "Go": ['package a;import "b";', "package a\nimport (", "package a;"],
    "Java": ["import a.", "@A(", "import a . ", "package a;"],
    "Rust": ["use a::{b,", "mod a {", "  mod a {\n", "use ", '#[path="', "r#", "/*use"],
}
CASES = [(language, text) for language, texts in FOR_ONE.items() for text in [*FOR_ALL, *texts]]


@pytest.mark.parametrize(("language", "text"), CASES)
def test_a_hostile_file_is_read_in_bounded_time_and_memory(language, text):
    content = (text * (SIZE // len(text)))[:SIZE].encode()
    facts = find(language, content)
    assert len(facts.imports) <= MAX_IMPORTS
    assert sum(map(len, facts.imports)) <= len(content)


AROUND = [
    ("Python", "'''\n", "#''' '''\nimport a\n", ""),
    ("JavaScript", "", "\\'", '\nimport "a"'),
    ("JavaScript", "", "=/[", '\nimport "a"'),
    ("JavaScript", "", "\\'", 'import "a"'),
    ("Rust", "", "#", "use a;"),
]


@pytest.mark.parametrize(("language", "before", "text", "behind"), AROUND)
def test_text_before_an_import_is_read_in_bounded_time(language, before, text, behind):
    content = before + text * (SIZE // len(text)) + behind
    assert len(find(language, content.encode()).imports) <= 1


def test_an_unterminated_string_hides_nothing_after_it():
    lines = "x = 'it\\'s \\\n \\' \\\n\n"
    assert find("Python", f"{lines}import a\nb = 'c'; import d\n".encode()).imports == ("a", "d")
    assert find("JavaScript", f"{lines}import 'a'\nb = 'c'; require('d')".encode()).imports == (
        "a",
        "d",
    )


def test_nested_groups_do_not_multiply_their_prefix():
    content = b"use " + b"abcdefgh::{x," * 50_000 + b"}" * 50_000 + b";"
    assert sum(map(len, find("Rust", content).imports)) < len(content) * 2


def test_imports_beyond_the_limit_are_left_out():
    content = "\n".join(f"import a{number}" for number in range(MAX_IMPORTS + 10)).encode()
    assert len(find("Python", content).imports) == MAX_IMPORTS


@pytest.mark.parametrize("language", sorted(LANGUAGES))
def test_bytes_that_are_not_text_have_no_imports(language):
    assert find(language, bytes(range(256)) * 10).imports == ()
    assert find(language, b"").imports == ()


def test_only_languages_with_a_finder_are_read():
    assert find("COBOL", b"import a").imports == ()
