"""The layers of a sandbox: an image as its root, a snapshot in its home and workspace."""

from pathlib import Path, PurePosixPath

from agentjobs.environments.images.model import Image
from agentjobs.environments.snapshots import StoredSnapshot
from agentjobs.sandbox import mounts
from agentjobs.sandbox.protocol import Layer


def root_layer(image: Image, upper: Path) -> Layer:
    return Layer(
        inside=PurePosixPath("/"), lower=image.root, upper=upper, lower_uid=image.owner_uid
    )


def home_layer(lower: Path, upper: Path, lower_uid: int | None = None) -> Layer:
    return Layer(inside=mounts.HOME, lower=lower, upper=upper, lower_uid=lower_uid)


def workspace_layer(stored: StoredSnapshot, tree: Path) -> Layer:
    return Layer(
        inside=mounts.WORKSPACE,
        lower=stored.workspace,
        upper=tree,
        lower_uid=stored.snapshot.owner_uid,
    )
