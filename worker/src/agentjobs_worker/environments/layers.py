"""The layers of a sandbox: an image as its root, a snapshot in its home and workspace."""

from collections.abc import Iterable
from pathlib import Path, PurePosixPath

from agentjobs_runtime.environments.images.model import Image, RegistryCredential
from agentjobs_runtime.environments.images.reference import parse_reference
from agentjobs_runtime.sandboxes import directories
from agentjobs_worker.environments.images.registry_auth import auth_file, credentials_for
from agentjobs_worker.environments.snapshots import StoredSnapshot
from agentjobs_worker.sandbox.protocol import Layer, RootImage


def root_layers(image: Image | None, upper: Path) -> tuple[Layer, ...]:
    """The image as a layer, unless there is none or the sandbox fetches it."""
    if image is None or image.root is None:
        return ()
    root = PurePosixPath("/")
    return (Layer(inside=root, lower=image.root, upper=upper, lower_uid=image.owner_uid),)


def root_image(image: Image | None, credentials: Iterable[RegistryCredential]) -> RootImage | None:
    """The image for a sandbox that fetches it, with the credential of its registry."""
    if image is None or image.root is not None:
        return None
    reference = parse_reference(image.reference)
    matching = credentials_for(reference, credentials)
    return RootImage(
        reference=str(reference.pinned(image.digest)),
        registry_auth=auth_file(matching).decode() if matching else "",
    )


def home_layer(lower: Path, upper: Path, lower_uid: int | None = None) -> Layer:
    return Layer(inside=directories.HOME, lower=lower, upper=upper, lower_uid=lower_uid)


def workspace_layer(stored: StoredSnapshot, tree: Path) -> Layer:
    return Layer(
        inside=directories.WORKSPACE,
        lower=stored.workspace,
        upper=tree,
        lower_uid=stored.snapshot.owner_uid,
    )
