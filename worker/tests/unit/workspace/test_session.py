"""The directory of one process."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

from agentjobs_runtime.files.locks import blocking_lock
from agentjobs_worker.workspace.session import Session


def test_several_threads_can_open_it_at_once(tmp_path: Path) -> None:
    """A job and the sweep that runs beside it, say."""
    session = Session(tmp_path)
    ready = Barrier(9)

    def open_and_use(_: int) -> Path:
        ready.wait()
        session.open()
        return session.new_directory()

    with ThreadPoolExecutor(8) as threads:
        # None of them finds it open.
        with blocking_lock(tmp_path / "sessions.lock"):
            opened = threads.map(open_and_use, range(8))
            ready.wait()
        directories = list(opened)

    assert {path.parent for path in directories} == {session.directory}
    session.close()
    assert not session.directory.exists()
