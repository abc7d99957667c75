"""Files made to be slow or large: read in time that grows as they do, kept in less room.

A quadratic reader would take minutes for these and run into the suite's time limit.
"""

import pytest

from agentjobs.repos.index.imports import LANGUAGES, VERSION, find
from agentjobs.repos.index.imports.limits import MAX_IMPORTS

SIZE = 1 << 19
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
    ],
    "JavaScript": ["`${", "export {", "import a ", "import(/*", "require(`", "=/["],
    "Go": ['package a;import "b";', "package a\nimport (", "package a;"],
    "Java": ["import a.", "@A(", "import a . ", "package a;"],
    "Rust": ["use a::{b,", "mod a {", "  mod a {\n", "use ", '#[path="', "r#", "/*use"],
}
CASES = [(language, text) for language, texts in FOR_ONE.items() for text in [*FOR_ALL, *texts]]


@pytest.mark.parametrize(("language", "text"), CASES)
def test_a_hostile_file_is_read_in_time_and_says_less_than_it_holds(language, text):
    content = (text * (SIZE // len(text)))[:SIZE].encode()
    facts = find(language, content)
    assert len(facts.imports) <= MAX_IMPORTS
    assert sum(map(len, facts.imports)) <= len(content)


def test_a_group_in_a_group_does_not_multiply_what_is_before_it():
    content = b"use " + b"abcdefgh::{x," * 50_000 + b"}" * 50_000 + b";"
    assert sum(map(len, find("Rust", content).imports)) < len(content) * 2


def test_imports_beyond_measure_are_left_out():
    content = "\n".join(f"import a{number}" for number in range(MAX_IMPORTS + 10)).encode()
    assert len(find("Python", content).imports) == MAX_IMPORTS


@pytest.mark.parametrize("language", sorted(LANGUAGES))
def test_bytes_of_no_text_say_nothing(language):
    assert find(language, bytes(range(256)) * 10).imports == ()
    assert find(language, b"").imports == ()


def test_every_language_has_its_version_and_no_other_is_read():
    assert set(VERSION) == LANGUAGES
    assert find("COBOL", b"import a").imports == ()
