"""An index after another: the same as one from nothing, and read from only what is new."""

import os
import random
from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec
import pytest

from agentjobs.inventory.graph_data import unpack_graph
from agentjobs.inventory.index.wire import Result
from agentjobs.inventory.model import ModuleGraph
from tests.support.indexing import IndexHouse, index_house
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
def house(tmp_path: Path) -> IndexHouse:
    return index_house(tmp_path)


def edit(**files: bytes) -> Callable[[IndexHouse], None]:
    return lambda house: house.write(
        {name.replace("__", "/").replace("_dot_", "."): text for name, text in files.items()}
    )


def change(house: IndexHouse, changes: Mapping[str, bytes | None]) -> None:
    """Writes files, and removes those that have no content."""
    for name, text in changes.items():
        if text is None:
            (house.repository / name).unlink(missing_ok=True)
        else:
            house.write({name: text})


def move(old: str, new: str) -> Callable[[IndexHouse], None]:
    return lambda house: (house.repository / old).rename(house.repository / new) and None


def remove(name: str) -> Callable[[IndexHouse], None]:
    return lambda house: (house.repository / name).unlink()


def link(name: str) -> Callable[[IndexHouse], None]:
    def replace(house: IndexHouse) -> None:
        (house.repository / name).unlink()
        (house.repository / name).symlink_to("cart.py")

    return replace


PUSHES: dict[str, Callable[[IndexHouse], None]] = {
    "nothing": edit(),
    "lines": edit(shop__cart_dot_py=b"import requests\nfrom shop import price\n\nx = 1\n"),
    "imports": edit(shop__cart_dot_py=b"import os, flask\nfrom shop.price import x\n"),
    "an import less": edit(shop__cart_dot_py=b"", web__app_dot_ts=b""),
    "a package declared": edit(b__B_dot_java=b"package c;\nclass B {}\n"),
    "a manifest": edit(requirements_dot_txt=b"requests==2.31.0\nflask==3.0\n"),
    "a project's name": edit(package_dot_json=b'{"name": "other"}'),
    "a broken manifest": edit(package_dot_json=b'{"name": '),
    "a configuration of paths": edit(tsconfig_dot_json=b'{"compilerOptions": {}}'),
    "the repository's own settings": lambda house: house.write({".agentjobs.toml": b"draft = no"}),
    "binary now": edit(shop__price_dot_py=b"\0"),
    "text now": lambda house: house.write({"image.png": b"text\n"}),
    "a new file": edit(shop__new_dot_py=b"from shop import cart\n"),
    "a file less": remove("shop/price.py"),
    "a rename": move("shop/price.py", "shop/cost.py"),
    "a link now": link("shop/price.py"),
    "a directory of modules": edit(helper__x_dot_py=b"import shop\n", other_dot_py=b""),
    "what a package was asked for": edit(
        shop__plain__other_dot_py=b"", shop__plain__more_dot_py=b"from shop import cart\n"
    ),
    "a module in place of one outside": edit(requests__api_dot_py=b"", shop__decimal_dot_py=b""),
    "a package": lambda house: house.write(
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
    "a directory in place of a file": lambda house: change(
        house, {"shop/price.py": None, "shop/price.py/__init__.py": b"", "shop/price/x.py": b""}
    ),
    "executable now": lambda house: (house.repository / "shop/cart.py").chmod(0o755),
    "too large now": edit(web__b_dot_ts=b"import x from 'x'\n" * 120_000),
}


def comparable(result: Result, graph_before: ModuleGraph) -> tuple[Result, ModuleGraph]:
    graph = graph_before if result.graph is None else unpack_graph(result.graph)
    return msgspec.structs.replace(result, graph=None), graph


@pytest.mark.parametrize("push", PUSHES.values(), ids=PUSHES)
async def test_an_index_after_another_is_the_same_as_one_from_nothing(
    house: IndexHouse, push: Callable[[IndexHouse], None]
) -> None:
    before = house.commit(FILES)
    first = await house.index(before)
    assert first.graph is not None
    graph = unpack_graph(first.graph)
    push(house)
    commit = house.commit()
    after = comparable(await house.index(commit, after=before), graph)
    # What the update left for the next one is as good.
    house.write({"shop/__init__.py": b"# A line.\n"})
    last = comparable(await house.index(house.commit(), after=commit), after[1])
    for found, at in ((after, commit), (last, "HEAD")):
        house.cache_path.unlink()
        fresh = await house.index(run_git(house.repository, "rev-parse", at))
        assert found == comparable(fresh, ModuleGraph())


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
async def test_any_pushes_one_after_another_leave_the_index_of_the_last(
    house: IndexHouse, seed: int, tmp_path: Path
) -> None:
    chance = random.Random(seed)
    before = house.commit(FILES)
    first = await house.index(before)
    assert first.graph is not None
    graph = unpack_graph(first.graph)
    for _ in range(8):
        for _ in range(chance.randint(1, 4)):
            name = chance.choice(sorted(_SOURCES))
            text = chance.choice((None, *_SOURCES[name]))
            change(house, {chance.choice(_DIRECTORIES) + name: text})
        commit = house.commit()
        found, graph = comparable(await house.index(commit, after=before), graph)
        fresh = IndexHouse(house.repository, tmp_path / f"{commit}.db")
        assert (found, graph) == comparable(await fresh.index(commit), ModuleGraph())
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
async def test_files_that_come_and_go_need_no_survey(
    house: IndexHouse, push: Callable[[IndexHouse], None]
) -> None:
    before = house.commit(FILES)
    await house.index(before)
    assert house.seen
    push(house)
    result = await house.index(house.commit(), after=before)
    assert (house.seen, result.graph is None) == ([], False)


@pytest.fixture
def asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], int]:
    """How many blobs were asked for since the last time: a git in front of git counts them."""
    log = tmp_path / "asked"
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


async def test_only_blobs_that_are_new_are_read(
    house: IndexHouse, asked: Callable[[], int]
) -> None:
    first = house.commit({**FILES, "copy.py": FILES["shop/price.py"]})
    await house.index(first)
    assert asked() == len(FILES)
    house.write({"shop/cart.py": b"import new\n", "shop/price.py": b"import newer\n"})
    second = house.commit()
    await house.index(second, after=first)
    assert asked() == 2
    # A force-push back, a rename, and another repository with the same files: all known.
    await house.index(first, after=second)
    move("shop/price.py", "shop/cost.py")(house)
    await house.index(house.commit(), after=second)
    assert asked() == 0


async def test_after_a_force_push_the_old_commit_may_be_gone(house: IndexHouse) -> None:
    old = house.commit(FILES)
    await house.index(old)
    run_git(house.repository, "checkout", "-q", "--orphan", "other")
    remove("web/b.ts")(house)
    new = house.commit()
    run_git(house.repository, "branch", "-D", "main")
    run_git(house.repository, "reflog", "expire", "--expire=now", "--all")
    run_git(house.repository, "gc", "-q", "--prune=now")
    result = await house.index(new, after=old)
    assert (result.file_count, result.graph is not None) == (len(FILES) - 1, True)


async def test_a_shallow_repository_is_indexed_before_and_after_a_push(
    house: IndexHouse, tmp_path: Path
) -> None:
    house.commit(FILES)
    house.commit({"notes": b"1\n"})
    shallow = tmp_path / "shallow"
    run_git(tmp_path, "clone", "-q", "--depth=1", f"file://{house.repository}", str(shallow))
    copy = IndexHouse(shallow, house.cache_path)
    head = run_git(shallow, "rev-parse", "HEAD")
    assert (await copy.index(head)).file_count == len(FILES) + 1
    assert (await copy.index(copy.commit({"notes": b"2\n"}), after=head)).graph is None


@pytest.mark.parametrize(
    "damage",
    [
        lambda path: path.write_bytes(b"no database"),
        lambda path: path.write_bytes(path.read_bytes()[:5_000]),
        lambda path: path.write_bytes(path.read_bytes()[:4_096] + os.urandom(100_000)),
        lambda path: (path.unlink(), path.mkdir()),
    ],
    ids=["other bytes", "cut off", "other pages", "a directory"],
)
async def test_a_cache_that_is_broken_is_made_anew(
    house: IndexHouse, damage: Callable[[Path], object]
) -> None:
    commit = house.commit(FILES)
    first = await house.index(commit)
    damage(house.cache_path)
    assert comparable(await house.index(commit, after=commit), ModuleGraph()) == comparable(
        first, ModuleGraph()
    )
    assert comparable(await house.index(commit), ModuleGraph()) == comparable(first, ModuleGraph())
