"""Made-up advisory records in OSV's format, and sources that contain them."""

import io
import json
import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

FIRST = "2024-01-01T00:00:00Z"
LATER = "2024-02-01T00:00:00.5Z"
CVSS_HIGH = "CVSS:3.1/AV:N/AC:L/PR:N/UI:N/S:U/C:N/I:N/A:H"


def record(
    identifier: str,
    package: str = "shelf",
    fixed: str = "2.0",
    *,
    ecosystem: str = "PyPI",
    modified: str = FIRST,
    aliases: Iterable[str] = (),
    vector: str = "",
    **fields: Any,
) -> dict[str, Any]:
    """It affects all versions before `fixed`."""
    events = [{"introduced": "0"}, {"fixed": fixed}]
    severity = [{"type": "CVSS_V3", "score": vector}] if vector else []
    return {
        "id": identifier,
        "modified": modified,
        "aliases": list(aliases),
        "severity": severity,
        "affected": [
            {
                "package": {"ecosystem": ecosystem, "name": package},
                "ranges": [{"type": "ECOSYSTEM", "events": events}],
            }
        ],
        **fields,
    }


def packed(records: Iterable[Mapping[str, Any]], **others: bytes) -> bytes:
    """The records in the format of `all.zip`."""
    memory = io.BytesIO()
    with zipfile.ZipFile(memory, "w", zipfile.ZIP_DEFLATED) as archive:
        for record in records:
            archive.writestr(f"{record['id']}.json", json.dumps(record))
        for name, content in others.items():
            archive.writestr(name, content)
    return memory.getvalue()


def changes(records: Iterable[Mapping[str, Any]]) -> str:
    """The records in the format of `modified_id.csv`."""
    lines = sorted((f"{record['modified']},{record['id']}\n" for record in records), reverse=True)
    return "".join(lines)


def write_bucket(directory: Path, ecosystem: str, records: Iterable[Mapping[str, Any]]) -> None:
    """Write the whole layout and delete the previous files."""
    folder = directory / ecosystem
    folder.mkdir(parents=True, exist_ok=True)
    for path in folder.iterdir():
        path.unlink()
    records = list(records)
    for record in records:
        (folder / f"{record['id']}.json").write_text(json.dumps(record))
    (folder / "modified_id.csv").write_text(changes(records))
    (folder / "all.zip").write_bytes(packed(records))
