"""The priority of agents: below the service, so that it always gets CPU time first."""

import contextlib
import os
from collections.abc import Iterable
from pathlib import Path

# Added to the nice value of the service.
NICE_INCREMENT = 10
_MAX_NICE = 19
# Up to here, an agent's sessions together get less than the service. Few programs have more.
MAX_USUAL_SESSIONS = 8
_AUTOGROUP = Path("/proc/sys/kernel/sched_autogroup_enabled")


def lowered_priority() -> int:
    """The nice value of agents."""
    return min(os.getpriority(os.PRIO_PROCESS, os.getpid()) + NICE_INCREMENT, _MAX_NICE)


def lower_priority(pids: Iterable[int]) -> None:
    """Every later process of the agent inherits it."""
    priority = lowered_priority()
    for pid in pids:
        with contextlib.suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, pid, priority)


def restore_priority(uid: int) -> None:
    """All processes of this user get the service's. Only root may do this."""
    os.setpriority(os.PRIO_USER, uid, os.getpriority(os.PRIO_PROCESS, os.getpid()))


class SessionPriorities:
    """Lowers the priority of sessions, where the kernel shares CPU time among them.

    Otherwise an agent would get another share with every `setsid`. `proc` is the sandbox's /proc.
    """

    def __init__(self, proc: int) -> None:
        self._proc = proc
        self._lowered: set[int] = set()
        self.is_needed = _is_enabled()

    def lower(self, processes: Iterable[tuple[str, int]]) -> None:
        """A process of each session, with the session's number."""
        sessions = {session: pid for pid, session in processes}
        few = len(sessions) <= MAX_USUAL_SESSIONS
        priority = str(lowered_priority() if few else _MAX_NICE).encode()
        # An agent can raise the priority again, so that of all sessions is lowered every time.
        for session in sorted(sessions, key=self._lowered.__contains__):
            try:
                self._write(f"{sessions[session]}/autogroup", priority)
            except BlockingIOError:
                # An ordinary user may do this ten times a second.
                break
            except OSError:
                continue
            self._lowered.add(session)
        self._lowered &= sessions.keys()

    def _write(self, path: str, priority: bytes) -> None:
        descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC, dir_fd=self._proc)
        try:
            os.write(descriptor, priority)
        finally:
            os.close(descriptor)


def _is_enabled() -> bool:
    try:
        return _AUTOGROUP.read_text().strip() == "1"
    except OSError:
        return False
