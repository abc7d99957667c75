"""Writes the generated pages of the documentation site into a directory."""

import json
import sys
from pathlib import Path

from scripts.reference.api import render_api
from scripts.reference.commands import render_commands
from scripts.reference.settings import render_settings

DOCS = Path(__file__).parents[2] / "docs"


def main(target: str) -> None:
    document = json.loads((DOCS / "openapi.json").read_text(encoding="utf-8"))
    pages = {f"api/{name}": text for name, text in render_api(document).items()}
    pages["commands.md"] = render_commands()
    pages["settings.md"] = render_settings((DOCS / "operating.md").read_text(encoding="utf-8"))
    for name, text in pages.items():
        path = Path(target, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1])
