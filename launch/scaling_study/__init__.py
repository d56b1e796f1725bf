"""How the search scales. In order: runs.py (what is run), slurm.py (by a cluster), table.py (what is kept), pool.py
(the simulated task pool), replay.py (from a recorded run to a projection), plots.py."""


class StudyError(RuntimeError):
    """The study cannot go on; the message names the fault and what to do."""
