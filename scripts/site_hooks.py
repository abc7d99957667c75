"""Hooks of MkDocs: pages from outside of docs/, and Markdown that code hosts show differently."""

import posixpath
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

PROJECT = Path(__file__).resolve().parent.parent
REFERENCE = PROJECT / "build" / "reference"
# Files of the repository that are pages of the site, by their path in it.
PAGES = {
    "CHANGELOG.md": "project/changelog.md",
    "CONTRIBUTING.md": "project/contributing.md",
    "README.md": "index.md",
    "SECURITY.md": "project/security.md",
    "clients/python/README.md": "clients/python.md",
    "clients/typescript/README.md": "clients/typescript.md",
}
ICON = PROJECT / "src/agentjobs/web/dashboard/static/icon.svg"
_FENCE = re.compile(r"^( *)(```+).*?^\1\2 *$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\]\((?!https?:|mailto:|#)([^)#\s]+)(#[^)\s]*)?\)")
_PICTURE = re.compile(
    r'<picture>\s*<source [^>]*srcset="(?P<dark>[^"]+)">\s*'
    r'<img src="(?P<light>[^"]+)" alt="(?P<alt>[^"]+)" width="(?P<width>\d+)">\s*</picture>'
)


def on_files(files: Files, config: Any) -> Files:
    for path in sorted(REFERENCE.rglob("*.md")):
        uri = f"reference/{path.relative_to(REFERENCE).as_posix()}"
        files.append(File.generated(config, uri, abs_src_path=str(path)))
    for path, uri in PAGES.items():
        if uri not in files.src_uris:
            files.append(File.generated(config, uri, abs_src_path=str(PROJECT / path)))
    files.append(File.generated(config, "images/icon.svg", abs_src_path=str(ICON)))
    files.append(File.generated(config, "decisions/index.md", content=_list_decisions()))
    for path in _linked_sources(files):
        files.append(File.generated(config, _source_uri(path), content=_show_source(path)))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    directory = _directory_of(page.file)

    def relink(match: re.Match[str]) -> str:
        uri = _uri_of(_resolve(directory, match[1]))
        relative = posixpath.relpath(uri, posixpath.dirname(page.file.src_uri) or ".")
        return f"]({relative}{match[2] or ''})"

    return _outside_of_code(markdown, lambda text: _LINK.sub(relink, _PICTURE.sub(_images, text)))


def _outside_of_code(markdown: str, change: Callable[[str], str]) -> str:
    parts, end = [], 0
    for fence in _FENCE.finditer(markdown):
        parts += [change(markdown[end : fence.start()]), fence[0]]
        end = fence.end()
    return "".join([*parts, change(markdown[end:])])


def _images(match: re.Match[str]) -> str:
    """Two pictures, of which the theme shows the one of the chosen color scheme."""
    return "\n".join(
        f"![{match['alt']}]({match[scheme]}#only-{scheme}){{ width={match['width']} }}"
        for scheme in ("light", "dark")
    )


def _directory_of(file: File) -> str:
    """The directory, in the repository, of the file that a page was made of."""
    for path, uri in PAGES.items():
        if uri == file.src_uri and uri != "index.md":
            return posixpath.dirname(path)
    return posixpath.dirname(f"docs/{file.src_uri}")


def _resolve(directory: str, target: str) -> str:
    return posixpath.normpath(posixpath.join(directory, target))


def _uri_of(path: str) -> str:
    if path.startswith("docs/"):
        return "decisions/index.md" if path == "docs/decisions" else path.removeprefix("docs/")
    if path in PAGES:
        return PAGES[path]
    return _source_uri(path) if (PROJECT / path).exists() else path


def _linked_sources(files: Files) -> list[str]:
    paths = {
        path
        for file in files
        if file.src_uri.endswith(".md")
        for target in _targets(file.content_string)
        if not (path := _resolve(_directory_of(file), target)).startswith("docs/")
    }
    return sorted(path for path in paths if path not in PAGES and (PROJECT / path).exists())


def _targets(markdown: str) -> Iterator[str]:
    return (match[1] for match in _LINK.finditer(_FENCE.sub("", markdown)))


def _source_uri(path: str) -> str:
    return f"files/{path}.md"


def _show_source(path: str) -> str:
    """A file, or the files of a directory, as a page."""
    source = PROJECT / path
    shown = sorted(source.rglob("*")) if source.is_dir() else [source]
    # A search should find what explains the file.
    parts = ["---\nsearch:\n  exclude: true\n---", f"# `{path}`"]
    for file in shown:
        if file.is_file():
            title = f"## `{file.relative_to(source)}`\n\n" if source.is_dir() else ""
            parts.append(f"{title}````text\n{file.read_text(encoding='utf-8').rstrip()}\n````")
    return "\n\n".join(parts)


def _list_decisions() -> str:
    lines = ["# Decisions", "", "Choices that had a real alternative, each on one page.", ""]
    for path in sorted((PROJECT / "docs" / "decisions").glob("0*.md")):
        title = path.read_text(encoding="utf-8").partition("\n")[0].lstrip("# ")
        lines.append(f"- [{title}]({path.name})")
    return "\n".join(lines)
