"""Lines for a job's log: each once, and a limited number, because the agent causes them."""

from collections.abc import Callable

MAX_NOTES = 20


def limit_notes(on_note: Callable[[str], None]) -> Callable[[str], None]:
    noted: set[str] = set()

    def note(text: str) -> None:
        if text not in noted and len(noted) < MAX_NOTES:
            noted.add(text)
            on_note(text)

    return note
