"""`up`, `serve` and `worker`: the long-running commands. What they run is wired in `app`."""

import gc
from collections.abc import Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentjobs.cli.options import DataDir, Host, Port, Slots
from agentjobs.cli.output import answer, remark

if TYPE_CHECKING:
    from agentjobs.settings import Settings


def up(data_dir: DataDir = None, host: Host = None, port: Port = None) -> None:
    """Run the whole service, API and worker, in one process."""
    settings = _load(data_dir, host=host, port=port)
    from agentjobs.app.services import run_up

    def ready(base_url: str, sign_in_link: str | None) -> None:
        answer(base_url)
        if sign_in_link is not None:
            answer(sign_in_link)
            remark("Open the second address in a browser: it signs you in once, for 10 minutes.")
        else:
            remark("To sign in to the dashboard: agentjobs users sign-in-link E-MAIL")
        remark(f"Make a key with: agentjobs keys create --data-dir {settings.data_dir}")

    _run(run_up(settings, on_ready=ready))


def serve(data_dir: DataDir = None, host: Host = None, port: Port = None) -> None:
    """Run the API; its jobs are run by `agentjobs worker`, here or on other machines."""
    settings = _load(data_dir, host=host, port=port)
    _require_public_url(settings)
    from agentjobs.app.services import run_serve

    _run(run_serve(settings, on_ready=lambda base_url, _: answer(base_url)))


def worker(slots: Slots = None, data_dir: DataDir = None) -> None:
    """Run the jobs that `agentjobs serve` accepted into the same store."""
    settings = _load(data_dir, slots=slots)
    _require_public_url(settings)
    _require_public_url_elsewhere(settings)
    from agentjobs.app.services import run_worker

    _run(run_worker(settings))


def _load(data_dir: Path | None, **flags: Any) -> "Settings":
    from agentjobs.settings import load

    # A tenth of the start is the collector, which finds nothing in what is loaded and kept. The
    # service enables it again.
    gc.disable()
    return load(data_dir=None if data_dir is None else str(data_dir), **flags)


def _require_public_url(settings: "Settings") -> None:
    from agentjobs.settings import SettingsError, is_loopback

    if not settings.public_url and not is_loopback(settings.host):
        raise SettingsError(
            "set AGENTJOBS_PUBLIC_URL to the address by which users reach the service: "
            f"{settings.host} is no address a link can be made from"
        )


def _require_public_url_elsewhere(settings: "Settings") -> None:
    """A worker on another machine would look for the service, and its repositories, on its own."""
    url = settings.effective_database_url
    if settings.public_url or url.startswith("sqlite:"):
        return
    from agentjobs.settings import SettingsError
    from agentjobs.store.postgresql.address import is_local_address

    if not is_local_address(url):
        raise SettingsError(
            "set AGENTJOBS_PUBLIC_URL to the address by which this worker reaches `agentjobs serve`"
            ": the database is on another host, so the service need not be on this one"
        )


def _run(service: Coroutine[Any, Any, None]) -> None:
    import uvloop

    uvloop.run(service)
