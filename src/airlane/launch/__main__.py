"""Start a node's agent (the package need not be installed there).

`python -I -S .../airlane/launch/__main__.py ORDER` carries out an order; `--member DIR` introduces this node of a Slurm
step first, and finds its order in DIR; `--sweep RUN ATTEMPT` ends what an agent left that was killed.
"""

from __future__ import annotations

import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))


def main(arguments: list[str]) -> int:
    """What the first argument says; returns the exit code."""
    if arguments[1:2] == ["--member"]:
        from airlane.launch import member

        return member.main(arguments)
    if arguments[1:2] == ["--sweep"]:
        from airlane.launch.scratch import remove_left_scratch
        from airlane.launch.sweep import sweep

        run_id, attempt = arguments[2], int(arguments[3])
        sweep(run_id, attempt=attempt)
        remove_left_scratch(run_id, attempt=attempt, node=int(os.environ["SLURM_PROCID"]))
        return 0
    from airlane.launch import agent

    return agent.main(arguments)


if __name__ == "__main__":
    # At once: there is nothing to tidy up, and a metrics thread stuck in a driver must not hold the exit.
    os._exit(main(sys.argv))
