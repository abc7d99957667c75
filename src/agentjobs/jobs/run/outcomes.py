"""How a run of a job can end, as values: decided by `run`, stored by `finish`."""

import msgspec


class Completed(msgspec.Struct, frozen=True):
    pr_url: str
    pr_number: int
    head_commit: str
    draft: bool


class Failed(msgspec.Struct, frozen=True):
    code: str
    message: str


class Cancelled(msgspec.Struct, frozen=True):
    """The client asked for it."""


class Released(msgspec.Struct, frozen=True):
    """The worker is being drained; the job goes back to the queue, no attempt spent."""


class Abandoned(msgspec.Struct, frozen=True):
    """The claim is no longer ours: somebody else decides, we write nothing."""


Outcome = Completed | Failed | Cancelled | Released | Abandoned


class Stopped(Exception):
    """Ends a run with an outcome already known."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.outcome = Failed(code, message)
