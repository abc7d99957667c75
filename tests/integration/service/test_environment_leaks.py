"""What one job writes reaches nobody else: no snapshot, no image, no mirror and no other job."""

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.environments import EnvironmentService, environment_service
from tests.support.image_registry import ImageRegistry
from tests.support.oci_images import Entry, busybox_layer, layer, link, make_image
from tests.support.package_index import PRIVATE_ADDRESSES

AGENTS = '''
[[agents]]
id = "vandal"
name = "Vandal"
command = ["sh", "-c", """
set -e
cat deps/private/key ~/.private/key
echo changed | tee -a deps/private/key ~/.private/key > edited.txt
echo left > deps/left; echo left > ~/left; chmod 777 deps/private ~/.private
rm -r deps/old ~/old; ln -s /etc deps/old
rm -rf .git/objects .git/refs .git/HEAD
"""]

[[agents]]
id = "looker"
name = "Looker"
command = ["sh", "-c", """
set -e
echo "status: $(git status --porcelain)." "app: $(cat app.py)"
cat deps/private/key ~/.private/key
echo "found: $(ls deps ~ -m)"
echo changed > edited.txt
"""]

[[agents]]
id = "image-vandal"
name = "Vandal of an image"
command = ["sh", "-c", """
set -e
echo changed > /etc/name; echo left > /srv/left; rm -r /srv/old
echo changed > edited.txt
"""]

[[agents]]
id = "image-looker"
name = "Looker at an image"
command = ["sh", "-c", """
read name < /etc/name
echo "name: $name" "srv: $(cd /srv; echo *)"
echo changed > edited.txt
"""]
'''
SETUP = """
mkdir -p deps/private deps/old ~/.private ~/old
echo "key of setup" | tee deps/private/key > ~/.private/key
chmod 600 deps/private/key ~/.private/key; chmod 700 deps/private ~/.private
echo changed > app.py
"""
FILES = {
    ".agentjobs.toml": f"[environment]\nsetup = '''{SETUP}'''\n",
    ".gitignore": "deps/\n",
    "app.py": "x = 1\n",
}


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ImageRegistry]:
    directory = tmp_path_factory.mktemp("registry")
    # On all addresses, because the machine's name may have any of them.
    registry = ImageRegistry(directory / "registry", host="0.0.0.0")
    image = make_image(
        directory / "image",
        [
            busybox_layer(),
            layer(
                *(link(f"bin/{name}", "busybox") for name in ("rm", "true")),
                *(Entry(name, "directory") for name in ("etc", "srv", "srv/old")),
                Entry("etc/name", content=b"image\n"),
            ),
        ],
    )
    image.push(registry.address, "acme/build:1")
    yield registry
    registry.stop()


@pytest.fixture(scope="module")
def environments(
    registry: ImageRegistry, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[EnvironmentService]:
    with environment_service(
        tmp_path_factory.mktemp("leaks"),
        AGENTS,
        AGENTJOBS_EGRESS_ALLOW=PRIVATE_ADDRESSES,
        AGENTJOBS_INSECURE_REGISTRIES=f"{socket.gethostname()}:{registry.port}",
    ) as environments:
        yield environments


def describe(*roots: Path) -> dict[str, tuple[int, int, float, bytes]]:
    """Everything below, with its mode, owner, time and content."""
    described = {}
    for path in (path for root in roots for path in (root, *root.rglob("*"))):
        status = path.lstat()
        content = b""
        if path.is_symlink():
            content = os.fsencode(path.readlink())
        elif path.is_file():
            content = path.read_bytes()
        described[str(path)] = (status.st_mode, status.st_uid, status.st_mtime, content)
    return described


def test_no_job_changes_a_snapshot_or_sees_what_another_one_wrote(
    environments: EnvironmentService,
) -> None:
    environments.connect("acme/shop", FILES)
    _, first_log = environments.complete("acme/shop", "looker")
    snapshot = list(environments.directory.glob("snapshots/*/*/*/"))
    before = describe(*snapshot)
    assert any(path.endswith("home/.private/key") for path in before)

    _, log = environments.complete("acme/shop", "vandal")

    assert "key of setup\nkey of setup\n" in log
    assert environments.changed_files(log) == ["edited.txt"]
    assert describe(*snapshot) == before
    _, last_log = environments.complete("acme/shop", "looker")
    for each in (first_log, last_log):
        assert "status: . app: x = 1\nkey of setup\nkey of setup\nfound: " in each
        assert "left" not in each
    assert environments.changed_files(last_log) == ["edited.txt"]


def test_no_job_changes_an_image(environments: EnvironmentService, registry: ImageRegistry) -> None:
    configuration = (
        f'[environment]\nimage = "{socket.gethostname()}:{registry.port}/acme/build:1"\n'
    )
    environments.connect("acme/image", {".agentjobs.toml": configuration})
    environments.complete("acme/image", "image-looker")
    roots = list(environments.directory.glob("images/*/root"))
    before = describe(*roots)
    assert any(path.endswith("root/etc/name") for path in before)

    environments.complete("acme/image", "image-vandal")

    assert describe(*roots) == before
    _, log = environments.complete("acme/image", "image-looker")
    assert "name: image srv: old\n" in log
