"""Links and lists of modules for the pages of a graph. Pure functions."""

from urllib.parse import urlencode

import msgspec

from agentjobs_dependencies.graph.views import Neighbors

MAX_LISTED = 500


class Node(msgspec.Struct, frozen=True):
    """A link to a page of the graph; `note` follows its name."""

    name: str
    href: str = ""
    note: str = ""


class NodeList(msgspec.Struct, frozen=True):
    """`total` also counts neighbors that are not in `nodes`; `empty_text` replaces empty lists."""

    id: str
    title: str
    nodes: tuple[Node, ...]
    total: int
    empty_text: str

    @property
    def more(self) -> int:
        return self.total - len(self.nodes)


def address(path: str, **query: str) -> str:
    return f"{path}?{urlencode(query, errors='replace')}"


def address_of_module(path: str, name: str, *, external: bool = False) -> str:
    return address(path, **{"external" if external else "focus": name})


def list_neighbors(path: str, neighbors: Neighbors, *, external: bool) -> tuple[NodeList, ...]:
    """What imports a module, and what it imports; an external module has no imports."""
    lists = (
        ("importers", "Imported by", neighbors.importers, "No file imports this module."),
        ("imported", "Imports", neighbors.imported, "No imports."),
        ("externals", "External imports", neighbors.externals, "No external imports."),
    )
    return tuple(
        NodeList(
            id_,
            title,
            tuple(
                Node(name, address_of_module(path, name, external=id_ == "externals"))
                for name in names[:MAX_LISTED]
            ),
            len(names),
            empty_text,
        )
        for id_, title, names, empty_text in lists[: 1 if external else 3]
    )
