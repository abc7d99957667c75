"""Which directories go to a pod and which come back."""

from pathlib import Path, PurePosixPath

import pytest

from agentjobs_kubernetes.layer_files import (
    TaskDownload,
    TaskUpload,
    task_downloads,
    task_uploads,
)
from agentjobs_runtime.sandboxes.directories import HOME, ROOT, RUN_DIRECTORY, WORKSPACE
from agentjobs_worker.sandbox.protocol import Layer, SandboxError, SandboxTask


def task(directory: Path, *layers: Layer) -> SandboxTask:
    return SandboxTask(
        argv=("true",),
        environment={},
        workspace=directory / "workspace",
        run_dir=directory / "run",
        timeout_seconds=1,
        slot=0,
        layers=layers,
    )


def layer(inside: PurePosixPath, directory: Path, upper: str) -> Layer:
    return Layer(inside=inside, lower=directory / "lower", upper=directory / upper)


def test_the_workspace_and_the_run_directory_are_sent(tmp_path: Path) -> None:
    assert task_uploads(task(tmp_path)) == [
        TaskUpload(inside=WORKSPACE, source=tmp_path / "workspace"),
        TaskUpload(inside=RUN_DIRECTORY, source=tmp_path / "run"),
    ]


def test_only_what_an_agent_may_write_comes_back(tmp_path: Path) -> None:
    assert task_downloads(task(tmp_path)) == [
        TaskDownload(inside=WORKSPACE, target=tmp_path / "workspace"),
        *(
            TaskDownload(
                inside=RUN_DIRECTORY / name,
                target=tmp_path / "run" / name,
                max_file_bytes=16 * 1024**2,
            )
            for name in ("report", "artifacts")
        ),
    ]


def test_layers_are_sent_without_what_earlier_runs_deleted(tmp_path: Path) -> None:
    (tmp_path / "home.deleted").write_bytes(b"a\nb\0deep/er")
    layers = layer(HOME, tmp_path, "home"), layer(WORKSPACE, tmp_path, "workspace")
    uploads = {upload.inside: upload for upload in task_uploads(task(tmp_path, *layers))}
    assert set(uploads) == {HOME, WORKSPACE, RUN_DIRECTORY}
    assert (uploads[HOME].lower, uploads[HOME].source) == (tmp_path / "lower", tmp_path / "home")
    assert uploads[HOME].deleted == (b"a\nb", b"deep/er")
    assert uploads[WORKSPACE].lower == tmp_path / "lower"
    assert uploads[WORKSPACE].source == tmp_path / "workspace"
    assert uploads[WORKSPACE].deleted == ()
    downloads = {each.inside: each for each in task_downloads(task(tmp_path, *layers))}
    assert downloads[HOME].target == tmp_path / "home"
    assert downloads[HOME].lower == downloads[WORKSPACE].lower == tmp_path / "lower"


def test_a_layer_that_the_pod_has_unpacked_is_not_sent_again(tmp_path: Path) -> None:
    layers = layer(HOME, tmp_path, "home"), layer(WORKSPACE, tmp_path, "workspace")
    uploads = task_uploads(task(tmp_path, *layers), unpacked=[str(HOME)])
    lower = {upload.inside: upload.lower for upload in uploads}
    assert (lower[HOME], lower[WORKSPACE]) == (None, tmp_path / "lower")


@pytest.mark.parametrize("places", [(ROOT,), (PurePosixPath("/usr"),), (HOME, HOME)])
def test_other_places_cannot_have_a_layer(
    tmp_path: Path, places: tuple[PurePosixPath, ...]
) -> None:
    with pytest.raises(SandboxError, match="can have one layer"):
        task_uploads(task(tmp_path, *(layer(place, tmp_path, "upper") for place in places)))


@pytest.mark.parametrize(("inside", "upper"), [(WORKSPACE, "upper"), (HOME, "workspace")])
def test_the_workspace_is_the_upper_directory_of_its_layer(
    tmp_path: Path, inside: PurePosixPath, upper: str
) -> None:
    with pytest.raises(SandboxError, match="upper directory of its layer"):
        task_downloads(task(tmp_path, layer(inside, tmp_path, upper)))
