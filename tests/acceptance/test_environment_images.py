"""Jobs in OCI images from a real registry, over HTTP on a running service."""

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.environments import EnvironmentService, environment_service
from tests.support.image_registry import PASSWORD, USERNAME, ImageRegistry, with_password
from tests.support.oci_images import Entry, busybox_layer, layer, make_image
from tests.support.package_index import PRIVATE_ADDRESSES

AGENTS = '''
[[agents]]
id = "builder"
name = "Builder"
command = ["sh", "-c", """
set -e
cat /etc/image /workspace/deps/made
wget -qO- http://127.0.0.1:8099/hello
echo changed >> edited.txt
"""]

[[agents]]
id = "own"
name = "Program of the repository"
command = ["./fix.sh"]
'''
PROGRAM = "#!/bin/sh\necho fix in $(cat /etc/image); echo changed >> edited.txt\n"
CONFIGURATION = """
verify = "cat /etc/image"
[environment]
image = "REGISTRY/acme/build:1"
setup = "mkdir deps && cp /etc/image deps/made"
[[environment.services]]
name = "web"
image = "REGISTRY/acme/web:1"
command = "httpd -f -p 8099 -h /srv"
"""


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ImageRegistry]:
    # All addresses, because the machine's name may have any of them.
    registry = with_password(tmp_path_factory.mktemp("registry") / "server", host="0.0.0.0")
    yield registry
    registry.stop()


@pytest.fixture(scope="module")
def name(registry: ImageRegistry) -> str:
    """Not a literal address, for which skopeo would use no proxy."""
    return f"{socket.gethostname()}:{registry.port}"


@pytest.fixture(scope="module")
def environments(
    name: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[EnvironmentService]:
    with environment_service(
        tmp_path_factory.mktemp("images"),
        AGENTS,
        AGENTJOBS_EGRESS_ALLOW=PRIVATE_ADDRESSES,
        AGENTJOBS_INSECURE_REGISTRIES=name,
    ) as environments:
        yield environments


def push(registry: ImageRegistry, directory: Path, image: str, file: str, text: str) -> None:
    """Beside busybox, the image has one more file."""
    parent = Entry(str(Path(file).parent), "directory")
    made = make_image(
        directory, [busybox_layer(), layer(parent, Entry(file, content=text.encode()))]
    )
    made.push(registry.address, image, f"--dest-creds={USERNAME}:{PASSWORD}")


def test_agent_checks_and_services_run_in_images_of_a_private_registry(
    registry: ImageRegistry, name: str, environments: EnvironmentService, tmp_path: Path
) -> None:
    push(registry, tmp_path / "1", "acme/build:1", "etc/image", "first")
    push(registry, tmp_path / "2", "acme/web:1", "srv/hello", "from the service")
    files = {
        ".agentjobs.toml": CONFIGURATION.replace("REGISTRY", name),
        ".gitignore": "deps\n",
        "fix.sh": PROGRAM,
    }
    environments.connect("acme/shop", files)
    message = environments.environment_error("acme/shop", "builder")
    assert "agentjobs secrets set" in message, message
    option = ("--for", "registry", "--host", name, "--username", USERNAME)
    environments.service.admin("secrets", "set", "REGISTRY", *option, typed=PASSWORD)
    job, log = environments.complete("acme/shop", "builder")
    assert "firstfirst" in log
    assert "from the service" in log
    assert job["verification"]["passed"], log
    assert job["environment"]["image_digest"].startswith("sha256:")
    assert environments.changed_files(log) == ["edited.txt"]
    assert "fix in first" in environments.complete("acme/shop", "own")[1]

    registry.forget_requests()
    environments.connect("acme/other", files)
    other, _ = environments.complete("acme/other", "builder")
    assert other["environment"]["image_digest"] == job["environment"]["image_digest"]
    assert registry.downloads() == []
