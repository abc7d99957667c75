"""Scripts, styles and icons: compressed once, cached for a year under names with their digest.

They are sent without comments and indentation, and styles without the space around rules.
"""

import gzip
import hashlib
import mimetypes
import re
from collections.abc import Mapping
from functools import cache
from importlib import resources

import msgspec
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from agentjobs_runtime.problems import Problem

_PATH = "/static"
_DIGEST_LENGTH = 12
_YEAR_SECONDS = 365 * 24 * 3600
_COMMENTS = {
    "css": re.compile(rb"/\*.*?\*/\s*", re.DOTALL),
    "js": re.compile(rb"^\s*//.*\n", re.MULTILINE),
}
_INDENTATION = re.compile(rb"^ +", re.MULTILINE)
# No text in the styles contains these marks.
_SPACE_AROUND_RULES = re.compile(rb"\s*([{};])\s*")
_IMPORT = re.compile(rb'(?<=from "\./)[a-z_]+\.js(?=")')
_NAME_WITH_DIGEST = re.compile(rf"([\w-]+)\.([0-9a-f]{{{_DIGEST_LENGTH}}})(\.\w+)", re.ASCII)


class StaticFile(msgspec.Struct, frozen=True):
    content: bytes
    compressed: bytes
    digest: str
    media_type: str


def static_url(name: str) -> str:
    """The address of a file below the dashboard's prefix."""
    return f"{_PATH}/{_name_with_digest(name)}"


async def _serve(request: Request) -> Response:
    requested: str = request.path_params["name"]
    match = _NAME_WITH_DIGEST.fullmatch(requested)
    name = f"{match[1]}{match[3]}" if match else requested
    file = static_files().get(name)
    if file is None:
        raise Problem("not_found", "There is no such file.")
    # During an upgrade, a page may name a file of the other version. It gets the file there is.
    is_current = match is not None and match[2] == file.digest
    for_a_year = f"public, max-age={_YEAR_SECONDS}, immutable"
    headers = {
        "Cache-Control": for_a_year if is_current else "no-cache",
        "Vary": "Accept-Encoding",
        "X-Content-Type-Options": "nosniff",
    }
    if not _accepts_gzip(request.headers):
        return Response(file.content, headers=headers, media_type=file.media_type)
    headers["Content-Encoding"] = "gzip"
    return Response(file.compressed, headers=headers, media_type=file.media_type)


@cache
def static_files() -> Mapping[str, StaticFile]:
    """All files by their name, read once: an upgrade that replaces them changes nothing."""
    directory = resources.files("agentjobs.web.dashboard").joinpath("static")
    return {file.name: _static_file(file.name) for file in directory.iterdir() if file.is_file()}


@cache
def _static_file(name: str) -> StaticFile:
    content = resources.files("agentjobs.web.dashboard").joinpath("static", name).read_bytes()
    if comments := _COMMENTS.get(name.rpartition(".")[2]):
        content = _INDENTATION.sub(b"", comments.sub(b"", content))
    if name.endswith(".css"):
        content = _SPACE_AROUND_RULES.sub(rb"\1", content)
    if name.endswith(".js"):
        content = _IMPORT.sub(lambda match: _name_with_digest(match[0].decode()).encode(), content)
    digest = hashlib.sha256(content).hexdigest()[:_DIGEST_LENGTH]
    media_type = mimetypes.guess_type(name)[0] or "application/octet-stream"
    return StaticFile(content, gzip.compress(content, 9, mtime=0), digest, media_type)


def _name_with_digest(name: str) -> str:
    stem, dot, suffix = name.rpartition(".")
    return f"{stem}.{_static_file(name).digest}{dot}{suffix}"


def _accepts_gzip(headers: Headers) -> bool:
    codings = headers.get("accept-encoding", "").lower().replace(" ", "").split(",")
    return any(coding.partition(";")[0] == "gzip" and coding != "gzip;q=0" for coding in codings)


ROUTES: list[BaseRoute] = [Route(f"{_PATH}/{{name}}", _serve, methods=["GET"])]
