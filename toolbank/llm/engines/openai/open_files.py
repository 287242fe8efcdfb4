"""How many connections the system lets one process have."""

from __future__ import annotations

# What a run has open beside its connections: the journal, temporary files, libraries.
_OTHER_FILES = 200


def allow_connections(wanted: int) -> int:
    """Make room for so many connections, and give how many there is room for.

    The soft limit of open files, 1,024 on many systems, is raised as far as the hard one lets.
    Past it not only would calls fail, but the journal too.
    """
    try:
        import resource
    except ImportError:  # Windows, which has no such limit
        return wanted
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    endless = resource.RLIM_INFINITY
    needed = wanted + _OTHER_FILES
    if soft == endless or soft >= needed:
        return wanted
    most = needed if hard == endless else min(needed, hard)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    except (ValueError, OSError):  # macOS allows less than it says
        most = soft
    return min(wanted, max(most - _OTHER_FILES, most // 2))
