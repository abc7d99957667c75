"""Repositories as people have them: setup is online, then agents and checks build and test offline.

Each setup installs from a registry on this machine, which the agent cannot reach.
"""

import base64
import hashlib
import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import postgres
from tests.support.environments import EnvironmentService, environment_service
from tests.support.package_index import (
    PRIVATE_ADDRESSES,
    PackageIndex,
    package_index,
    tarball,
    wheel,
)
from tests.support.vulnerable_projects import UV

AGENTS = '''
[[agents]]
id = "programmer"
name = "Programmer"
command = ["sh", "-c", """
set -e
test -z "$(git status --porcelain)"
if curl -sSm 5 URL/; then exit 9; fi
make test
make change
"""]
'''
PYTHON_TESTS = """
import subprocess
import unittest

import shared
import shop

PSQL = ["BIN/psql", "-qtA", "-h", "127.0.0.1", "-U", "app", "-d", "postgres", "-c"]


class ShopTest(unittest.TestCase):
    def test_the_database_adds_up_what_the_package_says(self):
        sql = f"create temp table t as select {shop.PRICE} as n; select sum(n + 1) from t"
        out = subprocess.run([*PSQL, sql], capture_output=True, text=True, check=True).stdout
        self.assertEqual(int(out), shop.PRICE + shared.VALUE)
"""
PYTHON_CONFIGURATION = '''
verify = "make test"
[environment]
setup = """
set -e
mkdir -p ~/.local/bin
curl -fsS -o ~/.local/bin/uv URL/uv
chmod +x ~/.local/bin/uv
~/.local/bin/uv sync --frozen --quiet
"""
[environment.variables]
UV_PYTHON = "/usr/bin/python3"
[[environment.services]]
name = "postgres"
command = """
BIN/initdb -N -D data -A trust -U app >initdb.log &&
exec BIN/postgres -D data -c fsync=off -c listen_addresses=127.0.0.1 -c unix_socket_directories=
"""
ready = "BIN/pg_isready -h 127.0.0.1"
'''
PYTHON_MAKEFILE = """\
test:
\t$(HOME)/.local/bin/uv run --offline --frozen --quiet python -m unittest -q
change:
\techo 'PRICE = 7' > shop.py
"""
NODE_TESTS = """
const {test} = require("node:test"), assert = require("node:assert");
test("price", () => assert.strictEqual(require("./shop").price(), require("shared").value));
"""
NODE_CONFIGURATION = """
verify = "npm test"
[environment]
setup = "npm ci --no-audit --no-fund --no-update-notifier"
"""
NODE_MAKEFILE = """\
test:
\tnpm test
change:
\techo 'exports.price = () => require("shared").value + 0;' > shop.js
"""
C_MAKEFILE = """\
test: shop
\t./shop
shop: shop.c
\tgcc -Ibuild/include -o shop shop.c build/libshared.a
library:
\tmkdir -p build/include
\tcurl -fsS URL/shared.tar.gz | tar -xzC build
\tcp build/shared.h build/include/
\tgcc -c -o build/shared.o build/shared.c
\tar rcs build/libshared.a build/shared.o
change:
\techo '/* changed */' >> shop.c
"""
C_CONFIGURATION = """
verify = "make test"
[environment]
setup = "make library"
"""
C_PROGRAM = '#include "shared.h"\nint main(void) { return shared() - 1; }\n'
C_LIBRARY = {"shared.h": "int shared(void);\n", "shared.c": "int shared(void) { return 1; }\n"}


@pytest.fixture(scope="module")
def index() -> Iterator[PackageIndex]:
    with package_index() as index:
        yield index


@pytest.fixture(scope="module")
def environments(
    index: PackageIndex, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[EnvironmentService]:
    with environment_service(
        tmp_path_factory.mktemp("projects"),
        AGENTS.replace("URL", index.url),
        AGENTJOBS_EGRESS_ALLOW=PRIVATE_ADDRESSES,
        AGENTJOBS_SETUP_NETWORK=index.host,
    ) as environments:
        yield environments


def changed_by_agent(environments: EnvironmentService, repo: str) -> tuple[list[str], str]:
    """Run the agent twice; returns the files that the second job changed, and its log."""
    first, _ = environments.complete(repo, "programmer")
    job, log = environments.complete(repo, "programmer")
    assert job["verification"]["passed"], (job, log)
    assert job["environment"]["build_id"] == first["environment"]["build_id"]
    return environments.changed_files(log), log


def test_a_python_project_with_uv_and_postgresql(
    environments: EnvironmentService, index: PackageIndex, tmp_path: Path
) -> None:
    package = wheel()
    file = "/shared-1.0-py3-none-any.whl"
    link = f"<a href='{file}#sha256={hashlib.sha256(package).hexdigest()}'>{file[1:]}</a>"
    index.files |= {"/uv": UV.read_bytes(), "/simple/shared/": link.encode(), file: package}
    binaries = str(postgres.installation() / "bin")
    project = {
        ".agentjobs.toml": PYTHON_CONFIGURATION.replace("URL", index.url),
        ".gitignore": ".venv/\n__pycache__/\n",
        "Makefile": PYTHON_MAKEFILE,
        "pyproject.toml": (
            '[project]\nname = "shop"\nversion = "1"\nrequires-python = ">=3.9"\n'
            f'dependencies = ["shared==1.0"]\n[[tool.uv.index]]\nurl = "{index.url}/simple"\n'
            "default = true\n"
        ),
        "shop.py": "PRICE = 6\n",
        "test_shop.py": PYTHON_TESTS,
    }
    (tmp_path / "pyproject.toml").write_text(project["pyproject.toml"])
    environment = {**os.environ, "UV_CACHE_DIR": str(tmp_path / "cache"), "NO_PROXY": "*"}
    subprocess.run([UV, "lock", "--quiet"], cwd=tmp_path, env=environment, check=True)
    project["uv.lock"] = (tmp_path / "uv.lock").read_text()
    environments.connect(
        "acme/python", {name: text.replace("BIN", binaries) for name, text in project.items()}
    )

    files, log = changed_by_agent(environments, "acme/python")

    assert files == ["shop.py"]
    assert "service:postgres | " in log
    assert file in index.requests


def test_a_node_project_with_npm(environments: EnvironmentService, index: PackageIndex) -> None:
    manifest = {"name": "shared", "version": "1.0.0", "main": "index.js"}
    content = {
        "package/index.js": "exports.value = 1;",
        "package/package.json": json.dumps(manifest),
    }
    package = tarball(content)
    integrity = f"sha1-{base64_digest(package)}"
    index.files["/shared-1.0.0.tgz"] = package
    own = {"name": "shop", "version": "1.0.0", "dependencies": {"shared": "1.0.0"}}
    locked = {
        "version": "1.0.0",
        "resolved": f"{index.url}/shared-1.0.0.tgz",
        "integrity": integrity,
    }
    lock = {
        "name": "shop",
        "version": "1.0.0",
        "lockfileVersion": 3,
        "packages": {"": own, "node_modules/shared": locked},
    }
    environments.connect(
        "acme/node",
        {
            ".agentjobs.toml": NODE_CONFIGURATION,
            ".gitignore": "node_modules/\n",
            "Makefile": NODE_MAKEFILE,
            "package.json": json.dumps({**own, "scripts": {"test": "node --test"}}),
            "package-lock.json": json.dumps(lock),
            "shop.js": "exports.price = () => 1;\n",
            "shop.test.js": NODE_TESTS,
        },
    )

    files, _ = changed_by_agent(environments, "acme/node")

    assert files == ["shop.js"]
    assert index.requests.count("/shared-1.0.0.tgz") == 1


def test_a_c_project_with_make(environments: EnvironmentService, index: PackageIndex) -> None:
    index.files["/shared.tar.gz"] = tarball(C_LIBRARY)
    environments.connect(
        "acme/c",
        {
            ".agentjobs.toml": C_CONFIGURATION,
            ".gitignore": "build/\nshop\n",
            "Makefile": C_MAKEFILE.replace("URL", index.url),
            "shop.c": C_PROGRAM,
        },
    )

    files, _ = changed_by_agent(environments, "acme/c")

    assert files == ["shop.c"]
    assert index.requests.count("/shared.tar.gz") == 1


def base64_digest(content: bytes) -> str:
    return base64.b64encode(hashlib.sha1(content).digest()).decode()
