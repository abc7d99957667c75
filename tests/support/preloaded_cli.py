"""`agentjobs` in a process of its own that needs not load it first: a copy of one that has.

Loading takes nine tenths of a short command's time. Whatever is to be shown of the start itself
belongs to a real one.
"""

import atexit
import json
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from functools import cache
from typing import IO, Any

_SECONDS = 60
_one_after_the_other = threading.Lock()


def run(
    arguments: Sequence[str], environment: Mapping[str, str], typed: str = ""
) -> subprocess.CompletedProcess[str]:
    """What `subprocess.run` of the program would say."""
    asked = {"arguments": list(arguments), "environment": dict(environment), "typed": typed}
    with _one_after_the_other:
        warm = _warm()
        assert warm.stdin is not None
        assert warm.stdout is not None
        warm.stdin.write(json.dumps(asked) + "\n")
        warm.stdin.flush()
        told = json.loads(warm.stdout.readline())
    return subprocess.CompletedProcess(list(arguments), told["code"], told["out"], told["err"])


@cache
def _warm() -> "subprocess.Popen[str]":
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.support.preloaded_cli"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    atexit.register(_end, process)
    return process


def _end(process: "subprocess.Popen[str]") -> None:
    process.communicate()


def _serve() -> None:
    """Reads what is asked, a line each, until there is no more."""
    # All that an administrative command loads.
    import agentjobs.cli.admin
    import agentjobs.cli.main
    import agentjobs.organizations.organizations
    import agentjobs.repos.connect
    import agentjobs.store.opening  # noqa: F401

    for line in sys.stdin:
        sys.stdout.write(json.dumps(_answer(json.loads(line))) + "\n")
        sys.stdout.flush()


def _answer(asked: dict[str, Any]) -> dict[str, Any]:
    with ExitStack() as opened:
        given, out, err = (opened.enter_context(tempfile.TemporaryFile()) for _ in range(3))
        given.write(asked["typed"].encode())
        given.seek(0)
        pid = os.fork()
        if pid == 0:
            _become(asked, (given, out, err))
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        return {"code": code, "out": _text(out), "err": _text(err)}


def _become(asked: dict[str, Any], streams: Sequence[IO[bytes]]) -> None:
    from signal import alarm

    from agentjobs.cli.main import main

    code = 1
    try:
        alarm(_SECONDS)
        for number, stream in enumerate(streams):
            os.dup2(stream.fileno(), number)
        os.environ.clear()
        os.environ.update(asked["environment"])
        sys.argv = ["agentjobs", *asked["arguments"]]
        # The program calls itself by this, and not by the module that was started.
        sys.modules["__main__"].__package__ = ""
        sys.stdin = os.fdopen(0, closefd=False)
        main()
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _text(stream: IO[bytes]) -> str:
    stream.seek(0)
    return stream.read().decode("utf-8", "replace")


if __name__ == "__main__":
    _serve()
