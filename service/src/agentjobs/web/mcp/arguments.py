"""Arguments that several tools take, and the schema of a tool that models see.

The REST API checks values again; these types only say what a tool takes.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field, StrictBool
from typing_extensions import TypedDict

MAX_LOG_BYTES = 100_000
MAX_DIFF_BYTES = 200_000

# The default of an argument that may be left out. Its type is not `str | None`: the schema would
# contain null, which not every model API understands, and the package `mcp` would parse a prompt
# that happens to be JSON.
ABSENT: Any = None

JobId = Annotated[
    str,
    Field(
        description="Job id, such as the one that create_job returned.",
        max_length=64,
        pattern="^job_[A-Za-z0-9]+$",
    ),
]
Cursor = Annotated[
    str,
    Field(description="`next_cursor` of the previous page; leave it out for the first page."),
]
Prompt = Annotated[
    str,
    Field(
        description="The whole task in plain language. The agent sees the repository and this"
        " text, and nothing of this conversation.",
        min_length=1,
    ),
]
Status = Literal["queued", "running", "completed", "failed", "cancelled"]


class JobConfig(TypedDict, total=False):
    # Unknown keys go to the agent.
    __pydantic_config__ = {"extra": "allow"}  # type: ignore[misc] # noqa: RUF012 - pydantic's form

    base_branch: Annotated[
        str, Field(description="Branch to start from; by default the repository's default branch.")
    ]
    title: Annotated[str, Field(description="Title of the pull request.")]
    draft: Annotated[StrictBool, Field(description="Open the pull request as a draft.")]
    reviewers: Annotated[list[str], Field(description="User names to request a review from.")]
    timeout_seconds: Annotated[
        int, Field(description="Stop the agent after this time; only to lower its limit.", ge=1)
    ]
    max_cost_usd: Annotated[
        float, Field(description="Stop the agent when it has spent this much.", gt=0)
    ]
    priority: Annotated[
        Literal["low", "normal", "high"],
        Field(description="Order among the organization's waiting jobs."),
    ]


def plain_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Removes references, titles and nulls, which not every model API understands."""
    plain: dict[str, Any] = _plain(schema, schema.get("$defs", {}))
    return {"required": [], **plain}


def _plain(value: Any, definitions: Mapping[str, Any]) -> Any:
    if not isinstance(value, Mapping):
        return value
    if reference := value.get("$ref"):
        value = {**definitions[reference.rpartition("/")[2]], **value}
    return {
        key: _plain(item, definitions)
        for key, item in value.items()
        if key not in {"$defs", "$ref"}
        and item is not None
        # A property may be called `title` too.
        and not (key == "title" and isinstance(item, str))
    }
