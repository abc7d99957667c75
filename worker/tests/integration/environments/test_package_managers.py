"""Package managers install from a private host with nothing but the broker's variables."""

import hashlib
import json
import sys
from pathlib import Path

from aiohttp import web

from tests.support.brokered import Respond, broker_harness, files
from tests.support.package_index import tarball, wheel
from tests.support.vulnerable_projects import UV

PREFIX = "/api/packages"


def index_with_full_urls(package: bytes) -> Respond:
    digest = hashlib.sha256(package).hexdigest()

    async def respond(request: web.BaseRequest) -> web.StreamResponse:
        file = f"{PREFIX}/files/shared-1.0-py3-none-any.whl"
        link = f"<a href='https://{request.host}{file}#sha256={digest}'>shared-1.0-py3-none-any.whl</a>"
        page = {f"{PREFIX}/simple/shared/": ("text/html", link.encode())}
        return await files({**page, file: ("application/octet-stream", package)})(request)

    return respond


async def test_pip_and_uv_install_from_an_index_with_full_urls(tmp_path: Path) -> None:
    async with broker_harness(
        index_with_full_urls(wheel()), tmp_path, kind="pip", path_prefix=PREFIX
    ) as harness:
        pip = (sys.executable, "-m", "pip", "install", "--no-input", "--no-cache-dir", "--target")
        uv = (str(UV), "pip", "install", "--no-cache", "--python", sys.executable, "--target")
        for directory, command in (("with-pip", pip), ("with-uv", uv)):
            await harness.run(tmp_path, *command, directory, "shared")

            assert (tmp_path / directory / "shared.py").read_text() == "VALUE = 1\n"


async def test_npm_installs_a_scoped_package_and_locks_its_real_address(tmp_path: Path) -> None:
    package = tarball({"package/package.json": '{"name": "@acme/shared", "version": "1.0.0"}'})

    async def respond(request: web.BaseRequest) -> web.StreamResponse:
        file = f"{PREFIX}/@acme/shared/-/shared-1.0.0.tgz"
        dist = {
            "tarball": f"https://{request.host}{file}",
            "shasum": hashlib.sha1(package).hexdigest(),
        }
        version = {"name": "@acme/shared", "version": "1.0.0", "dist": dist}
        document = {
            "name": "@acme/shared",
            "dist-tags": {"latest": "1.0.0"},
            "versions": {"1.0.0": version},
        }
        content = {
            f"{PREFIX}/@acme%2fshared": ("application/json", json.dumps(document).encode()),
            file: ("application/octet-stream", package),
        }
        return await files(content)(request)

    project = tmp_path / "project"
    project.mkdir()
    (project / "package.json").write_text('{"dependencies": {"@acme/shared": "1.0.0"}}')
    async with broker_harness(respond, tmp_path, kind="npm", path_prefix=PREFIX) as harness:
        options = ("--no-audit", "--no-fund", "--no-update-notifier")
        await harness.run(project, "npm", "install", *options)
        lock = json.loads((project / "package-lock.json").read_text())
        resolved = lock["packages"]["node_modules/@acme/shared"]["resolved"]
        assert resolved.startswith(harness.host.origin)

        await harness.run(project, "npm", "ci", *options)

        assert (project / "node_modules/@acme/shared/package.json").exists()
