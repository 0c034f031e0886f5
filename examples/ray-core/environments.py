"""A runtime environment for each call: variables and code, side by side on the same nodes."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import ray


@ray.remote
def greeting() -> str:
    """What this call finds in its environment."""
    return os.environ.get("GREETING", "no greeting")


@ray.remote
def vat() -> float:
    """Which `rates` is imported depends on the call; it is installed nowhere."""
    import rates  # only there where this runs

    return rates.VAT


def module(folder: Path, rate: float) -> str:
    """A small module in a folder of its own."""
    package = folder / str(rate) / "rates"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(f"VAT = {rate}\n")
    return str(package)


def main() -> None:
    # What is given here holds for every call of the program. Folders can be given only here: Ray uploads them once, and
    # calls them by an address from then on.
    with tempfile.TemporaryDirectory() as folder:
        versions = [module(Path(folder), rate) for rate in (0.19, 0.2)]
        everywhere = {"env_vars": {"GREETING": "hello"}, "py_modules": versions}
        ray.init("auto", logging_level="error", runtime_env=everywhere)
    uploaded = ray.get_runtime_context().runtime_env["py_modules"]

    # What is given to a call wins; variables are added to those above. Its worker is a process for this environment
    # alone: nothing leaks to other calls.
    polite = greeting.options(runtime_env={"env_vars": {"GREETING": "good day"}})
    print("variables:", ray.get([greeting.remote(), polite.remote(), greeting.remote()]))

    calls = [vat.options(runtime_env={"py_modules": [address]}).remote() for address in uploaded]
    print("two versions of one module:", ray.get(calls))

    # What cannot be set up fails the call that asked for it, and no other.
    broken = greeting.options(runtime_env={"py_modules": ["gcs://no-such-module.zip"]})
    try:
        ray.get(broken.remote())
    except ray.exceptions.RuntimeEnvSetupError:
        print("an environment that cannot be made: RuntimeEnvSetupError")


if __name__ == "__main__":
    main()
