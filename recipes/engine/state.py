"""The state of a training as named tensors, one name for the same tensor however the model is spread over workers.

`model.NAME` is a parameter or a buffer, `optimizer.NAME.KEY` what the optimizer keeps for that parameter. Parameters
that are not trained are left out: they come from where they came from at first.
"""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from torch.distributed.tensor import DTensor, distribute_tensor

# What DDP, torch.compile and activation checkpointing put into the names of a model's parameters.
WRAPPINGS = ("module.", "_orig_mod.", "_checkpoint_wrapped_module.")
# Source: safetensors, "Format" in its README.
DTYPE_NAMES = {
    torch.float64: "F64",
    torch.float32: "F32",
    torch.float16: "F16",
    torch.bfloat16: "BF16",
    torch.int64: "I64",
    torch.int32: "I32",
    torch.int16: "I16",
    torch.int8: "I8",
    torch.uint8: "U8",
    torch.bool: "BOOL",
}
WRITE_BYTES = 1 << 24


def plain_name(name: str) -> str:
    for wrapping in WRAPPINGS:
        name = name.replace(wrapping, "")
    return name


def trained_parameters(model: torch.nn.Module) -> Iterator[tuple[str, torch.nn.Parameter]]:
    """Each trained parameter once, under its plain name."""
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            yield plain_name(name), parameter


def saved_buffers(model: torch.nn.Module) -> Iterator[tuple[str, torch.Tensor]]:
    """The buffers that belong to the state: not those that a module computes when it is made."""
    for prefix, module in model.named_modules():
        for name, buffer in module.named_buffers(prefix, recurse=False):
            if name.rpartition(".")[2] not in module._non_persistent_buffers_set:  # noqa: SLF001 - there is no other way
                yield plain_name(name), buffer


def named_tensors(model: torch.nn.Module, optimizer: torch.optim.Optimizer | None) -> dict[str, torch.Tensor]:
    """The state, not copied."""
    tensors = {f"model.{name}": buffer for name, buffer in saved_buffers(model)}
    for name, parameter in trained_parameters(model):
        tensors[f"model.{name}"] = parameter.detach()
        for key, value in (optimizer.state.get(parameter, {}) if optimizer else {}).items():
            if isinstance(value, torch.Tensor):
                tensors[f"optimizer.{name}.{key}"] = value
    return tensors


def load_tensors(
    model: torch.nn.Module, optimizer: torch.optim.Optimizer | None, tensors: Mapping[str, torch.Tensor]
) -> None:
    """Put a state back; the tensors of the optimizer are kept by it."""
    with torch.no_grad():
        for name, target in [*saved_buffers(model), *trained_parameters(model)]:
            target.copy_(tensors[f"model.{name}"])
    if optimizer is not None:
        load_optimizer(model, optimizer, tensors)


def load_optimizer(
    model: torch.nn.Module, optimizer: torch.optim.Optimizer, tensors: Mapping[str, torch.Tensor]
) -> None:
    """The optimizer's own tensors; what its groups are set to, such as the learning rate, stays as it is."""
    names = {id(parameter): name for name, parameter in trained_parameters(model)}
    by_parameter: dict[str, dict[str, torch.Tensor]] = {}
    for name, tensor in tensors.items():
        if name.startswith("optimizer."):
            parameter_name, _, key = name.removeprefix("optimizer.").rpartition(".")
            by_parameter.setdefault(parameter_name, {})[key] = tensor
    state = optimizer.state_dict()  # counts the parameters through all groups, in their order
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    state["state"] = {
        number: by_parameter[names[id(parameter)]]
        for number, parameter in enumerate(parameters)
        if names.get(id(parameter)) in by_parameter
    }
    optimizer.load_state_dict(state)


def like(name: str, model: torch.nn.Module, shape: torch.Size, dtype: torch.dtype) -> torch.Tensor:
    """A tensor to read `name` of the state into, spread as its parameter is where it has that parameter's shape."""
    known = {**dict(saved_buffers(model)), **dict(trained_parameters(model))}
    parts = name.partition(".")[2]
    parameter = known.get(parts) if name.startswith("model.") else known.get(parts.rpartition(".")[0])
    if parameter is not None and parameter.shape == shape:
        return torch.empty_like(parameter, dtype=dtype, requires_grad=False)
    return torch.empty(shape, dtype=dtype)


def spread(tensor: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """A tensor that every worker has whole, spread as `target` is."""
    if isinstance(target, DTensor) and not isinstance(tensor, DTensor):
        return distribute_tensor(tensor, target.device_mesh, target.placements, src_data_rank=None)
    return tensor


def write_state(file: Path, tensors: Mapping[str, torch.Tensor]) -> int:
    """Write tensors of the CPU as a safetensors file, and have it on the disk; returns its CRC-32."""
    header: dict[str, Any] = {}
    end = 0
    for name, tensor in tensors.items():
        start, end = end, end + tensor.numel() * tensor.element_size()
        header[name] = {
            "dtype": DTYPE_NAMES[tensor.dtype],
            "shape": list(tensor.shape),
            "data_offsets": [start, end],
        }
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    checksum = 0
    head = memoryview(len(text).to_bytes(8, "little") + text)
    with file.open("wb", buffering=0) as stream:
        for view in (head, *(raw(tensor) for tensor in tensors.values())):
            while view:
                written = stream.write(view[:WRITE_BYTES])
                checksum = zlib.crc32(view[:written], checksum)
                view = view[written:]  # noqa: PLW2901 - what is left of it
        os.fsync(stream.fileno())
    return checksum


def raw(tensor: torch.Tensor) -> memoryview:
    """The bytes of a tensor of the CPU."""
    return memoryview(tensor.contiguous().reshape(-1).view(torch.uint8).numpy())
