import base64
import json
from pathlib import Path

import msgspec

from agentjobs_runtime.environments.images.model import Image, RegistryCredential
from agentjobs_worker.environments.layers import root_image, root_layers

DIGEST = f"sha256:{'a' * 64}"
FETCHED = Image(
    reference="registry.example.com/acme/build:1",
    digest=DIGEST,
    root=None,
    owner_uid=None,
    size_bytes=0,
    entrypoint=(),
    command=(),
    variables={},
    working_directory="/",
)
UNPACKED = msgspec.structs.replace(FETCHED, root=Path("/images/a/root"))


def test_an_unpacked_image_is_a_layer() -> None:
    (layer,) = root_layers(UNPACKED, Path("/upper"))
    assert (layer.lower, layer.upper) == (Path("/images/a/root"), Path("/upper"))
    assert root_image(UNPACKED, ()) is None


def test_an_image_that_the_sandbox_fetches_is_named_by_its_digest() -> None:
    assert root_layers(FETCHED, Path("/upper")) == ()
    image = root_image(FETCHED, ())
    assert image is not None
    assert image.reference == f"registry.example.com/acme/build@{DIGEST}"
    assert image.registry_auth == ""


def test_only_the_credential_of_its_registry_comes_with_an_image() -> None:
    credentials = [
        RegistryCredential("registry.example.com", "robot", "s3cret"),
        RegistryCredential("other.example.com", "robot", "other"),
    ]
    image = root_image(FETCHED, credentials)
    assert image is not None
    auths = json.loads(image.registry_auth)["auths"]
    assert list(auths) == ["registry.example.com"]
    assert base64.b64decode(auths["registry.example.com"]["auth"]) == b"robot:s3cret"
    assert "s3cret" not in repr(image)


def test_without_an_image_there_is_neither() -> None:
    assert root_layers(None, Path("/upper")) == ()
    assert root_image(None, ()) is None
