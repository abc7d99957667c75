"""The platform and the state of a repository in words. Pure."""

import msgspec

from agentjobs.repos.queries import RepoView
from agentjobs.web.dashboard.settings.platform_text import PLATFORMS
from agentjobs.web.dashboard.text_filters import counted

PLATFORM_NAMES = {"local": "Hosted here", **PLATFORMS}


class IndexState(msgspec.Struct, frozen=True):
    """`css_class` is a class of badges."""

    css_class: str
    word: str
    note: str = ""


def index_state(repo: RepoView) -> IndexState:
    """What keeps the repository from accepting jobs, or its index from being current."""
    if repo.sync_error:
        return IndexState("bad", "platform error", repo.sync_error)
    progress = repo.index_progress
    if repo.index_status == "ready":
        if repo.index_error:
            return IndexState("warn", "index outdated", repo.index_error)
        return IndexState("ready", "ready", "indexing the latest push" if progress else "")
    if repo.index_error:
        return IndexState("bad", "index failed", repo.index_error)
    if progress and progress.total:
        files = counted(progress.total, "file")
        return IndexState("indexing", "indexing", f"{progress.done:,} of {files}")
    return IndexState("indexing", "indexing", "waiting to start")
