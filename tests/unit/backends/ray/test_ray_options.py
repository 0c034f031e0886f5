from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from airlane.backends.ray.options import RayOptions, read_options
from airlane.errors import ConfigError

EVERY_KEY: dict[str, Any] = {
    "address": "http://10.0.0.1:8265",
    "token_file": "~/.ray/auth_token",
    "storage": "/fsx/ada/checkpoints",
    "wait_minutes": 90,
    "autoscales": True,
    "cpus_per_accelerator": 12,
    "resources": {"fast_disk": 1, "license": 0.5},
    "accelerators": {"A10": "A10G"},
}


def test_every_key_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/ada")
    assert read_options(EVERY_KEY) == RayOptions(
        address="http://10.0.0.1:8265",
        token_file=Path("/home/ada/.ray/auth_token"),
        storage=Path("/fsx/ada/checkpoints"),
        wait_minutes=90.0,
        autoscales=True,
        cpus_per_accelerator=12,
        resources={"fast_disk": 1.0, "license": 0.5},
        accelerators={"A10": "A10G"},
    )


def test_nothing_has_to_be_said() -> None:
    assert read_options({}) == RayOptions()
    assert RayOptions().wait_minutes == 24 * 60


@pytest.mark.parametrize("address", ["10.0.0.1:8265", "https://ray.lab.example/cluster", "research", "0vg7s67d"])
def test_an_address_is_a_url_a_host_with_a_port_or_the_name_of_a_cluster(address: str) -> None:
    assert read_options({"address": address}).address == address


def test_the_address_of_the_gcs_is_explained_when_the_profile_is_read() -> None:
    with pytest.raises(ConfigError, match="the GCS") as caught:
        read_options({"address": "10.0.0.1:6379"})
    assert "http://10.0.0.1:8265" in str(caught.value.hint)


@pytest.mark.parametrize(
    ("key", "wrong"),
    [
        ("address", ""),
        ("address", 8265),
        ("address", "auto"),
        ("token_file", "auth_token"),
        ("token_file", True),
        ("storage", "checkpoints"),
        ("storage", "/a\nb"),
        ("wait_minutes", 0),
        ("wait_minutes", "60"),
        ("wait_minutes", float("inf")),
        ("wait_minutes", float("nan")),
        ("wait_minutes", True),
        ("autoscales", 1),
        ("cpus_per_accelerator", -1),
        ("cpus_per_accelerator", 1.5),
        ("resources", ["fast_disk"]),
        ("resources", {"fast_disk": 0}),
        ("resources", {"fast_disk": 1.5}),
        ("resources", {"fast_disk": True}),
        ("resources", {"fast_disk": float("nan")}),
        ("accelerators", "A10G"),
        ("accelerators", {"A10": ""}),
        ("accelerators", {"A10": "accelerator_type:A10G"}),
    ],
)
def test_a_wrong_value_is_refused_by_its_key(key: str, wrong: Any) -> None:
    with pytest.raises(ConfigError) as caught:
        read_options({key: wrong})
    assert caught.value.message.startswith(key)


@pytest.mark.parametrize(
    "name", ["CPU", "GPU", "memory", "object_store_memory", "node:10.0.0.1", "accelerator_type:H100"]
)
def test_what_ray_counts_itself_is_no_custom_resource(name: str) -> None:
    with pytest.raises(ConfigError, match=name) as caught:
        read_options({"resources": {name: 1}})
    assert caught.value.hint


def test_a_mistyped_key_or_model_is_met_with_the_right_one() -> None:
    with pytest.raises(ConfigError, match="no option 'adress'") as caught:
        read_options({"adress": "h:8265"})
    assert caught.value.hint == "Did you mean `address`?"
    with pytest.raises(ConfigError, match="no option 'partition'") as caught:
        read_options({"partition": "gpu"})
    assert "token_file" in str(caught.value.hint)
    with pytest.raises(ConfigError, match="no accelerator 'H10'") as caught:
        read_options({"accelerators": {"H10": "H100"}})
    assert "H100" in str(caught.value.hint)
