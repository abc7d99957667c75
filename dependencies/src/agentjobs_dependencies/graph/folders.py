"""Groups the files of a module graph by folders, for pictures and lists. Pure.

The path of a group is a folder, `folder/*` for the files directly in a folder, or a file.
"""

import heapq
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import accumulate
from posixpath import commonprefix

import msgspec

# Pictures have at most this many groups of files.
MAX_GROUPS = 40
# Folders are divided until there are so many, and single files shown if there are very few.
_ENOUGH_GROUPS, _FEW_GROUPS = 24, 12
_DIRECT = "/*"
# Searches find folders up to this depth.
_MAX_DEPTH = 30


class Group(msgspec.Struct, frozen=True):
    """`files` are positions in the graph. If other groups have parts of the folder, this one has
    the rest of it; the path of the repository is empty."""

    path: str
    files: tuple[int, ...]

    @property
    def is_file(self) -> bool:
        return len(self.files) == 1 and not self.path.endswith(_DIRECT)


def files_in(names: Sequence[str], path: str) -> list[int]:
    """The files below a folder, or directly in it if the path ends with `/*`."""
    if path == _DIRECT[1:]:
        return [at for at, name in enumerate(names) if "/" not in name]
    folder = path.removesuffix("*") if path.endswith(_DIRECT) else f"{path}/" if path else ""
    inside = [at for at, name in enumerate(names) if name.startswith(folder)]
    if path.endswith(_DIRECT):
        return [at for at in inside if "/" not in names[at][len(folder) :]]
    return inside


def search_folders(names: Sequence[str], text: str, limit: int) -> dict[str, int]:
    """Folders whose own name contains the text, ignoring case, with their numbers of files.

    The largest first.
    """
    needle = text.strip().lower()
    totals: Counter[str] = Counter()
    for folder, number in Counter([name.rpartition("/")[0] for name in names]).items():
        parts = folder.split("/", _MAX_DEPTH)[:_MAX_DEPTH] if folder else []
        for parent in accumulate(parts, "{}/{}".format):
            totals[parent] += number
    matches = [folder for folder in totals if needle in folder.rpartition("/")[2].lower()]
    largest = heapq.nsmallest(limit, matches, key=lambda folder: (-totals[folder], folder))
    return {folder: totals[folder] for folder in largest}


def group_files(
    names: Sequence[str],
    files: Sequence[int],
    edges: Iterable[tuple[int, int]],
    limit: int = MAX_GROUPS,
) -> list[Group]:
    """Groups of files, at most `limit`, by path.

    Divides the largest folders that have folders and whose parts fit. If a few large folders are
    left, the parts of the largest with the most edges are a group each.
    """
    if len(files) <= limit:
        return [Group(names[at], (at,)) for at in sorted(files, key=names.__getitem__)]
    groups = [_group(names, files)]
    while len(groups) < _ENOUGH_GROUPS:
        largest_first = sorted(groups, key=lambda group: (-len(group.files), group.path))
        divided = ((group, _divide(names, group)) for group in largest_first)
        fitting = (
            (group, parts)
            for group, parts in divided
            if 1 < len(parts) <= limit - len(groups) + 1 and not all(p.is_file for p in parts)
        )
        group, parts = next(fitting, (None, []))
        if group is None:
            break
        groups.remove(group)
        groups += parts
    if len(groups) < _FEW_GROUPS:
        largest = max(groups, key=lambda group: len(group.files))
        parts, rest = _most_linked(_divide(names, largest), edges, limit - len(groups))
        groups.remove(largest)
        groups += [*parts, Group(largest.path, rest)] if rest else parts
    return sorted(groups, key=lambda group: (group.path == "", group.path))


def groups_of_files(groups: Sequence[Group], count: int) -> list[int]:
    """Returns the position of the group, or -1, for each of `count` files."""
    group_of = [-1] * count
    for at, group in enumerate(groups):
        for file in group.files:
            group_of[file] = at
    return group_of


def link_groups(
    group_of: Sequence[int], edges: Iterable[tuple[int, int]]
) -> dict[tuple[int, int], int]:
    """The number of imports between groups, by their positions."""
    pairs = Counter([(group_of[start], group_of[end]) for start, end in edges])
    return {pair: number for pair, number in pairs.items() if pair[0] != pair[1] and -1 not in pair}


def common_folder(paths: Sequence[str]) -> str:
    """The deepest folder, ending with `/`, that has more than two thirds of the paths."""
    folder = ""
    while True:
        following = Counter(
            folder + path[len(folder) :].partition("/")[0] + "/"
            for path in paths
            if path.startswith(folder) and "/" in path[len(folder) :]
        )
        if not following:
            return folder
        next_folder, number = min(following.items(), key=lambda item: (-item[1], item[0]))
        if 3 * number <= 2 * len(paths):
            return folder
        folder = next_folder


def _group(names: Sequence[str], files: Sequence[int]) -> Group:
    """Names the group after the deepest folder that has all of the files."""
    if len(files) == 1:
        return Group(names[files[0]], tuple(files))
    shared = commonprefix([names[at] for at in files])
    return Group(shared.rpartition("/")[0], tuple(files))


def _divide(names: Sequence[str], group: Group) -> list[Group]:
    """One group for each folder inside, and one for the files directly in the folder.

    Files that already are directly in their folder become a group each.
    """
    if group.path.endswith(_DIRECT) or group.path == _DIRECT[1:]:
        return [Group(names[at], (at,)) for at in group.files]
    start = len(group.path) + 1 if group.path else 0
    parts: dict[str, list[int]] = {}
    for at in group.files:
        folder, slash, _ = names[at][start:].partition("/")
        parts.setdefault(folder + slash if slash else "", []).append(at)
    direct = parts.pop("", [])
    groups = [_group(names, files) for files in parts.values()]
    if not groups:
        return [Group(names[at], (at,)) for at in direct]
    if len(direct) == 1:
        groups.append(_group(names, direct))
    elif direct:
        groups.append(Group(f"{group.path}{_DIRECT}".removeprefix("/"), tuple(direct)))
    return groups


def _most_linked(
    parts: Sequence[Group], edges: Iterable[tuple[int, int]], number: int
) -> tuple[list[Group], tuple[int, ...]]:
    """The groups with the most edges, and the files of the others."""
    degrees = Counter([end for edge in edges for end in edge])
    ranked = sorted(parts, key=lambda group: (-sum(degrees[at] for at in group.files), group.path))
    return ranked[:number], tuple(at for group in ranked[number:] for at in group.files)
