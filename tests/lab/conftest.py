"""The lab, for every test in this folder: one cluster a session, as good as new for each test.

A test that kills, hangs or cuts a machine need not mend it; one that wants a cluster of its own makes a Lab.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from lab.cluster import Lab
from lab.docker_engine import DockerEngine
from lab.slurm_conf import ClusterShape
from lab.small_image import small_image_archive

FOLDER = Path(__file__).parent


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: Sequence[pytest.Item]) -> None:
    for item in items:
        if FOLDER in item.path.parents:
            item.add_marker(pytest.mark.lab)


@pytest.fixture(scope="session")
def session_lab() -> Iterator[Lab]:
    lab = Lab.up()
    yield lab
    lab.down()


@pytest.fixture
def lab(session_lab: Lab) -> Iterator[Lab]:
    """Three nodes with 8 CPUs and 2 GPUs each, which are all idle."""
    yield session_lab
    session_lab.mend()


@pytest.fixture(scope="session")
def accounting_lab() -> Iterator[Lab]:
    """One node of a cluster whose Slurm remembers what jobs came to; what a test does to it stays done."""
    lab = Lab.up(ClusterShape(nodes=1, accounting=True))
    yield lab
    lab.down()


@pytest.fixture
def engines(lab: Lab) -> dict[str, DockerEngine]:
    """A Docker engine on each node of the lab, by the node's name."""
    engines = {node: DockerEngine(lab, node) for node in lab.nodes}
    for engine in engines.values():
        engine.start()
        engine.remove_containers()
    return engines


@pytest.fixture(scope="session")
def small_image() -> Path:
    """A `.tar.gz` of a container image with bash and python3, as `docker save` writes it."""
    return small_image_archive()


@pytest.fixture(scope="session")
def ray_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of the one home of all runs with Ray, so that their environment is built once."""
    return tmp_path_factory.mktemp("ray-lab")
