"""Reads manifests and downloads layers with skopeo, whose only network is a guarded proxy."""

import os
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path

from agentjobs_runtime.environments.images.errors import ImageError
from agentjobs_runtime.environments.images.model import RegistryCredential
from agentjobs_runtime.environments.images.reference import Reference
from agentjobs_runtime.files.removal import remove
from agentjobs_runtime.outbound.guard.addresses import AllowList
from agentjobs_runtime.outbound.guard.resolver import Lookup, system_lookup
from agentjobs_runtime.sandboxes.limits import Limits
from agentjobs_runtime.threads import run_in_thread
from agentjobs_worker.environments.images.manifest import (
    MAX_DOCUMENT_BYTES,
    Index,
    Manifest,
    choose_manifest,
    compute_digest,
    parse_document,
    uncompressed_digests,
)
from agentjobs_worker.environments.images.registry_auth import auth_file, credentials_for
from agentjobs_worker.environments.images.registry_errors import explain_failure
from agentjobs_worker.environments.images.tool_sandbox import ToolSandbox
from agentjobs_worker.environments.network import open_egress
from agentjobs_worker.sandbox.protocol import OnOutput

MANIFEST_SECONDS = 60
DOWNLOAD_SECONDS = 3600
# Inside an organization's layers: what no finished download left.
UNFINISHED = "unfinished"
_MIB = 1024**2
_DOCUMENT = "document"
_AUTH_FILE = "auth.json"
# Signatures are not checked: the digest identifies the image. Without the option, skopeo would read
# a policy that the sandbox does not have.
_SKOPEO = 'skopeo --insecure-policy "$@" --authfile "$FILES/auth.json"'
_READ = f"exec {_SKOPEO} >{_DOCUMENT}"
_KEEP = f"exec {_SKOPEO}"


class Registry:
    """`insecure_hosts` are used over plain HTTP, or without checking their certificates."""

    def __init__(
        self,
        tools: ToolSandbox,
        allowed: AllowList,
        *,
        insecure_hosts: Collection[str] = (),
        lookup: Lookup = system_lookup,
    ) -> None:
        self._tools = tools
        self._allowed = allowed
        self._insecure_hosts = frozenset(insecure_hosts)
        self._lookup = lookup

    async def read_manifest(
        self, reference: Reference, credentials: Sequence[RegistryCredential]
    ) -> Manifest:
        """The one for this machine's architecture. Raises ImageError."""
        document = await self._read(reference, credentials)
        if reference.digest:
            _check_digest(document, reference.digest, reference)
        parsed = parse_document(document)
        if isinstance(parsed, Index):
            digest = choose_manifest(parsed)
            document = await self._read(reference.pinned(digest), credentials)
            _check_digest(document, digest, reference)
            parsed = parse_document(document)
            if isinstance(parsed, Index):
                raise ImageError(f"{reference} is an index of indexes, which is not supported.")
        return parsed

    async def read_config(
        self,
        reference: Reference,
        manifest: Manifest,
        credentials: Sequence[RegistryCredential],
    ) -> bytes:
        """Raises ImageError."""
        pinned = reference.pinned(manifest.digest)
        document = await self._read(pinned, credentials, "--config")
        _check_digest(document, manifest.config.digest, reference)
        return document

    async def download(
        self,
        reference: Reference,
        manifest: Manifest,
        credentials: Sequence[RegistryCredential],
        layers: Path,
        on_output: OnOutput,
    ) -> None:
        """Download the blobs that `layers` does not have. One at a time for a directory.

        An interrupted download keeps those that are complete. Raises ImageError.
        """
        await run_in_thread(remove, layers / UNFINISHED)
        try:
            await self._copy(_KEEP, reference, manifest, credentials, layers, on_output)
        finally:
            await run_in_thread(remove, layers / UNFINISHED)

    async def check_layers(
        self,
        reference: Reference,
        manifest: Manifest,
        config: bytes,
        credentials: Sequence[RegistryCredential],
        on_output: OnOutput,
    ) -> None:
        """Download every layer and keep none. Raises ImageError.

        skopeo compares the digests of the layers. The digests of their content, by which nodes
        recognize unpacked layers, are compared here.
        """
        script = _compare_and_discard(uncompressed_digests(manifest, config))
        async with self._tools.work_directory() as directory:
            workspace = directory / "workspace"
            self._tools.create_directory(workspace)
            await self._copy(script, reference, manifest, credentials, workspace, on_output)

    async def _copy(
        self,
        script: str,
        reference: Reference,
        manifest: Manifest,
        credentials: Sequence[RegistryCredential],
        workspace: Path,
        on_output: OnOutput,
    ) -> None:
        blobs = (workspace / "blobs" / "sha256").glob("*")
        used_bytes = sum(path.lstat().st_size for path in blobs)
        limits = Limits(
            memory_bytes=1024 * _MIB,
            file_bytes=max((layer.size for layer in manifest.layers), default=0) + 8 * _MIB,
            scratch_bytes=64 * _MIB,
            workspace_bytes=used_bytes + manifest.size_bytes + 64 * _MIB,
        )
        command = (
            *("copy", "--retry-times", "2", *self._tls_options(reference, "--src-tls-verify")),
            *("--dest-oci-accept-uncompressed-layers", "--dest-shared-blob-dir", "blobs"),
            *(f"docker://{reference.pinned(manifest.digest)}", f"oci:{UNFINISHED}"),
        )
        await self._run(
            script, command, reference, credentials, workspace, limits, DOWNLOAD_SECONDS, on_output
        )

    async def _read(
        self, reference: Reference, credentials: Sequence[RegistryCredential], *options: str
    ) -> bytes:
        limits = Limits(
            memory_bytes=512 * _MIB,
            file_bytes=2 * MAX_DOCUMENT_BYTES,
            scratch_bytes=16 * _MIB,
            workspace_bytes=64 * _MIB,
        )
        options = ("--raw", *options, *self._tls_options(reference, "--tls-verify"))
        command = ("inspect", *options, f"docker://{reference}")
        async with self._tools.work_directory() as directory:
            workspace = directory / "workspace"
            self._tools.create_directory(workspace)
            await self._run(
                _READ, command, reference, credentials, workspace, limits, MANIFEST_SECONDS, _ignore
            )
            return _read_file(workspace / _DOCUMENT)

    async def _run(
        self,
        script: str,
        command: Sequence[str],
        reference: Reference,
        credentials: Sequence[RegistryCredential],
        workspace: Path,
        limits: Limits,
        timeout_seconds: float,
        on_output: OnOutput,
    ) -> None:
        matching = credentials_for(reference, credentials)
        refusals: list[str] = []
        async with open_egress(
            None, self._allowed, refusals.append, lookup=self._lookup
        ) as network:
            report = await self._tools.run(
                script,
                command,
                workspace,
                limits=limits,
                timeout_seconds=timeout_seconds,
                on_output=on_output,
                files={_AUTH_FILE: auth_file(matching)},
                ports=network.ports,
            )
        if report.exit_code != 0:
            raise explain_failure(report, reference, refusals, has_credential=bool(matching))

    def _tls_options(self, reference: Reference, option: str) -> tuple[str, ...]:
        return (f"{option}=false",) if reference.host in self._insecure_hosts else ()


def _compare_and_discard(contents: Iterable[tuple[str, str]]) -> str:
    """A script whose own message looks like skopeo's. gzip copies what is not compressed.

    What stays in the workspace would be sent to the worker.
    """
    pairs = "\n".join(" ".join(pair) for pair in contents)
    return f"""{_SKOPEO} && (while read -r layer content; do
  [ "$(gzip -dcf <"blobs/sha256/$layer" 2>/dev/null | sha256sum)" = "$content  -" ] ||
    {{ echo 'level=fatal msg="a layer has other content than its configuration says"'; exit 1; }}
done <<END
{pairs}
END
); status=$?; rm -rf blobs {UNFINISHED}; exit $status"""


def _check_digest(document: bytes, digest: str, reference: Reference) -> None:
    if compute_digest(document) != digest:
        raise ImageError(f"The registry has other content for {reference} than its digest says.")


def _read_file(path: Path) -> bytes:
    # The sandbox wrote it.
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    with os.fdopen(descriptor, "rb") as file:
        document = file.read(MAX_DOCUMENT_BYTES + 1)
    if len(document) > MAX_DOCUMENT_BYTES:
        raise ImageError("The image's manifest or configuration is larger than 4 MiB.")
    return document


def _ignore(_chunk: bytes) -> None:
    """Errors are in the report."""
