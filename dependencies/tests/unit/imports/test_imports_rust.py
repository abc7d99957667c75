"""Rust modules and paths, relative to their file."""

import pytest

from agentjobs_dependencies.imports import find


def imports(source: str) -> list[str]:
    return list(find("Rust", source.encode()).imports)


@pytest.mark.parametrize(
    ("source", "names"),
    [
        (
            "use a::b; pub use crate::c::*;\npub(crate) use self::d;",
            ["a::b", "crate::c::*", "self::d"],
        ),
        ("use a::{b, c::{self, d as e}, f::*};", ["a::b", "a::c", "a::c::d", "a::f::*"]),
        ("use {a::b, ::c::d};", ["a::b", "::c::d"]),
        ("use a::{\n    // b,\n    /* c, */\n    d,\n};", ["a::d"]),
        ("use r#try::a as b;", ["try::a"]),
        ("mod a;\npub mod b;\n#[cfg(x)]\npub(super) mod c;", ["mod:a", "mod:b", "mod:c"]),
        ('#[path = "x/y.rs"]\n#[cfg(z)]\npub mod a;', ["mod:a=x/y.rs"]),
        ("extern crate a;\n#[macro_use]\nextern crate b as c;", ["::a", "::b"]),
        ("fn f<'a>(x: &'a str) -> char { use a::b; '\"' }\nuse c::d;", ["a::b", "c::d"]),
        ("reuse a; user a; modest a; fn f() -> impl A + use<'a> {}", []),
    ],
)
def test_every_form_of_path_is_found(source, names):
    assert imports(source) == names


def test_paths_in_an_inline_module_are_relative_to_the_file():
    source = """
mod tests {
    use super::*;
    use super::super::up;
    pub(crate) use super::beside;
    use outside::a;
}
use super::parent;
"""
    assert imports(source) == [
        "self::*",
        "super::up",
        "self::beside",
        "outside::a",
        "super::parent",
    ]


@pytest.mark.parametrize(
    "text",
    [
        "// use no::a;\n/// use no::b;\n//! use no::c;\n",
        "/* use no::a; /* use no::b; */ use no::c; */",
        'const A: &str = "\nuse no::a;\n\\"\nuse no::b;\n";',
        'const A: &str = r"\nuse no::a;\\";',
        'const A: &str = r#"\nuse no::a; " use no::b;\n"#;',
        'const A: &[u8] = br##"\nuse no::a; "# use no::b;\n"##;',
        "const A: char = '\"'; const B: char = '\\''; const C: u8 = b'\"';",
        "const A: char = '\\u{22}'; const B: char = '\u00e9';",
        "fn f<'a>(x: &'a str) {} // it's\n",
    ],
)
def test_strings_and_comments_are_not_code_and_code_continues_after_them(text):
    assert imports(f"{text}\nuse yes::a;") == ["yes::a"]


@pytest.mark.parametrize(
    "source", ["use", "use a", "use a::{", "mod", '"', 'r#"', "/*", "use }}}{;"]
)
def test_a_broken_file_is_not_a_failure(source):
    assert imports(source) == []
