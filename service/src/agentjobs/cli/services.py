"""`up`, `serve` and `worker`: the long-running commands. `app` assembles what they run."""

import contextlib
import gc
import shlex
import sys
from collections.abc import Coroutine
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from agentjobs.cli.machine import require_linux
from agentjobs.cli.options import DataDir, Host, Port, Slots, Tags
from agentjobs.cli.output import print_note, print_result

if TYPE_CHECKING:
    from agentjobs.cli.terminal_log import TerminalLog
    from agentjobs_runtime.settings import Settings

LOG_FILE = "agentjobs.log"
SIGN_IN_LINK_FILE = "sign-in-link"


def up(data_dir: DataDir = None, host: Host = None, port: Port = None) -> None:
    """Run the API and a worker in one process."""
    settings = _load(data_dir, host=host, port=port)
    from agentjobs.app.services import run_up

    log = _open_terminal_log(settings) if _is_terminal(sys.stderr) else None
    on_ready = partial(_print_first_steps, settings)
    _run(run_up(settings, on_ready, log))


def serve(data_dir: DataDir = None, host: Host = None, port: Port = None) -> None:
    """Run the API without a worker."""
    settings = _load(data_dir, host=host, port=port)
    _require_public_url(settings)
    from agentjobs.app.services import run_serve

    _run(run_serve(settings, on_ready=lambda base_url, _: print_result(base_url)))


def worker(slots: Slots = None, tags: Tags = None, data_dir: DataDir = None) -> None:
    """Run jobs from the store of `agentjobs serve`."""
    from agentjobs_runtime.settings.tags import split_tags

    worker_tags = None if tags is None else split_tags(tags)
    settings = _load(data_dir, slots=slots, worker_tags=worker_tags)
    _require_public_url(settings)
    _require_public_url_for_remote_store(settings)
    from agentjobs.app.services import run_worker

    _run(run_worker(settings))


def _print_first_steps(settings: "Settings", base_url: str, sign_in_link: str | None) -> None:
    print_result(base_url)
    if sign_in_link is not None:
        _print_sign_in_link(settings, sign_in_link)
    else:
        print_note("To sign in to the dashboard, run: agentjobs users sign-in-link EMAIL")
    create = f"agentjobs keys create --data-dir {shlex.quote(settings.data_dir)}"
    address = base_url.removesuffix("/v1")
    print_note(f"To use the command line, run: {create} | agentjobs login {address}")
    if _is_terminal(sys.stderr):
        print_note(f"The log is in {settings.data_path / LOG_FILE}. To stop, press Ctrl-C.")


def _open_terminal_log(settings: "Settings") -> "TerminalLog":
    from agentjobs.cli.terminal_log import TerminalLog
    from agentjobs_runtime.settings import prepare_data_directory

    prepare_data_directory(settings)
    return TerminalLog(settings.data_path / LOG_FILE)


def _is_terminal(stream: TextIO | None) -> bool:
    return stream is not None and stream.isatty()


def _print_sign_in_link(settings: "Settings", link: str) -> None:
    """Without a terminal, the output may be a log that others read."""
    if _is_terminal(sys.stdout):
        print_result(link)
        print_note("Open the second URL in a browser to sign in. It works once, within 10 minutes.")
        return
    from agentjobs_runtime.private_files import replace_private_file

    path = settings.data_path / SIGN_IN_LINK_FILE
    replace_private_file(path, f"{link}\n".encode())
    print_result(str(path))
    print_note(
        "The second line names a file with a URL. Open that URL in a browser to sign in. It works "
        "once, within 10 minutes."
    )


def _load(data_dir: Path | None, **flags: Any) -> "Settings":
    require_linux()
    from agentjobs_runtime.settings import load

    # Garbage collection takes a tenth of the startup time. The service enables it again.
    gc.disable()
    return load(data_dir=None if data_dir is None else str(data_dir), **flags)


def _require_public_url(settings: "Settings") -> None:
    from agentjobs_runtime.settings import SettingsError, is_loopback

    if not settings.public_url and not is_loopback(settings.host):
        raise SettingsError(
            "set AGENTJOBS_PUBLIC_URL to the URL of the service: "
            f"links cannot be made from {settings.host}"
        )


def _require_public_url_for_remote_store(settings: "Settings") -> None:
    """Otherwise a worker on another machine would look for the service on its own host."""
    url = settings.effective_database_url
    if settings.public_url or url.startswith("sqlite:"):
        return
    from agentjobs.store.postgresql.address import is_local_address
    from agentjobs_runtime.settings import SettingsError

    if not is_local_address(url):
        raise SettingsError(
            "set AGENTJOBS_PUBLIC_URL to the URL at which this worker reaches `agentjobs serve`: "
            "the database is on another host, so the service may be, too"
        )


def _run(service: Coroutine[Any, Any, None]) -> None:
    import uvloop

    uvloop.run(_with_lookup_threads(service))


async def _with_lookup_threads(service: Coroutine[Any, Any, None]) -> None:
    """The event loop starts its threads for the first lookup, and ends the process if the machine
    has none for it by then."""
    import asyncio

    with contextlib.suppress(OSError):
        await asyncio.get_running_loop().getaddrinfo("localhost", 0)
    await service
