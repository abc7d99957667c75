"""Why an environment cannot be prepared."""


class EnvironmentFailed(Exception):
    """The repository or its image is at fault: the job fails. The message says what to do."""
