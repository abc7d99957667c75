"""Updated indexes equal new ones and read only new blobs."""

import os
import random
from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec
import pytest

from agentjobs.inventory.graph.encoding import unpack_graph
from agentjobs.inventory.index.wire import Result
from agentjobs.inventory.model import ModuleGraph
from tests.support.indexing import IndexSetup, index_setup
from tests.support.workspace import run_git

FILES: dict[str | bytes, bytes] = {
    "requirements.txt": b"requests==2.30.0\n",
    "package.json": b'{"name": "shop", "dependencies": {"left": "^1"}}',
    "tsconfig.json": b'{"compilerOptions": {"baseUrl": "."}}',
    ".agentjobs.toml": b"draft = true\n",
    "shop/__init__.py": b"",
    "shop/cart.py": b"import requests\nfrom shop import price\n",
    "shop/price.py": b"import decimal\n",
    "web/app.ts": b"import { b } from './b'\nimport left from 'left'\n",
    "web/b.ts": b"export const b = 1\n",
    "shop/plain/tool.py": b"import helper, shop.plain.more\nfrom . import other, thing\n",
    "web/c.js": b"import x from './data'\nimport y from '../shop/plain'\n",
    "go.mod": b"module example.com/m\n",
    "main.go": b'package main\nimport "example.com/m/store"\nimport "example.com/m/new"\n',
    "store/b.go": b"package store\n",
    "Cargo.toml": b'[package]\nname = "crab"\nversion = "1.0.0"\n',
    "src/lib.rs": b"mod inner;\nuse crate::later::Thing;\n",
    "src/inner.rs": b"use super::later;\n",
    "a/A.java": b"package a;\nimport b.B;\nclass A {}\n",
    "b/B.java": b"package b;\nclass B {}\n",
    "image.png": b"\x89PNG\0\n",
}


@pytest.fixture
def setup(tmp_path: Path) -> IndexSetup:
    return index_setup(tmp_path)


def edit(**files: bytes) -> Callable[[IndexSetup], None]:
    return lambda setup: setup.write(
        {name.replace("__", "/").replace("_dot_", "."): text for name, text in files.items()}
    )


def change(setup: IndexSetup, changes: Mapping[str, bytes | None]) -> None:
    """Write files, and remove those whose content is None."""
    for name, text in changes.items():
        if text is None:
            (setup.repository / name).unlink(missing_ok=True)
        else:
            setup.write({name: text})


def move(old: str, new: str) -> Callable[[IndexSetup], None]:
    return lambda setup: (setup.repository / old).rename(setup.repository / new) and None


def remove(name: str) -> Callable[[IndexSetup], None]:
    return lambda setup: (setup.repository / name).unlink()


def link(name: str) -> Callable[[IndexSetup], None]:
    def replace(setup: IndexSetup) -> None:
        (setup.repository / name).unlink()
        (setup.repository / name).symlink_to("cart.py")

    return replace


PUSHES: dict[str, Callable[[IndexSetup], None]] = {
    "nothing": edit(),
    "lines": edit(shop__cart_dot_py=b"import requests\nfrom shop import price\n\nx = 1\n"),
    "imports": edit(shop__cart_dot_py=b"import os, flask\nfrom shop.price import x\n"),
    "an import less": edit(shop__cart_dot_py=b"", web__app_dot_ts=b""),
    "a package declared": edit(b__B_dot_java=b"package c;\nclass B {}\n"),
    "a manifest": edit(requirements_dot_txt=b"requests==2.31.0\nflask==3.0\n"),
    "a project's name": edit(package_dot_json=b'{"name": "other"}'),
    "a broken manifest": edit(package_dot_json=b'{"name": '),
    "a configuration of paths": edit(tsconfig_dot_json=b'{"compilerOptions": {}}'),
    "the repository's own settings": lambda setup: setup.write({".agentjobs.toml": b"draft = no"}),
    "which files are fixtures": lambda setup: setup.write(
        {".agentjobs.toml": b"[inventory]\nfixtures = ['requirements.txt']\n"}
    ),
    "binary now": edit(shop__price_dot_py=b"\0"),
    "text now": lambda setup: setup.write({"image.png": b"text\n"}),
    "a new file": edit(shop__new_dot_py=b"from shop import cart\n"),
    "a file less": remove("shop/price.py"),
    "a rename": move("shop/price.py", "shop/cost.py"),
    "a link now": link("shop/price.py"),
    "a directory of modules": edit(helper__x_dot_py=b"import shop\n", other_dot_py=b""),
    "what a package was asked for": edit(
        shop__plain__other_dot_py=b"", shop__plain__more_dot_py=b"from shop import cart\n"
    ),
    "a module in place of one outside": edit(requests__api_dot_py=b"", shop__decimal_dot_py=b""),
    "a package": lambda setup: setup.write(
        {"requests/__init__.py": b"", "shop/plain/__init__.py": b""}
    ),
    "a package less": remove("shop/__init__.py"),
    "data": edit(web__data_dot_json=b"{}\n", docs__note_dot_md=b"1\n"),
    "an index": edit(web__data__index_dot_js=b"", shop__plain__index_dot_ts=b""),
    "a directory of Go": edit(new__a_dot_go=b"package new\n", store__a_dot_go=b"package store\n"),
    "the first of a Go package less": remove("store/b.go"),
    "a module of Rust": edit(src__later_dot_rs=b"pub struct Thing;\n"),
    "a module of Rust less": remove("src/inner.rs"),
    "a class": edit(c__b__B_dot_java=b"package c.b;\n", c__D_dot_java=b"import c.b.*;\n"),
    "a class less": remove("b/B.java"),
    "a manifest more": edit(web__package_dot_json=b'{"name": "left"}'),
    "a manifest less": remove("go.mod"),
    "a configuration more": edit(web__tsconfig_dot_json=b"{}"),
    "a configuration less": remove("tsconfig.json"),
    "a directory in place of a file": lambda setup: change(
        setup, {"shop/price.py": None, "shop/price.py/__init__.py": b"", "shop/price/x.py": b""}
    ),
    "executable now": lambda setup: (setup.repository / "shop/cart.py").chmod(0o755),
    "too large now": edit(web__b_dot_ts=b"import x from 'x'\n" * 120_000),
}


def comparable(result: Result, graph_before: ModuleGraph) -> tuple[Result, ModuleGraph]:
    graph = graph_before if result.graph is None else unpack_graph(result.graph)
    return msgspec.structs.replace(result, graph=None), graph


def test_an_updated_index_equals_a_new_one(setup: IndexSetup, tmp_path: Path) -> None:
    """Every push starts from the same files and is reverted by another update."""
    before = setup.commit(FILES)
    first = comparable(setup.index_in_process(before), ModuleGraph())
    graph = first[1]
    for name, push in PUSHES.items():
        push(setup)
        pushed = setup.commit()
        updated = comparable(setup.index_in_process(pushed, after=before), graph)
        new = IndexSetup(setup.repository, tmp_path / "new" / "facts.db")
        assert updated == comparable(new.index_in_process(pushed), ModuleGraph()), name
        new.cache_path.unlink()
        run_git(setup.repository, "rm", "-q", "-r", "--cached", ".")
        run_git(setup.repository, "checkout", "-q", "-f", before, "--", ".")
        run_git(setup.repository, "clean", "-q", "-f", "-d")
        before = setup.commit()
        # The state that the update saved is valid, too.
        reverted = comparable(setup.index_in_process(before, after=pushed), updated[1])
        assert reverted == first, f"{name}, reverted"
        graph = reverted[1]


def test_a_change_of_the_fixtures_is_sent_although_no_manifest_changed(setup: IndexSetup) -> None:
    before = setup.commit({"requirements.txt": b"a==1\n", "examples/requirements.txt": b"b==1\n"})
    first = setup.index_in_process(before)
    assert [(d.name, d.fixture) for d in first.dependencies or ()] == [("b", True), ("a", False)]
    digest = first.dependencies_digest
    same = setup.commit({".agentjobs.toml": b"draft = true\n"})
    result = setup.index_in_process(same, after=before, stored_digest=digest)
    assert (result.dependencies, result.dependencies_digest) == (None, digest)
    changed = setup.commit({".agentjobs.toml": b"inventory.fixtures = ['/requirements.txt']\n"})
    result = setup.index_in_process(changed, after=same, stored_digest=digest)
    assert [(d.name, d.fixture) for d in result.dependencies or ()] == [("b", False), ("a", True)]


def test_a_change_of_imports_is_sent_although_no_manifest_changed(setup: IndexSetup) -> None:
    lock = b'[[package]]\nname = "pyyaml"\nversion = "6.0"\nsource = { registry = "x" }\n'
    before = setup.commit({"uv.lock": lock, "a.py": b"import os\n"})
    first = setup.index_in_process(before)
    assert [each.imported for each in first.dependencies or ()] == ["no"]
    digest = first.dependencies_digest
    same = setup.commit({"b.py": b"import os, a\n"})
    result = setup.index_in_process(same, after=before, stored_digest=digest)
    assert (result.dependencies, result.dependencies_digest) == (None, digest)
    changed = setup.commit({"a.py": b"import yaml\n"})
    result = setup.index_in_process(changed, after=same, stored_digest=digest)
    assert [each.imported for each in result.dependencies or ()] == ["yes"]
    notebook = setup.commit({"a.py": b"import os\n", "b.ipynb": b"{}\n"})
    result = setup.index_in_process(notebook, after=changed, stored_digest=digest)
    assert [each.imported for each in result.dependencies or ()] == ["unknown"]


_DIRECTORIES = ("", "shop/", "shop/plain/", "lib/", "web/", "store/", "src/inner/", "b/")
_SOURCES = {
    "cart.py": (b"import tool, requests\n", b"from . import plain, new\nfrom shop import price\n"),
    "new.py": (b"from ..shop.plain import tool\n", b"import shop.plain.new, lib.new\n"),
    "__init__.py": (b"from .new import x\n", b""),
    "index.ts": (b"import a from './new'\nimport b from 'shop/new'\n", b"import './data.json'\n"),
    "new.js": (b"import a from '../web'\nimport left from 'left'\n", b"require('shop')\n"),
    "data.json": (b"{}\n",),
    "a.go": (b'package a\nimport "example.com/m/store"\n', b'package a\nimport "./b"\n'),
    "later.rs": (b"use crate::inner::later;\n", b"mod new;\nuse super::inner;\n"),
    "B.java": (b"import b.B;\nimport store.B;\n", b"import b.*;\n"),
    "notes.md": (b"1\n", b"1\n2\n"),
}


@pytest.mark.parametrize("seed", range(4))
def test_updates_after_random_pushes_equal_a_new_index(
    setup: IndexSetup, seed: int, tmp_path: Path
) -> None:
    chance = random.Random(seed)
    before = setup.commit(FILES)
    _, graph = comparable(setup.index_in_process(before), ModuleGraph())
    for _ in range(8):
        for _ in range(chance.randint(1, 4)):
            name = chance.choice(sorted(_SOURCES))
            text = chance.choice((None, *_SOURCES[name]))
            change(setup, {chance.choice(_DIRECTORIES) + name: text})
        commit = setup.commit()
        updated, graph = comparable(setup.index_in_process(commit, after=before), graph)
        fresh = IndexSetup(setup.repository, tmp_path / f"{commit}.db")
        assert (updated, graph) == comparable(fresh.index_in_process(commit), ModuleGraph())
        before = commit


@pytest.mark.parametrize(
    "push",
    [
        edit(shop__new_dot_py=b"from shop import cart\n", docs__note_dot_md=b"1\n"),
        remove("shop/price.py"),
        move("store/b.go", "store/c.go"),
    ],
    ids=["files more", "a file less", "a rename"],
)
async def test_added_and_removed_files_need_no_full_scan(
    setup: IndexSetup, push: Callable[[IndexSetup], None]
) -> None:
    before = setup.commit(FILES)
    await setup.index(before)
    assert setup.progress
    push(setup)
    result = await setup.index(setup.commit(), after=before)
    assert (setup.progress, result.graph is None) == ([], False)


@pytest.fixture
def count_read_blobs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], int]:
    """Returns the number of blobs read since the last call, counted by a wrapper of git."""
    log = tmp_path / "blobs"
    (tmp_path / "bin").mkdir()
    script = tmp_path / "bin" / "git"
    script.write_text(
        f"#!/bin/sh\nPATH={os.environ['PATH']}\n"
        f'if [ "$1" = cat-file ]; then tee -a {log} | git "$@"; else exec git "$@"; fi\n'
    )
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{script.parent}:{os.environ['PATH']}")

    def count() -> int:
        lines = log.read_text().splitlines() if log.exists() else []
        log.unlink(missing_ok=True)
        return len(lines)

    return count


async def test_only_new_blobs_are_read(
    setup: IndexSetup, count_read_blobs: Callable[[], int]
) -> None:
    first = setup.commit({**FILES, "copy.py": FILES["shop/price.py"]})
    await setup.index(first)
    assert count_read_blobs() == len(FILES)
    setup.write({"shop/cart.py": b"import new\n", "shop/price.py": b"import newer\n"})
    second = setup.commit()
    await setup.index(second, after=first)
    assert count_read_blobs() == 2
    # A force-push back and a rename: all blobs are cached.
    await setup.index(first, after=second)
    move("shop/price.py", "shop/cost.py")(setup)
    await setup.index(setup.commit(), after=second)
    assert count_read_blobs() == 0


async def test_the_old_commit_may_be_gone_after_a_force_push(setup: IndexSetup) -> None:
    old = setup.commit(FILES)
    await setup.index(old)
    run_git(setup.repository, "checkout", "-q", "--orphan", "other")
    remove("web/b.ts")(setup)
    new = setup.commit()
    run_git(setup.repository, "branch", "-D", "main")
    run_git(setup.repository, "reflog", "expire", "--expire=now", "--all")
    run_git(setup.repository, "gc", "-q", "--prune=now")
    result = await setup.index(new, after=old)
    assert (result.file_count, result.graph is not None) == (len(FILES) - 1, True)


async def test_a_shallow_repository_is_indexed_before_and_after_a_push(
    setup: IndexSetup, tmp_path: Path
) -> None:
    setup.commit(FILES)
    setup.commit({"notes": b"1\n"})
    shallow = tmp_path / "shallow"
    run_git(tmp_path, "clone", "-q", "--depth=1", f"file://{setup.repository}", str(shallow))
    copy = IndexSetup(shallow, setup.cache_path)
    head = run_git(shallow, "rev-parse", "HEAD")
    assert (await copy.index(head)).file_count == len(FILES) + 1
    assert (await copy.index(copy.commit({"notes": b"2\n"}), after=head)).graph is None


@pytest.mark.parametrize(
    "damage",
    [
        lambda path: path.write_bytes(b"not a database"),
        lambda path: path.write_bytes(path.read_bytes()[:5_000]),
        lambda path: path.write_bytes(path.read_bytes()[:4_096] + os.urandom(100_000)),
        lambda path: (path.unlink(), path.mkdir()),
    ],
    ids=["other bytes", "cut off", "other pages", "a directory"],
)
async def test_a_damaged_cache_is_recreated(
    setup: IndexSetup, damage: Callable[[Path], object]
) -> None:
    commit = setup.commit(FILES)
    first = await setup.index(commit)
    damage(setup.cache_path)
    assert comparable(await setup.index(commit, after=commit), ModuleGraph()) == comparable(
        first, ModuleGraph()
    )
    assert comparable(await setup.index(commit), ModuleGraph()) == comparable(first, ModuleGraph())
