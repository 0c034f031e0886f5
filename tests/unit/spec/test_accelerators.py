from __future__ import annotations

import pytest

from airlane.spec.accelerators import AcceleratorKind, AcceleratorType, parse_accelerator_type


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("GPU_1xA10", AcceleratorType("GPU_1xA10", "A10", 1, AcceleratorKind.GPU)),
        ("GPU_1xH100", AcceleratorType("GPU_1xH100", "H100", 1, AcceleratorKind.GPU)),
        ("GPU_8xH100", AcceleratorType("GPU_8xH100", "H100", 8, AcceleratorKind.GPU)),
        ("GPU_8xB300", AcceleratorType("GPU_8xB300", "B300", 8, AcceleratorKind.GPU)),
        ("CPU_2xCORE", AcceleratorType("CPU_2xCORE", "CORE", 2, AcceleratorKind.CPU)),
        ("CPU_128xCORE", AcceleratorType("CPU_128xCORE", "CORE", 128, AcceleratorKind.CPU)),
        ("GPU_4xANY", AcceleratorType("GPU_4xANY", "ANY", 4, AcceleratorKind.GPU)),
        ("a10", AcceleratorType("a10", "A10", 1, AcceleratorKind.POOL)),
        ("h100_80gb", AcceleratorType("h100_80gb", "H100", 8, AcceleratorKind.POOL)),
    ],
)
def test_a_known_type_is_read(name: str, expected: AcceleratorType) -> None:
    assert parse_accelerator_type(name) == expected


@pytest.mark.parametrize(
    "name",
    [
        "",
        "GPU_0xANY",
        "GPU_2xany",
        "GPU_2xH100",
        "GPU_8xh100",
        "gpu_8xH100",
        "CPU_0xCORE",
        "CPU_02xCORE",
        "CPU_xCORE",
        "CPU_1xCORE\n",
        "A10",
    ],
)
def test_any_other_name_is_unknown(name: str) -> None:
    assert parse_accelerator_type(name) is None


@pytest.mark.parametrize(
    ("name", "count", "nodes"),
    [("GPU_8xH100", 8, 1), ("GPU_8xH100", 24, 3), ("GPU_8xH100", 9, None), ("GPU_8xH100", 4, None), ("GPU_1xA10", 5, 5),
     ("CPU_4xCORE", 8, 2), ("CPU_4xCORE", 2, None), ("h100_80gb", 2, 1), ("h100_80gb", 8, 1), ("h100_80gb", 9, None),
     ("h100_80gb", 16, 2), ("a10", 3, 3)],
)  # fmt: skip
def test_a_count_fills_whole_nodes_or_none(name: str, count: int, nodes: int | None) -> None:
    kind = parse_accelerator_type(name)
    assert kind is not None
    assert kind.nodes(count) == nodes


def test_the_nearest_fitting_counts_are_offered() -> None:
    kind = parse_accelerator_type("GPU_8xH100")
    assert kind is not None
    assert kind.fitting_counts(12) == (8, 16)
    assert kind.fitting_counts(3) == (8,)
