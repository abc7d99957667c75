"""Unpacks the layers of an image with umoci, in a sandbox without network."""

from collections.abc import Mapping
from pathlib import Path

from agentjobs_runtime.environments.images.errors import ImageError
from agentjobs_runtime.safe_text import ellipsize, single_line
from agentjobs_runtime.sandboxes.limits import FILE_BYTES, Limits, format_bytes
from agentjobs_worker.environments.image_programs import find_program
from agentjobs_worker.environments.images.manifest import Manifest, layout_files
from agentjobs_worker.environments.images.tool_sandbox import ToolSandbox
from agentjobs_worker.sandbox.protocol import OnOutput, SandboxReport

UNPACK_SECONDS = 1800
ROOT = "root"
_MIB = 1024**2
_LAYOUT = "layout"
_TAG = "image"
_SIZE_FILE = "size"
_MAX_CHARACTERS = 300
_FILE_TOO_LARGE = "file too large"
# Before the last line of umoci.
_ERROR_MARK = "\N{VECTOR OR CROSS PRODUCT} "
# Whiteouts of umoci can remove the root itself; the workspace is all that they reach. Every
# directory is made accessible to its owner, who removes it one day, and the root to everyone.
_SCRIPT = (
    'umoci raw unpack --rootless --image "$1" root || exit 1; '
    "[ -d root ] && [ ! -L root ] || { echo 'its layers remove its root directory'; exit 1; }; "
    "chmod -R u+rwX,u-s,g-s root && chmod 755 root && "
    "{ du -s -B1 root && du -s --inodes root; } >size"
)


class UnpackError(ImageError):
    """The layers are to blame, so that they are not worth keeping."""


async def unpack(
    tools: ToolSandbox,
    manifest: Manifest,
    config: bytes,
    blobs: Path,
    workspace: Path,
    *,
    max_bytes: int,
    on_output: OnOutput,
) -> int:
    """Unpack to `ROOT` in the empty directory `workspace`, and return its size in bytes.

    umoci checks the digests of the blobs. Raises ImageError.
    """
    _write_layout(workspace / _LAYOUT, layout_files(manifest, config, _TAG))
    for layer in manifest.unique_layers:
        link = workspace / _LAYOUT / "blobs" / "sha256" / layer.hex
        link.symlink_to(blobs / "sha256" / layer.hex)
    limits = Limits(
        memory_bytes=1024 * _MIB,
        file_bytes=max_bytes,
        scratch_bytes=64 * _MIB,
        workspace_bytes=max_bytes,
    )
    report = await tools.run(
        _SCRIPT,
        (f"{_LAYOUT}:{_TAG}",),
        workspace,
        limits=limits,
        timeout_seconds=UNPACK_SECONDS,
        on_output=on_output,
        read_only=(blobs,),
        allows_setuid_bits=True,
    )
    if report.exit_code != 0:
        raise _failure(report, max_bytes)
    size_bytes = _size_bytes((workspace / _SIZE_FILE).read_text())
    if size_bytes > max_bytes:
        raise _too_large(max_bytes)
    if find_program(workspace / ROOT, "sh", "/bin") is None:
        raise UnpackError(
            "The image has no /bin/sh, which starts every command in it. Use one that has a shell."
        )
    return size_bytes


def _size_bytes(usage: str) -> int:
    """The size as the sandbox counts it: an empty file takes space too."""
    used_bytes, files = (int(line.split()[0]) for line in usage.splitlines())
    return used_bytes + files * FILE_BYTES


def _write_layout(layout: Path, files: Mapping[str, bytes]) -> None:
    directories = (layout, layout / "blobs", layout / "blobs" / "sha256")
    for directory in directories:
        directory.mkdir()
        directory.chmod(0o755)
    for name, content in files.items():
        (layout / name).write_bytes(content)
        (layout / name).chmod(0o644)


def _failure(report: SandboxReport, max_bytes: int) -> ImageError:
    if report.timed_out:
        return UnpackError(f"The image was not unpacked within {UNPACK_SECONDS} seconds.")
    is_too_large = report.exceeded == Limits(workspace_bytes=max_bytes).workspace_text
    if is_too_large or _FILE_TOO_LARGE in report.last_lines:
        return _too_large(max_bytes)
    if report.exceeded is not None:
        return UnpackError(f"Unpacking the image took more than {report.exceeded}.")
    lines = [line for line in report.last_lines.splitlines() if line.strip()]
    reason = ellipsize(single_line(lines[-1] if lines else "").lstrip(_ERROR_MARK), _MAX_CHARACTERS)
    return UnpackError(f"The image's layers cannot be unpacked: {reason or 'no reason given'}.")


def _too_large(max_bytes: int) -> ImageError:
    return UnpackError(
        f"The image is larger than {format_bytes(max_bytes)} when unpacked. Use a smaller one, or "
        "ask the operator to raise environment_image_max_mib."
    )
