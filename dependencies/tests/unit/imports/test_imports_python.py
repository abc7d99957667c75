"""Python imports, the same as in the syntax tree."""

import ast
import sysconfig
import warnings
from pathlib import Path

import pytest

from agentjobs_dependencies.imports import find

SAMPLED_FILES = 100


def of_tree(source: bytes) -> set[str]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tree = ast.parse(source)
    imported = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            imported.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            names = ",".join(alias.name for alias in node.names)
            imported.add(f"{'.' * node.level}{node.module or ''}:{names}")
    return imported


def imports(source: str) -> tuple[str, ...]:
    return find("Python", source.encode()).imports


def test_names_keep_their_dots_and_their_order():
    source = (
        "import b, a.c as d\nfrom . import x\nfrom ..up.y import (z as w, v)\nfrom k import *\n"
    )
    assert imports(source) == ("b", "a.c", ".:x", "..up.y:z,v", "k:*")


def test_a_repeated_import_is_listed_once():
    assert imports("import a\nimport a\nif b:\n    import a\n") == ("a",)


ODD = [
    "import a;import b ; from c import d;x = 1",
    "if x: import a\nelse: from b import c\n",
    "class A: from b import c",
    "import \\\n  a, \\\n  b.c\n",
    "from a \\\n  import b\n",
    "from \\\n a.b \\\n import \\\n (c, \\\n d)\n",
    "if x: \\\n  import a\n",
    "from.import a\nfrom..b import c\nfrom ... import(d)\nfrom .e import*\n",
    "from . a . b import c\nimport d . e as f\n",
    "from a import (  # )( import no\n  b,  # 'quote\n\n  c as d,\n)\nimport e\n",
    "from a import (b,\n\n# import no\n   c)\n",
    "def f():\n\tfor i in j:\n\t\timport a; return\n",
    "try:\n  import a\nexcept ImportError: import b\nfinally:\n  from c import d\n",
    "\fimport a\n\f  # x\n\fimport b",
    "x = '''\nimport no\n'''; import a\n",
    'x = """\nimport no\n\\"""\nimport no\n""" ; import a\n',
    'x = """ \\\\"""\nimport a\n"""\nimport no\n"""\n',
    'x = """"quoted" import no"""\nimport a\n',
    "x = 'it\\'s \\\nimport no'\nimport a\n",
    'x = \'a\\\n\\\nimport no """ \'\nimport a\n',
    "x = '\"\"\"'\nimport a\ny = \"'''\"\nimport b\n",
    '# it\'s """\nimport a\n# backslash \\\nimport b\n',
    "x = ''; y = \"\"; import a\n",
    "x = '' '''\nimport no\n''' ''\nimport a\n",
    "x = r'\\'; import no'\nimport a\n",
    "x = rb'''\\''' import no'''\nimport a\n",
    "x = f'{y!r:>{z}} import no'\nimport a\n",
    "important = imports = _import = 1\nx.import_module('no')\nimport a\n",
    "def f():\n  '''Use it:\n\n  import no\n  '''\n  from a import b\n",
    "def f():\n  yield from g\n  raise A from b\nimport c\n",
    "async def f():\n  async with a: from b import c\n",
    "import a\r\nfrom b import (c,\r\n  d)\r\nimport e \\\r\n, f\r",
    "\ufeffimport a\n",
    "import na\u00efve, \ufb01le\nfrom \u00fcnit.\u00aa import \u210c\n",
    "match x:\n  case 'import no': import a\n",
    "import a" + " " * 500 + "; import b\n",
    "x = 1" + " " * 500 + "; import b # 'it\nimport c",
    "import a # x\nimport b\n'''\nimport no\n'''\n",
    "import " + ",".join(f"a{n}" for n in range(50)) + "\n",
]


@pytest.mark.parametrize("source", ODD)
def test_unusual_statements_are_read_like_the_syntax_tree(source):
    content = source.encode()
    assert set(find("Python", content).imports) == of_tree(content)


@pytest.mark.parametrize(
    ("encoding", "source"),
    [
        ("shift_jis", "x = '\u8868'\nimport a\ny = '\u8868'\nimport b\n"),
        ("utf-8", "import \u00e9t\u00e9\n"),
    ],
)
def test_a_file_in_another_encoding_is_read(encoding, source):
    content = f"# -*- coding: {encoding} -*-\n{source}".encode(encoding)
    assert set(find("Python", content).imports) == of_tree(content)


def installed_files() -> list[Path]:
    roots = [sysconfig.get_path("stdlib"), sysconfig.get_path("purelib")]
    files = sorted({path for root in roots for path in Path(root).rglob("*.py")})
    files = [path for path in files if path.stat().st_size < 60_000]
    return files[:: max(1, len(files) // SAMPLED_FILES)]


def test_installed_files_have_the_imports_of_their_syntax_trees():
    differing, compared = [], 0
    for path in installed_files():
        content = path.read_bytes()
        try:
            expected = of_tree(content)
        except (SyntaxError, ValueError):
            continue
        compared += 1
        if set(find("Python", content).imports) != expected:
            differing.append(path.name)
    assert differing == []
    assert compared > SAMPLED_FILES // 2


@pytest.mark.parametrize(
    "source",
    [
        "import",
        "from a import",
        "from import b",
        "from a import (b",
        "'''import a",
        "import a b c",
        "print 'import a'\nimport (",
        "The first step is to import: from there on, import nothing.",
        "\0import \xff",
    ],
)
def test_a_file_with_syntax_errors_is_not_a_failure(source):
    assert all(name for name in imports(source))
