"""Running Slurm's programs with a deadline. What is run, and with what, is an argument everywhere else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from airlane.errors import BackendError, SlurmUnavailableError
from airlane.frozen import frozen

# A program that was told to end has this long to give back what it holds (srun: an allocation).
_ENDING_S = 5.0


@frozen
class Completed:
    """What a program said."""

    exit_code: int
    stdout: str
    stderr: str


class Run(Protocol):
    """Runs a program to its end."""

    def __call__(self, command: Sequence[str], timeout_s: float, env: Mapping[str, str]) -> Completed:
        """What it said.

        Raises:
            BackendError: it is not installed.
            SlurmUnavailableError: it did not end in time; it is ended then.
        """


def run_program(command: Sequence[str], timeout_s: float, env: Mapping[str, str]) -> Completed:
    """Run a program of this machine (see `Run`)."""
    import subprocess

    try:
        process = subprocess.Popen(
            command,
            env=dict(env),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
            errors="surrogateescape",
        )
    except OSError as error:
        raise BackendError(
            f"{command[0]} cannot be run: {(error.strerror or str(error)).lower()}",
            hint="the slurm backend needs Slurm's programs: run air on a login node of the cluster",
        ) from error
    with process:
        try:
            stdout, stderr = process.communicate(timeout=timeout_s)
        except subprocess.TimeoutExpired as error:
            process.terminate()
            try:
                process.communicate(timeout=_ENDING_S)
            except subprocess.TimeoutExpired:
                process.kill()
            raise SlurmUnavailableError(
                f"{command[0]} gave no answer in {timeout_s:g} s", hint="scontrol ping tells whether Slurm is up"
            ) from error
        except BaseException:
            process.kill()
            raise
    return Completed(process.returncode, stdout, stderr)
