"""Targets: advisory feeds, versions, and the registries of packages."""

import io
import json
import zipfile
from collections.abc import Callable
from itertools import pairwise

from agentjobs.advisories.parse import read, read_heads
from agentjobs_dependencies.advisories.matching import affects, fixed_versions
from agentjobs_dependencies.advisories.model import BadAdvisory, parse_advisory
from agentjobs_dependencies.advisories.severity import find_severity
from agentjobs_dependencies.advisories.sources.archive import Archive
from agentjobs_dependencies.advisories.sources.source import Record, SourceError
from agentjobs_dependencies.registries.all_registries import REGISTRY_APIS, parse_response
from agentjobs_dependencies.registries.versions import InvalidResponse
from agentjobs_dependencies.versions.order import is_prerelease, parse_major, version_key
from tests.hostile.fuzz.documents import documents, json_documents, texts
from tests.hostile.fuzz.target import Target

_ECOSYSTEMS = tuple(REGISTRY_APIS)
_RECORD = {
    "id": "GHSA-1",
    "modified": "2024-01-01T00:00:00Z",
    "published": "2023-01-01T00:00:00Z",
    "aliases": ["CVE-2024-1"],
    "summary": "x",
    "details": "y",
    "severity": [{"type": "CVSS_V3", "score": "CVSS:3.1/AV:N/AC:L/PR:N/UI:N/S:U/C:N/I:N/A:H"}],
    "affected": [
        {
            "package": {"ecosystem": "PyPI", "name": "Shelf_"},
            "ranges": [
                {"type": "ECOSYSTEM", "events": [{"introduced": "0"}, {"fixed": "2.0"}]},
                {"type": "GIT", "events": [{"introduced": "00"}]},
            ],
            "versions": ["1.0", "3.0"],
            "database_specific": {"last_known_affected_version_range": "<= 1.9"},
        },
        {"package": {"ecosystem": "npm", "name": "@a/b"}, "versions": ["1.0.0-rc.1"]},
    ],
    "database_specific": {"severity": "HIGH"},
}


def _match(content: bytes) -> object:
    advisory = parse_advisory(content)
    if advisory is None:
        return None
    for item in advisory.affected:
        affects(advisory, item.ecosystem, item.name, "1.5")
        fixed_versions(advisory, item.ecosystem, item.name)
    return advisory, find_severity(advisory)


def _match_many(content: bytes) -> object:
    """As many ranges and versions as a record of this size can have."""
    count = len(content) // 64
    starts = ({"introduced": str(2 * number)} for number in range(count))
    ends = ({"fixed": str(2 * number + 1)} for number in range(count))
    events = [event for pair in zip(starts, ends, strict=True) for event in pair]
    affected = {
        "package": {"ecosystem": "PyPI", "name": "a"},
        "ranges": [{"type": "ECOSYSTEM", "events": events}],
        "versions": [f"{2 * number + 1}.5" for number in range(count)],
    }
    return _match(json.dumps({**_RECORD, "affected": [affected]}).encode())


def _read_feed(content: bytes) -> object:
    return read(read_heads([Record("a/GHSA-1.json", content)]), {}, "PyPI")


def _order(text: str) -> None:
    for ecosystem in _ECOSYSTEMS:
        versions = [part for part in (text, *text.split("|"), "1.0") if part]
        keys = [key for part in versions if (key := version_key(ecosystem, part)) is not None]
        ordered = sorted(keys)
        assert all(not second < first for first, second in pairwise(ordered))
        for part in versions:
            is_prerelease(ecosystem, part)
            parse_major(ecosystem, part)


def _archive(*entries: tuple[str, bytes]) -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in entries:
            archive.writestr(zipfile.ZipInfo(name), data)
    return content.getvalue()


def _read_archive(content: bytes) -> object:
    archive = Archive(io.BytesIO(content), "all.zip")
    return archive.count(), list(archive.items())


def _registry(ecosystem: str, content_type: str) -> Callable[[bytes], object]:
    name = {"Maven": "a:b", "Packagist": "a/b"}.get(ecosystem, "a-b")
    return lambda body: parse_response(ecosystem, name, content_type, bytearray(body))


_JSON_RESPONSES = {
    "npm": {"versions": {"1.0.0": {"deprecated": "x"}}},
    "Packagist": {"packages": {"a/b": [{"version": "v1.0"}, {"version": None}]}},
    "RubyGems": [{"number": "1.0", "platform": "ruby"}, {"number": "1.1", "platform": None}],
    "PyPI": {
        "files": [{"filename": "a_b-1.0-py3-none-any.whl", "hashes": {"sha256": "0"}, "yanked": ""}]
    },
}
_PAGE = b"""<!DOCTYPE html><a href="x/a-b-1.0.tar.gz#sha256=00" data-yanked="" >a</a>
<a class='b' href=a_b-2.0-py3-none-any.whl?x=1&amp;y>b</a>"""
_METADATA = b"""<?xml version="1.0"?><metadata><versioning><versions><version>1.0</version>
<version> 1.1 </version></versions></versioning></metadata>"""
_ZIP = _archive(("PyPI/a.json", json.dumps(_RECORD).encode()), ("../b.json", b""), ("c", b"x" * 99))

_RANGES_FRAME = (
    '{"id": "a", "modified": "", "affected": [{"package": {"ecosystem": "npm", "name": "a"},'
    '"ranges": [{"type": "SEMVER", "events": [{}{}]}], "versions": [{}"1"]}]}'
)

TARGETS = (
    Target(
        "OSV record",
        json_documents(_RECORD),
        _match,
        (BadAdvisory,),
        frames=(
            "{}",
            '{"id": "a", "modified": "{}"}',
            _RANGES_FRAME,
        ),
        units=('{"introduced": "1"},', '{"fixed": "2"},', '"1.0",'),
    ),
    Target("OSV ranges", documents(b"a" * 999), _match_many, max_bytes=512 * 1024),
    Target("OSV feed", json_documents(_RECORD), _read_feed),
    Target(
        "versions",
        texts(
            "1.0|1.0.0-rc.1|v2",
            "1!2.0a1.post2.dev3+l|1-2",
            "1.0-SNAPSHOT|1.0.ga|1-a1",
            "2.x-dev|1.0RC1",
            tokens=(
                "-",
                ".",
                "+",
                "rc",
                "alpha",
                ".0",
                "v",
                "a",
                "|",
                "!",
                "dev",
                "post",
                "\u0661",
            ),
        ),
        _order,
        units=("1.", "1-", "a1", "0.", "1|"),
        is_text=True,
    ),
    Target(
        "advisory archive",
        documents(_ZIP, _archive(("a.json", b""))),
        _read_archive,
        (SourceError,),
    ),
    *(
        Target(
            f"registry {ecosystem}",
            json_documents(value),
            _registry(ecosystem, "application/json"),
            (InvalidResponse,),
            frames=("{}", '{"a": {}', '{"versions": {"{}": {}}}'),
        )
        for ecosystem, value in _JSON_RESPONSES.items()
    ),
    Target(
        "registry PyPI page",
        documents(
            _PAGE, tokens=(b"<a ", b"href=", b"&#", b"&#x", b"&amp", b".whl", b"data-yanked")
        ),
        _registry("PyPI", "text/html"),
        (InvalidResponse,),
        frames=("{}", "<a {}", '<a href="{}', '<a href="a{}.whl">', "<a href='&#{};'>"),
        units=(
            "<a ",
            '<a b="',
            "<a b='",
            "a=b ",
            '<a href="a-b-1.whl">',
            "&#",
            "a=",
            '<a "',
            "='\"'",
        ),
    ),
    Target(
        "registry crates.io",
        documents(b'{"vers": "1.0.0", "yanked": false}\n{"vers": "2.0.0"}\n'),
        _registry("crates.io", "text/plain"),
        (InvalidResponse,),
        units=('{"vers":"1"}\n',),
    ),
    Target(
        "registry Go",
        documents(b"v1.0.0\nv2.0.0+incompatible\n"),
        _registry("Go", "text/plain"),
        (InvalidResponse,),
        units=("v1\n",),
    ),
    Target(
        "registry Maven",
        documents(_METADATA, tokens=(b"<!DOCTYPE a>", b"<!ENTITY a 'b'>", b"&a;", b"<version>")),
        _registry("Maven", "text/xml"),
        (InvalidResponse,),
        frames=("{}", "<metadata>{}", "<metadata><versioning><versions><version>{}", "<a {}"),
        units=("<a>", "<a/>", "a='b' ", "&lt;", "<version/>", "<version>1</version>"),
    ),
)
