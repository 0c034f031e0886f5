"""Start air-ranks from the package that this file lies in, without making anything else of its folder importable."""

# ruff: noqa: INP001 - a script beside air-ranks, in no package
from __future__ import annotations

import importlib.util
import sys
from pathlib import Path


def load_package() -> None:
    package = Path(__file__).resolve().parents[2]
    spec = importlib.util.spec_from_file_location(
        package.name, package / "__init__.py", submodule_search_locations=[str(package)]
    )
    if spec is None or spec.loader is None:
        sys.exit(f"air-ranks: {package} is not there")
    module = importlib.util.module_from_spec(spec)
    sys.modules[package.name] = module
    spec.loader.exec_module(module)


if __name__ == "__main__":
    here = str(Path(__file__).resolve().parent)
    sys.path[:] = [folder for folder in sys.path if folder != here]
    load_package()
    from airlane.ranks.main import main

    sys.exit(main())
