"""Whose turn it is: where the last look ended, among organizations and among their endpoints.

Hints in memory, of one sender and one kind of attempts. Forgotten they cost fairness for a moment,
and nothing else.
"""

from collections.abc import Sequence
from typing import NamedTuple


class Place(NamedTuple):
    """The endpoint behind which to go on, "" for the beginning, and how many waited last time."""

    after: str = ""
    width: int = 1

    def share_of(self, room: int) -> int:
        """How many to look at of each endpoint, so that all together fill the room."""
        return max(1, -(-room // self.width))


class Cursor:
    def __init__(self) -> None:
        self.after = ""
        self._places: dict[str, Place] = {}
        self._is_cut = False

    @property
    def is_in_the_middle(self) -> bool:
        """The last turn did not look at all who wait."""
        return self._is_cut

    def place_of(self, organization_id: str) -> Place:
        return self._places.get(organization_id, Place())

    def move(self, after: str) -> None:
        """To the organizations behind `after`. What was before the old place was not looked at."""
        self._is_cut = bool(self.after or after)
        self.after = after

    def leave(
        self,
        organization_id: str,
        *,
        seen: Sequence[str],
        ready: set[str],
        served: set[str],
        was_cut: bool,
        was_short: bool,
    ) -> None:
        """Before the first endpoint that there was no room for; else behind the last one.

        `was_cut`: not all endpoints were seen; `was_short`: nor all that one of them may have.
        """
        began = self.place_of(organization_id)
        passed_over = next((n for n, each in enumerate(seen) if each in ready - served), None)
        if passed_over is not None:
            after = seen[passed_over - 1] if passed_over else began.after
        else:
            after = seen[-1] if was_cut else ""
            self._is_cut |= was_short or bool(after or began.after)
        if seen:
            self._places[organization_id] = Place(after, len(seen))
        else:
            self._places.pop(organization_id, None)
