"""Shows figures as tables and as JSON."""

import json
import os
import platform
import sqlite3
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

Row = Mapping[str, Any]


def show(title: str, rows: Sequence[Row]) -> None:
    names = list(rows[0])
    lines = [names, *([_text(row[name]) for name in names] for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(names))]
    print(f"\n{title}")
    for line in lines:
        print("  " + "  ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True)))


def write_json(path: Path, figures: Mapping[str, Any]) -> None:
    path.write_text(json.dumps(figures, indent=2) + "\n")


def machine() -> dict[str, Any]:
    return {
        "cores": os.cpu_count(),
        # Taken before the measurement: above 0.5, other load distorts the figures.
        "load_average": round(os.getloadavg()[0], 2),
        "python": platform.python_version(),
        "kernel": platform.release(),
        "sqlite": sqlite3.sqlite_version,
    }


def verdict(*, met: bool) -> str:
    return "met" if met else "MISSED"


def _text(value: Any) -> str:
    return f"{value:,.2f}" if isinstance(value, float) else str(value)
