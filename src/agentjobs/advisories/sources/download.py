"""Bounded downloads over HTTP: what came is what the server meant to send, or an error."""

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

from agentjobs.advisories.sources.source import MAX_ARCHIVE_BYTES, SourceError, SourceNotFound
from agentjobs.outbound.guard.addresses import BlockedAddress

_TIMES = aiohttp.ClientTimeout(total=3_600, sock_connect=15, sock_read=60)
_CHUNK_BYTES = 1024**2
_MAX_REDIRECTS = 5


@asynccontextmanager
async def ask(
    session: aiohttp.ClientSession, url: URL, headers: Mapping[str, str] | None = None
) -> AsyncIterator[aiohttp.ClientResponse]:
    """An answer of 200, or 304 where that was asked for; everything else is a SourceError."""
    shown = url.with_user(None)
    # The session undoes no compression.
    headers = {"Accept-Encoding": "identity", **(headers or {})}
    try:
        async with session.get(
            url, headers=headers, timeout=_TIMES, max_redirects=_MAX_REDIRECTS
        ) as answer:
            _check_answer(answer, url, "If-None-Match" in headers)
            yield answer
    except aiohttp.ClientConnectorError as error:
        if isinstance(error.os_error, BlockedAddress):
            raise SourceError(f"{shown} may not be reached: {error.os_error}") from None
        raise SourceError(f"{shown} could not be reached: {error.os_error}") from None
    except TimeoutError:
        raise SourceError(f"{shown} took too long to answer") from None
    except (aiohttp.ClientError, ConnectionError) as error:
        reason = str(error) or type(error).__name__
        raise SourceError(f"{shown} was not received whole: {reason}") from None


async def save(answer: aiohttp.ClientResponse, directory: Path) -> BinaryIO:
    """A file without a name: whatever happens to us, nothing of it remains."""
    shown = answer.url.with_user(None)
    if (answer.content_length or 0) > MAX_ARCHIVE_BYTES:
        raise SourceError(f"{shown} is larger than an archive may be")
    try:
        file = await asyncio.to_thread(_temporary_file, directory)
    except OSError as error:
        raise SourceError(f"no room in {directory}: {error.strerror}") from None
    try:
        await _fill(file, answer)
    except OSError as error:
        file.close()
        if isinstance(error, (TimeoutError, ConnectionError, aiohttp.ClientError)):
            raise
        raise SourceError(f"{shown} could not be kept: {error.strerror}") from None
    except BaseException:
        file.close()
        raise
    return file


async def read_bounded(answer: aiohttp.ClientResponse, most_bytes: int) -> bytes:
    """Raises ValueError, in words, for what is too large or not what was meant to be sent."""
    data = bytearray()
    async for chunk in answer.content.iter_chunked(64 * 1024):
        data += chunk
        if len(data) > most_bytes:
            raise ValueError(f"it is larger than {most_bytes} bytes")
    wanted = expected_md5(answer.headers)
    if wanted is not None and hashlib.md5(data, usedforsecurity=False).digest() != wanted:
        raise ValueError("its MD5 is not the one that the server told")
    return bytes(data)


def expected_md5(headers: "CIMultiDictProxy[str]") -> bytes | None:
    """As the store of OSV's bucket tells it, or as any server may; None if there is none."""
    if headers.get("x-goog-stored-content-encoding", "identity") != "identity":
        return None
    told = [headers.get("Content-MD5", "")]
    for line in headers.getall("x-goog-hash", []):
        parts = (part.strip() for part in line.split(","))
        told += [part.removeprefix("md5=") for part in parts if part.startswith("md5=")]
    for text in filter(None, told):
        try:
            return base64.b64decode(text, validate=True)
        except binascii.Error:
            continue
    return None


async def _fill(file: BinaryIO, answer: aiohttp.ClientResponse) -> None:
    shown = answer.url.with_user(None)
    size = 0
    digest = hashlib.md5(usedforsecurity=False)
    async for chunk in answer.content.iter_chunked(_CHUNK_BYTES):
        size += len(chunk)
        if size > MAX_ARCHIVE_BYTES:
            raise SourceError(f"{shown} is larger than an archive may be")
        await asyncio.to_thread(_keep, file, digest, chunk)
    wanted = expected_md5(answer.headers)
    if wanted is not None and digest.digest() != wanted:
        raise SourceError(f"{shown}: its MD5 is not the one that the server told")


def _keep(file: BinaryIO, digest: "hashlib._Hash", chunk: bytes) -> None:
    file.write(chunk)
    digest.update(chunk)


def _temporary_file(directory: Path) -> BinaryIO:
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    return tempfile.TemporaryFile(dir=directory)


def _check_answer(answer: aiohttp.ClientResponse, asked: URL, may_be_same: bool) -> None:
    shown = asked.with_user(None)
    if asked.scheme == "https" and answer.url.scheme != "https":
        raise SourceError(f"{shown} sends us to an address without https, which is not followed")
    if answer.status == 304 and may_be_same:
        return
    if answer.status in (404, 410):
        raise SourceNotFound(f"{shown} is not there (status {answer.status})")
    if answer.status != 200:
        raise SourceError(f"{shown} answered with status {answer.status}")
    if answer.headers.get("Content-Encoding", "identity").lower() != "identity":
        raise SourceError(f"{shown} answered with a compression that nobody asked for")
