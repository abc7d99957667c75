"""Downloads a file from a registry, within limits of size and time."""

import http.client
import lzma
import struct
import tarfile
import time
import urllib.error
import urllib.request
import zipfile
import zlib

from agentjobs_dependencies.fixes.model import CannotFix

TIMEOUT_SECONDS = 60
_CHUNK_BYTES = 256 * 1024
# What the standard library raises for a damaged archive or class file.
DAMAGED_FILE = (
    *(tarfile.TarError, zipfile.BadZipFile, zlib.error, lzma.LZMAError, struct.error),
    *(OSError, EOFError, ValueError, RuntimeError, OverflowError),
)


class DownloadFailed(CannotFix):
    """`status` is that of the response, or None if there was none."""

    def __init__(self, message: str, status: int | None = None) -> None:
        super().__init__(message)
        self.status = status


def download(url: str, max_bytes: int, timeout_seconds: float = TIMEOUT_SECONDS) -> bytes:
    """The whole file. `timeout_seconds` is for all of it, because a registry may send slowly."""
    name = url.rstrip("/").rpartition("/")[2]
    deadline = time.monotonic() + timeout_seconds
    content = bytearray()
    try:
        with urllib.request.urlopen(url, timeout=timeout_seconds) as response:  # noqa: S310 - the operator's registry
            while chunk := response.read1(_CHUNK_BYTES):
                content += chunk
                if len(content) > max_bytes:
                    raise DownloadFailed(f"{name} is larger than {max_bytes // 1024**2} MiB")
                if time.monotonic() > deadline:
                    raise TimeoutError(f"not complete after {timeout_seconds:.0f} seconds")
            missing = int(response.headers.get("Content-Length") or len(content)) - len(content)
            if missing:
                raise http.client.IncompleteRead(b"", missing)
    except urllib.error.HTTPError as error:
        raise DownloadFailed(f"the registry does not serve {name}: {error}", error.code) from None
    except (OSError, ValueError, http.client.HTTPException) as error:
        raise DownloadFailed(f"the registry does not serve {name}: {error!r}") from None
    return bytes(content)
