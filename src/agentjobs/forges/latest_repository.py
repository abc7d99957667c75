"""The repository that an adapter has just read, so that one operation does not ask for it twice."""

from collections.abc import Callable

from agentjobs.forges.protocol import RemoteRepository, RepoAddress

# Long enough for the next step of a sync; a job that pushes later asks again.
_MAX_AGE_SECONDS = 10.0


class LatestRepository:
    def __init__(self, time_of_day: Callable[[], float]) -> None:
        self._time_of_day = time_of_day
        self._latest: tuple[RepoAddress, RemoteRepository, float] | None = None

    def put(self, repo: RepoAddress, remote: RemoteRepository) -> None:
        self._latest = (repo, remote, self._time_of_day())

    def take(self, repo: RepoAddress) -> RemoteRepository | None:
        """Only once."""
        latest, self._latest = self._latest, None
        if latest is None or latest[0].external_id != repo.external_id or not repo.external_id:
            return None
        age = self._time_of_day() - latest[2]
        return latest[1] if 0 <= age <= _MAX_AGE_SECONDS else None
