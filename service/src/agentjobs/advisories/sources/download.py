"""HTTP downloads with size limits and verification of checksums."""

import asyncio
import base64
import binascii
import hashlib
import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import BinaryIO

import aiohttp
from multidict import CIMultiDictProxy
from yarl import URL

from agentjobs_dependencies.advisories.sources.source import (
    MAX_ARCHIVE_BYTES,
    SourceError,
    SourceNotFound,
)
from agentjobs_runtime.outbound.guard.addresses import BlockedAddress
from agentjobs_runtime.outbound.guard.failures import describe_failure

_TIMEOUT = aiohttp.ClientTimeout(total=3_600, sock_connect=15, sock_read=60)
_CHUNK_BYTES = 1024**2
_MAX_REDIRECTS = 5


@asynccontextmanager
async def fetch(
    session: aiohttp.ClientSession, url: URL, headers: Mapping[str, str] | None = None
) -> AsyncIterator[aiohttp.ClientResponse]:
    """A response with status 200, or 304 if requested; anything else is a SourceError."""
    display_url = url.with_user(None)
    # The session does not decompress.
    headers = {"Accept-Encoding": "identity", **(headers or {})}
    try:
        async with session.get(
            url, headers=headers, timeout=_TIMEOUT, max_redirects=_MAX_REDIRECTS
        ) as response:
            _check_response(response, url, "If-None-Match" in headers)
            yield response
    except aiohttp.ClientConnectorError as error:
        if isinstance(error.os_error, BlockedAddress):
            raise SourceError(f"{display_url} is blocked: {error.os_error}") from None
        reason = describe_failure(error)
        raise SourceError(f"{display_url} could not be reached: {reason}") from None
    except TimeoutError:
        raise SourceError(f"{display_url} timed out") from None
    except (aiohttp.ClientError, ConnectionError) as error:
        reason = str(error) or type(error).__name__
        raise SourceError(f"{display_url} was not received completely: {reason}") from None


async def save(response: aiohttp.ClientResponse, directory: Path) -> BinaryIO:
    """Save to an unnamed temporary file, which disappears with the process."""
    display_url = response.url.with_user(None)
    if (response.content_length or 0) > MAX_ARCHIVE_BYTES:
        raise SourceError(f"{display_url} exceeds the size limit of archives")
    try:
        file = await asyncio.to_thread(_temporary_file, directory)
    except OSError as error:
        raise SourceError(f"cannot write to {directory}: {error.strerror}") from None
    try:
        async for chunk in _checked_chunks(response, MAX_ARCHIVE_BYTES):
            await asyncio.to_thread(file.write, chunk)
    except ValueError as error:
        file.close()
        raise SourceError(f"{display_url}: {error}") from None
    except OSError as error:
        file.close()
        if isinstance(error, (TimeoutError, ConnectionError, aiohttp.ClientError)):
            raise
        raise SourceError(f"{display_url} could not be saved: {error.strerror}") from None
    except BaseException:
        file.close()
        raise
    return file


async def read_limited(response: aiohttp.ClientResponse, max_bytes: int) -> bytes:
    """Raises ValueError if the body is too large or its checksum does not match."""
    return b"".join([chunk async for chunk in _checked_chunks(response, max_bytes)])


def expected_md5(headers: "CIMultiDictProxy[str]") -> bytes | None:
    """Reads the headers of Google Cloud Storage or Content-MD5; None if there is none."""
    if headers.get("x-goog-stored-content-encoding", "identity") != "identity":
        return None
    candidates = [headers.get("Content-MD5", "")]
    for line in headers.getall("x-goog-hash", []):
        parts = (part.strip() for part in line.split(","))
        candidates += [part.removeprefix("md5=") for part in parts if part.startswith("md5=")]
    for text in filter(None, candidates):
        try:
            return base64.b64decode(text, validate=True)
        except binascii.Error:
            continue
    return None


async def _checked_chunks(response: aiohttp.ClientResponse, max_bytes: int) -> AsyncIterator[bytes]:
    """Raises ValueError beyond the limit, and at the end if the checksum does not match."""
    size = 0
    digest = hashlib.md5(usedforsecurity=False)
    async for chunk in response.content.iter_chunked(_CHUNK_BYTES):
        size += len(chunk)
        if size > max_bytes:
            raise ValueError(f"it is larger than {max_bytes} bytes")
        digest.update(chunk)
        yield chunk
    expected = expected_md5(response.headers)
    if expected is not None and digest.digest() != expected:
        raise ValueError("its MD5 differs from the server's")


def _temporary_file(directory: Path) -> BinaryIO:
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    return tempfile.TemporaryFile(dir=directory)


def _check_response(
    response: aiohttp.ClientResponse, requested: URL, allows_not_modified: bool
) -> None:
    display_url = requested.with_user(None)
    if requested.scheme == "https" and response.url.scheme != "https":
        raise SourceError(f"{display_url} redirects to a URL without https")
    if response.status == 304 and allows_not_modified:
        return
    if response.status in (404, 410):
        raise SourceNotFound(f"{display_url} does not exist (status {response.status})")
    if response.status != 200:
        raise SourceError(f"{display_url} responded with status {response.status}")
    if response.headers.get("Content-Encoding", "identity").lower() != "identity":
        raise SourceError(f"{display_url} sent a compressed response, which was not requested")
