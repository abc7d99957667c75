"""How many files this process may hold open. Agents hold connections to it, each up to a bound."""

import resource

# What the service units ask for; a shell's usual 1,024 is less than four agents may hold.
_WANTED = 65_536


def raise_open_files_limit() -> None:
    """As far as the machine lets an ordinary user."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _WANTED if hard == resource.RLIM_INFINITY else min(_WANTED, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
