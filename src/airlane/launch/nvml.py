"""NVIDIA GPUs through the driver's own library (NVML), which is there wherever a driver is.

Source of names, structures and units: NVIDIA's NVML API reference.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Optional, Tuple

_LIBRARY = "libnvidia-ml.so.1"
_NAME_BYTES = 96
_MILLIWATTS = 1000.0


@dataclass(frozen=True)
class Gpu:
    """One GPU now; None where the device does not tell."""

    index: int
    name: str
    uuid: str
    memory_total_bytes: Optional[int]
    memory_used_bytes: Optional[int]
    utilization_percentage: Optional[float]
    power_watts: Optional[float]
    power_limit_watts: Optional[float]


class _Memory(ctypes.Structure):
    _fields_ = [("total", ctypes.c_ulonglong), ("free", ctypes.c_ulonglong), ("used", ctypes.c_ulonglong)]


class _Utilization(ctypes.Structure):
    _fields_ = [("gpu", ctypes.c_uint), ("memory", ctypes.c_uint)]


def gpus() -> Tuple[Gpu, ...]:
    """The GPUs of this machine by index; none where there is no driver. Never raises."""
    session = Nvml.open()
    if session is None:
        return ()
    try:
        return session.gpus()
    finally:
        session.close()


class Nvml:
    """An open session; opening one can take a second where the driver is not kept loaded."""

    def __init__(self, library: ctypes.CDLL) -> None:
        self._library = library

    @classmethod
    def open(cls) -> Optional[Nvml]:
        """None where there is no library, or no driver behind it."""
        try:
            session = cls(ctypes.CDLL(_LIBRARY))
        except OSError:
            return None
        return session if session._call("nvmlInit_v2") else None

    def close(self) -> None:
        self._call("nvmlShutdown")

    def gpus(self) -> Tuple[Gpu, ...]:
        """Every GPU that answers."""
        count = ctypes.c_uint()
        if not self._call("nvmlDeviceGetCount_v2", ctypes.byref(count)):
            return ()
        found = (self._gpu(index) for index in range(count.value))
        return tuple(gpu for gpu in found if gpu is not None)

    def _gpu(self, index: int) -> Optional[Gpu]:
        handle = ctypes.c_void_p()
        if not self._call("nvmlDeviceGetHandleByIndex_v2", ctypes.c_uint(index), ctypes.byref(handle)):
            return None
        memory = _Memory()
        memory_known = self._call("nvmlDeviceGetMemoryInfo", handle, ctypes.byref(memory))
        load = _Utilization()
        load_known = self._call("nvmlDeviceGetUtilizationRates", handle, ctypes.byref(load))
        return Gpu(
            index=index,
            name=self._text("nvmlDeviceGetName", handle),
            uuid=self._text("nvmlDeviceGetUUID", handle),
            memory_total_bytes=memory.total if memory_known else None,
            memory_used_bytes=memory.used if memory_known else None,
            utilization_percentage=float(load.gpu) if load_known else None,
            power_watts=self._watts("nvmlDeviceGetPowerUsage", handle),
            power_limit_watts=self._watts("nvmlDeviceGetEnforcedPowerLimit", handle),
        )

    def _text(self, function: str, handle: ctypes.c_void_p) -> str:
        buffer = ctypes.create_string_buffer(_NAME_BYTES)
        self._call(function, handle, buffer, ctypes.c_uint(_NAME_BYTES))
        return buffer.value.decode(errors="replace")

    def _watts(self, function: str, handle: ctypes.c_void_p) -> Optional[float]:
        milliwatts = ctypes.c_uint()
        known = self._call(function, handle, ctypes.byref(milliwatts))
        return milliwatts.value / _MILLIWATTS if known else None

    def _call(self, function: str, *arguments: object) -> bool:
        """Whether the library has the function and it succeeded."""
        try:
            entry = getattr(self._library, function)
        except AttributeError:
            return False
        return bool(entry(*arguments) == 0)
