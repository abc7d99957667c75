"""Reads small blobs through one `git cat-file --batch`. Does not know what the bytes mean."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from agentjobs_runtime.git.process import GitError, git


class MissingObject(GitError):
    """The git directory lacks an object that it should contain."""

    def __init__(self, description: str) -> None:
        super().__init__(("cat-file", "--batch"), 1, f"fatal: {description}")


async def read_small_blobs(
    git_dir: Path, object_ids: Sequence[str], *, environment: Mapping[str, str] | None = None
) -> list[bytes]:
    """The content of each blob, in order. All are in memory, so the caller bounds their sizes."""
    if not object_ids:
        return []
    batch = await _cat_file(git_dir, "--batch", object_ids, environment)
    blobs = list(split_batch(batch))
    if len(blobs) != len(object_ids):
        raise MissingObject(f"{len(blobs)} of {len(object_ids)} blobs were read")
    return blobs


async def blob_sizes(
    git_dir: Path, object_ids: Sequence[str], *, environment: Mapping[str, str] | None = None
) -> list[int]:
    """The size of each blob, in order."""
    check = "--batch-check=%(objectsize)"
    lines = (await _cat_file(git_dir, check, object_ids, environment)).decode("ascii").splitlines()
    if missing := [line for line in lines if not line.isdigit()]:
        raise MissingObject(missing[0])
    return [int(line) for line in lines]


def split_batch(batch: bytes) -> Iterator[bytes]:
    """The blobs in the output of `cat-file --batch`."""
    start = 0
    while start < len(batch):
        end_of_header = batch.index(b"\n", start)
        object_id, _, rest = batch[start:end_of_header].partition(b" ")
        kind, _, size = rest.partition(b" ")
        if kind != b"blob":
            raise MissingObject(
                f"{object_id.decode('ascii', 'replace')} is not a blob in this repository"
            )
        end = end_of_header + 1 + int(size)
        yield batch[end_of_header + 1 : end]
        # A newline follows a blob.
        start = end + 1


async def _cat_file(
    git_dir: Path, batch: str, object_ids: Sequence[str], environment: Mapping[str, str] | None
) -> bytes:
    names = "".join(f"{object_id}\n" for object_id in object_ids).encode("ascii")
    listed = await git(
        "cat-file", batch, "--buffer", git_dir=git_dir, environment=environment, input=names
    )
    return listed.stdout
