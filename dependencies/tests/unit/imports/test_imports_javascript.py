"""JavaScript and TypeScript imports: quoted names in code."""

import pytest

from agentjobs_dependencies.imports import find


def imports(source: str, language: str = "JavaScript") -> tuple[str, ...]:
    return find(language, source.encode()).imports


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ("import 'a'", ["a"]),
        ("import a from 'b'; import * as c from \"d\"", ["b", "d"]),
        ("import a, {\n  b as c, // it's from 'no'\n  d, /* from 'no' */\n} from './e'\n", ["./e"]),
        ("import{a}from'b';export{c}from'd'", ["b", "d"]),
        ("export * from 'a'\nexport * as b from 'c'\nexport { d } from './e'", ["a", "c", "./e"]),
        ("export { a }\nexport const b = 'no'\nexport default 'no'", []),
        ("export { a }\nimport b from 'c'\nexport { d }\nimport 'e'", ["c", "e"]),
        ("const a = require('b'), c = require( \"d\" )", ["b", "d"]),
        ("x.require('no'); required('no'); require(no); require('no' + a)", []),
        ("[...require('a')]", ["a"]),
        ("lazy(() => import('./a'))\nawait import(`b`)", ["./a", "b"]),
        ("import(/* webpackChunkName: \"no\" */ './a')", ["./a"]),
        ("import(`./${no}`); import(a); import.meta.url", []),
        ("import a from './b.json' with { type: 'json' }", ["./b.json"]),
        ("import a from 'a'\nimport a from 'a'", ["a"]),
        ("const o = { import: 'no', require: 'no' }; o.import('no')", []),
    ],
)
def test_every_form_of_import_is_found(source, names):
    assert list(imports(source)) == names


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ("import type { A } from './a'", ["./a"]),
        ("import a = require('b')", ["b"]),
        ("export type { A } from './a'", ["./a"]),
        ("let a: typeof import('./b')", ["./b"]),
        ("import { type A, type B } from 'c'", ["c"]),
    ],
)
def test_typescript_forms_are_found(source, names):
    assert list(imports(source, "TypeScript")) == names


@pytest.mark.parametrize(
    "source",
    [
        "// import a from 'no'\n",
        "/* import a from 'no'\n * require('no')\n */",
        "x = \"require('no')\"; y = 'import \"no\"'",
        "x = `\nimport a from 'no'\n${ f(`require('no')`) } } require('no') `",
        "x = `\\`require('no')`",
        "x = `${ { a: '}' } } import 'no'`",
        "x = 'it\\'s require(\"no\")'",
        "/* `",
        "x = `",
    ],
)
def test_comments_strings_and_templates_are_not_code(source):
    assert imports(source) == ()


@pytest.mark.parametrize(
    "before",
    [
        "x = /[`'\"]/",
        "x = /`/.test(y)",
        "x = a / b; y = '`'",
        "x = y.replace(/\\/\\*/g, '')",
        "// it's a `tick\n",
        "/* ` */",
        "x = `a${b}c`",
        "x = `a${`b${`c`}`}`",
        "<p>Don't</p>\n",
        "x = '/*'",
        'x = "a\\\\"',
        "url = 'http://x'",
    ],
)
def test_code_continues_after_comments_strings_and_templates(before):
    assert imports(f"{before}\nimport 'yes'\n{before};require('too')") == ("yes", "too")
