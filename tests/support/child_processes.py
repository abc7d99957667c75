"""The children of a process, as the kernel lists them for its threads."""

from pathlib import Path


def children_of(pid: int | str = "self") -> set[int]:
    """Includes processes that have ended and are not reaped."""
    children: set[int] = set()
    for thread in Path(f"/proc/{pid}/task").iterdir():
        try:
            children.update(map(int, (thread / "children").read_text().split()))
        except OSError:
            continue  # The thread has ended, and its children belong to another one.
    return children


def descendants_of(pid: int) -> set[int]:
    try:
        children = children_of(pid)
    except OSError:
        return set()
    return children.union(*map(descendants_of, children))
