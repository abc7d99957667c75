"""Adds a module's checksums to go.sum, computed from the registry's own files."""

import base64
import hashlib
import io
import re
import zipfile
from pathlib import Path

from agentjobs_dependencies.fixes import tree
from agentjobs_dependencies.fixes.download import DAMAGED_FILE, download
from agentjobs_dependencies.fixes.go.requirements import (
    add_v,
    is_at_least,
    is_newer_go,
    read_requirements,
)
from agentjobs_dependencies.fixes.model import CannotFix, Fix

_TIMEOUT_SECONDS = 300
_MAX_BYTES = 256 * 1024 * 1024
_MAX_UNPACKED_BYTES = 1024**3
_CHUNK_BYTES = 1024 * 1024


def add_module(fix: Fix, go_mod: str, go_sum: Path) -> None:
    """`go_mod` is the text with the new version.

    Raises CannotFix if the new version requires more than the old one and go.mod, because only the
    go command can select versions, or a newer Go.
    """
    version = add_v(fix.new)
    manifest = _fetch(fix, version, "mod")
    _check_requirements(manifest, go_mod, fix)
    lines = [
        f"{fix.package} {version} {_hash_of_archive(_fetch(fix, version, 'zip'))}",
        f"{fix.package} {version}/go.mod {_hash({'go.mod': hashlib.sha256(manifest).hexdigest()})}",
    ]
    tree.write(go_sum, _insert(tree.read(go_sum), fix.package, lines))


def _check_requirements(manifest: bytes, go_mod: str, fix: Fix) -> None:
    if is_newer_go(manifest.decode("utf-8", "replace"), go_mod):
        raise CannotFix(f"{fix.package} {fix.new} needs a newer Go than go.mod names: raise it")
    selected = read_requirements(go_mod)
    before = read_requirements(_fetch(fix, add_v(fix.old), "mod").decode("utf-8", "replace"))
    for module, version in read_requirements(manifest.decode("utf-8", "replace")).items():
        known = (selected.get(module, ""), before.get(module, ""))
        if not any(is_at_least(listed, version) for listed in known):
            raise CannotFix(f"{fix.package} {fix.new} requires {module} {version}")


def _hash_of_archive(content: bytes) -> str:
    digests: dict[str, str] = {}
    unpacked = 0
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            for entry in archive.infolist():
                digest = hashlib.sha256()
                with archive.open(entry) as file:
                    while chunk := file.read(_CHUNK_BYTES):
                        unpacked += len(chunk)
                        if unpacked > _MAX_UNPACKED_BYTES:
                            raise CannotFix("the registry's archive is too large")
                        digest.update(chunk)
                digests[entry.filename] = digest.hexdigest()
    except DAMAGED_FILE as error:
        raise CannotFix(f"the registry's archive cannot be read: {error}") from None
    return _hash(digests)


def _hash(digests: dict[str, str]) -> str:
    """Go's hash of a list of files."""
    lines = "".join(f"{digests[name]}  {name}\n" for name in sorted(digests))
    return f"h1:{base64.b64encode(hashlib.sha256(lines.encode()).digest()).decode()}"


def _insert(text: str, module: str, lines: list[str]) -> str:
    """Before the first later module, because go.sum is sorted."""
    line_end = "\r\n" if "\r\n" in text else "\n"
    existing = text.splitlines()
    added = [line for line in lines if line not in existing]
    position = next(
        (index for index, line in enumerate(existing) if line.partition(" ")[0] > module),
        len(existing),
    )
    return line_end.join([*existing[:position], *added, *existing[position:], ""])


def _escape(text: str) -> str:
    """Escapes a name as module proxies do, which may not distinguish case."""
    return re.sub("[A-Z]", lambda match: f"!{match[0].lower()}", text)


def _fetch(fix: Fix, version: str, kind: str) -> bytes:
    url = f"{fix.registry.rstrip('/')}/{_escape(fix.package)}/@v/{_escape(version)}.{kind}"
    return download(url, _MAX_BYTES, _TIMEOUT_SECONDS)
