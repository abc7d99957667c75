"""`agentjobs repos graph`: modules, packages and what is known against them, for other programs."""

import sys
from collections.abc import Callable, Iterable, Iterator
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from agentjobs.cli.admin import Admin, with_store
from agentjobs.cli.options import DEFAULT_ORG, DataDir, Org
from agentjobs.cli.output import print_note
from agentjobs.cli.repos.commands import Name, repos

if TYPE_CHECKING:
    from agentjobs.advisories.dependency_advisories import DependencyAdvisory
    from agentjobs.advisories.findings import FindingView
    from agentjobs.inventory.dependencies import DependencyView
    from agentjobs.repos.queries import RepoView
    from agentjobs_dependencies.imports.model import ModuleGraph


class Format(StrEnum):
    JSON = "json"
    DOT = "dot"
    CYCLONEDX = "cyclonedx"


class Index(NamedTuple):
    """All that is known of one repository."""

    repo: "RepoView"
    graph: "ModuleGraph"
    dependencies: "list[DependencyView]"
    advisories: "dict[int, list[DependencyAdvisory]]"
    findings: "list[FindingView]"


@repos.command("graph")
def show_graph(
    name: Name,
    format_: Annotated[
        Format,
        typer.Option(
            "--format", help="json: everything; dot: for Graphviz; cyclonedx: an SBOM (1.6, JSON)."
        ),
    ] = Format.JSON,
    output: Annotated[
        Path | None,
        typer.Option("--output", metavar="FILE", help="Write it there instead of to stdout."),
    ] = None,
    org: Org = DEFAULT_ORG,
    data_dir: DataDir = None,
) -> None:
    """Write what a repository consists of and depends on, as of its last index."""
    index = with_store(data_dir, lambda admin: _load(admin, org, name))
    pieces = _WRITERS[format_](index)
    if output is None:
        _write(pieces)
        return
    with output.open("w", encoding="utf-8") as file:
        file.writelines(pieces)
    print_note(f"{output} describes {name} at {index.repo.indexed_commit}.")


async def _load(admin: Admin, org: str, name: str) -> Index:
    from agentjobs.advisories.dependency_advisories import find_advisories
    from agentjobs.advisories.findings import findings_of_repo
    from agentjobs.inventory.dependencies import check_indexed, list_dependencies
    from agentjobs.inventory.stored_graph import load_graph
    from agentjobs_runtime.problems import Problem

    _, repo = await admin.find_repo(org, name)
    check_indexed(repo)
    graph = await load_graph(admin.db, repo.id)
    if graph is None:
        raise Problem(
            "repo_indexing",
            f"{name} was last indexed by an older version; a running service does it again.",
        )
    dependencies = await list_dependencies(admin.db, repo.id)
    return Index(
        repo,
        graph,
        dependencies,
        await find_advisories(admin.db, repo.id, dependencies),
        await findings_of_repo(admin.db, repo.id),
    )


def _write(pieces: Iterable[str]) -> None:
    sys.stdout.writelines(pieces)
    sys.stdout.flush()


def _as_json(index: Index) -> Iterator[str]:
    from agentjobs.advisories.dependency_advisories import dependency_document
    from agentjobs.inventory.graph_text import json_pieces

    header = {"repo": index.repo.full_name, "commit": index.repo.indexed_commit}
    documents = (
        dependency_document(dependency, index.advisories.get(dependency.position, ()))
        for dependency in index.dependencies
    )
    return json_pieces(header, index.graph, documents)


def _as_dot(index: Index) -> Iterator[str]:
    from agentjobs.inventory.graph_text import dot_lines

    return dot_lines(index.repo.full_name, index.graph, index.dependencies)


def _as_cyclonedx(index: Index) -> Iterator[str]:
    from agentjobs_dependencies.sbom import Subject, sbom_pieces

    subject = Subject(index.repo.id, index.repo.full_name, index.repo.indexed_commit or "")
    return sbom_pieces(subject, index.dependencies, index.findings)


_WRITERS: dict[Format, Callable[[Index], Iterator[str]]] = {
    Format.JSON: _as_json,
    Format.DOT: _as_dot,
    Format.CYCLONEDX: _as_cyclonedx,
}
