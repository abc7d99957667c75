"""The value of a platform's answer, decoded into the type that is wanted and nothing else. Pure.

Decoding holds up the whole process, in a thread too: what is wrong must be found out early.
"""

from typing import Any, TypeVar, get_origin

import msgspec

from agentjobs.forges.http.responses import Answer, ApiError, no_api
from agentjobs.forges.protocol import ForgeError
from agentjobs.forges.text import shown

# Of an answer whose type nobody names: any content must be made into something.
UNTYPED_BYTES = 2**20
Shape = TypeVar("Shape")


def value_of(platform: str, answer: Answer) -> Any:
    """None for an empty answer; raises ApiError."""
    if len(answer.body) > UNTYPED_BYTES:
        words = f"{platform} answered with more than {UNTYPED_BYTES // 2**20} MiB."
        raise ApiError(words, "refused", status=answer.status, is_undone=False)
    if not answer.body.strip():
        return None
    try:
        return msgspec.json.decode(answer.body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise no_api(platform, answer.status) from None


def shaped(platform: str, answer: Answer, shape: type[Shape]) -> Shape:
    """What was answered, as the type says that it looks. Raises ForgeError."""
    # Some write a list without anything in it so.
    nothing = b"[]" if get_origin(shape) is list else b"null"
    content = answer.body.strip()
    try:
        return msgspec.json.decode(nothing if content in {b"", b"null"} else content, type=shape)
    except msgspec.ValidationError as error:
        raise unknown_shape(platform, error) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise no_api(platform, answer.status) from None


def unknown_shape(platform: str, error: msgspec.ValidationError) -> ForgeError:
    words = f"{platform} answered in a way that is not known here ({shown(str(error))})"
    return ForgeError(f"{words}; check the address and its version.")
