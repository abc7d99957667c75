"""Where the installed program starts: before anything is imported that takes time."""

import gc

# Otherwise garbage collection takes a tenth of the CPU time of a short command.
_GC_ALLOCATIONS = 50_000


def main() -> None:
    gc.set_threshold(_GC_ALLOCATIONS)
    from agentjobs.cli.main import main

    main()
