"""Convert between numpy arrays and torch tensors, and between the names of their types."""

from __future__ import annotations

from typing import Any

import torch

from workbook.backends.base import Array

_NAMES = {
    torch.bool: "TYPE_BOOL",
    torch.uint8: "TYPE_UINT8",
    torch.int8: "TYPE_INT8",
    torch.int16: "TYPE_INT16",
    torch.int32: "TYPE_INT32",
    torch.int64: "TYPE_INT64",
    torch.float16: "TYPE_FP16",
    torch.float32: "TYPE_FP32",
    torch.float64: "TYPE_FP64",
}


def type_name(dtype: Any) -> str:
    """Triton's name of a torch type; if Triton has none, `TYPE_<invalid>`, as Triton writes it."""
    return _NAMES.get(dtype, "TYPE_<invalid>")


def to_tensor(array: Array, device: str) -> Any:
    """The array as a tensor on `device`. On the CPU it is a view: nothing is copied."""
    tensor = torch.from_numpy(array)
    return tensor if device == "cpu" else tensor.to(device)


def to_array(tensor: Any) -> Array:
    """The tensor as an array in main memory."""
    # A view like `fft(x).conj().imag` may store a flag (conjugated, negative), not new values.
    array: Array = tensor.detach().cpu().resolve_conj().resolve_neg().numpy()
    return array
