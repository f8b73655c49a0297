"""Providers that ONNX Runtime does not bring itself: plug-ins, registered in this process.

OpenVINO runs on every x86-64 processor, and so does the provider in NVIDIA's container. Its plug-in
for ONNX Runtime offers processors of Intel only. For others it is told that the processor is
Intel's, while it is registered (`_any_processor_is_intels`).

What the container sets for OpenVINO is set here too: FP32 and one stream (read in ONNX Runtime's
openvino_provider_factory.cc and provider_bridge_ort.cc). There are two differences. An instance
takes an equal share of the cores, the container's takes all of them. This plug-in compiles a model
once, the container's provider compiles it again at the first request of each new shape.

TensorRT for RTX takes the place of TensorRT where that is not installed. Not verified on a GPU.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import importlib
import importlib.util
import json
import mmap
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from workbook.backends.onnxruntime.accelerators import OPENVINO, TENSORRT, Provider, Refused

RTX = "NvTensorRTRTXExecutionProvider"

#: For each provider: the module of its plug-in, and the package to install.
PACKAGES = {
    OPENVINO: ("onnxruntime_ep_openvino", "onnxruntime-ep-openvino==1.8.1"),
    RTX: ("onnxruntime_ep_nv_tensorrt_rtx", "onnxruntime-ep-nv-tensorrt-rtx-cu12==0.5.0"),
}
#: Options of ONNX Runtime's TensorRT provider → the same of the RTX plug-in's. It has no others.
RTX_OPTIONS = {
    "trt_max_workspace_size": "nv_max_workspace_size",
    "trt_profile_min_shapes": "nv_profile_min_shapes",
    "trt_profile_max_shapes": "nv_profile_max_shapes",
    "trt_profile_opt_shapes": "nv_profile_opt_shapes",
    "trt_dump_subgraphs": "nv_dump_subgraphs",
    "trt_detailed_build_log": "nv_detailed_build_log",
    "trt_cuda_graph_enable": "enable_cuda_graph",
    "trt_engine_cache_path": "nv_runtime_cache_path",
}

# Places in ONNX Runtime's table of functions (struct OrtApi), which only ever grows at its end.
_HARDWARE_TYPE, _HARDWARE_VENDOR = 307, 308
#: The variable of OpenVINO's plug-in that points to this table.
_TABLE = "_ZZN3Ort6detail6Global3ApiEPK6OrtApiE3api"
_INTEL, _CPU = 0x8086, 0


def open_session(
    path: Path,
    options: Any,
    providers: list[Provider],
    threads: int = 1,
    warn: Callable[[str, str], None] = print,
) -> Any:
    """Open a session whose providers may be plug-ins; a missing plug-in is left out.

    Args:
        path: the ONNX file.
        options: the SessionOptions.
        providers: the providers' names and options, the preferred one first.
        threads: how many threads OpenVINO takes.
        warn: called with what is missing, and what to do.

    Raises:
        Refused: a plug-in is there and cannot be loaded.
        Exception: ONNX Runtime cannot open the session.
    """
    import onnxruntime as ort

    usable: list[tuple[str, dict[str, str], list[Any]]] = []
    for wanted, given in providers:
        name, found = wanted, given
        if wanted == TENSORRT and not importlib.util.find_spec("tensorrt"):
            name, found = RTX, rtx_options(given)
        if name not in PACKAGES:
            usable.append((name, found, []))
        elif devices := _devices(name, given.get("device_id"), warn):
            settings = {"load_config": _openvino_config(threads)} if name == OPENVINO else found
            usable.append((name, settings, devices))
        elif wanted == TENSORRT:  # ONNX Runtime says what TensorRT lacks
            usable.append((wanted, given, []))
    if not any(devices for _, _, devices in usable):
        plain = [(name, found) for name, found, _ in usable]
        return ort.InferenceSession(path, options, providers=plain, enable_fallback=0)
    for name, found, devices in usable:
        if devices:
            options.add_provider_for_devices(devices, found)
        elif name != "CPUExecutionProvider":  # it is always there
            options.add_provider(name, found)
    return ort.InferenceSession(path, options, enable_fallback=0)


def describe(session: Any) -> str:
    """The providers of a session in their order, OpenVINO's with its settings."""
    options = session.get_provider_options()
    texts = []
    for name in session.get_providers():
        settings = json.loads(options.get(name, {}).get("load_config", "{}")).get("CPU", {})
        given = ", ".join(f"{key} {value}" for key, value in settings.items())
        texts.append(f"{name} ({given})" if given else name)
    return ", ".join(texts)


def _openvino_config(threads: int) -> str:
    settings = {
        "INFERENCE_PRECISION_HINT": "f32",
        "NUM_STREAMS": "1",
        "INFERENCE_NUM_THREADS": str(threads),
    }
    return json.dumps({"CPU": settings})


def rtx_options(given: Mapping[str, str]) -> dict[str, str]:
    """Options of the TensorRT provider as the RTX plug-in has them; it lacks most of them.

    In its profiles, inputs are separated by semicolons, in those of TensorRT's by commas.
    """
    caches = given.get("trt_engine_cache_enable", "0").lower() in ("1", "on", "true")
    return {
        name: given[key].replace(",", ";") if "_shapes" in key else given[key]
        for key, name in RTX_OPTIONS.items()
        if key in given and (caches or key != "trt_engine_cache_path")
    }


def _devices(name: str, number: str | None, warn: Callable[[str, str], None]) -> list[Any]:
    """The device that a plug-in offers: the processor, or the GPU with this number; [] if none."""
    module, package = PACKAGES[name]
    if importlib.util.find_spec(module) is None:
        warn(
            f"It runs without {name}, because the package {package} is not installed.",
            f"Install it: .venv/bin/pip install --no-deps {package}",
        )
        return []
    try:
        offered = _offered(name)
    except Exception as error:  # the package's own, or ONNX Runtime's
        raise Refused(
            f"the plug-in for {name} cannot be loaded: {error}. To do: install it again with "
            f"`.venv/bin/pip install --force-reinstall --no-deps {package}`"
        ) from None
    if name == RTX:
        return offered[int(number or 0) :][:1]
    processors = [device for device in offered if _is_processor(device)]
    if not processors:
        warn(
            f"It runs without {name}, because its plug-in offers nothing for this processor.",
            "Measure this accelerator on a machine with a processor of Intel.",
        )
    return processors[:1]


def _is_processor(device: Any) -> bool:
    """Whether a device that OpenVINO's plug-in offers is the processor, and not a GPU or an NPU."""
    return bool(device.ep_metadata.get("ov_device") == "CPU")


@functools.cache
def _offered(name: str) -> list[Any]:
    """Register a plug-in, and return the devices that it offers."""
    import onnxruntime as ort

    library = importlib.import_module(PACKAGES[name][0]).get_library_path()
    for cuda in Path(library).parent.glob("libcudart.so.*"):  # RTX's, under another name
        ctypes.CDLL(str(cuda))
    register = functools.partial(ort.register_execution_provider_library, name, library)

    def offered() -> list[Any]:
        return [device for device in ort.get_ep_devices() if device.ep_name == name]

    register()
    if name == OPENVINO and not any(map(_is_processor, offered())):
        plugin = ctypes.CDLL(library)  # it stays in memory when it is unregistered
        ort.unregister_execution_provider_library(name)
        with contextlib.suppress(ValueError), _any_processor_is_intels(plugin):
            register()
    return offered()


@contextlib.contextmanager
def _any_processor_is_intels(plugin: ctypes.CDLL) -> Iterator[None]:
    """While this is open, ONNX Runtime tells plug-ins that the processor is made by Intel.

    Args:
        plugin: OpenVINO's plug-in. It has been registered, so it knows ONNX Runtime's table.

    Raises:
        ValueError: it is another version, without the variable that is read here.
    """
    table = ctypes.c_void_p.in_dll(plugin, _TABLE).value
    if table is None:
        raise ValueError("the plug-in does not know the table")
    number = ctypes.CFUNCTYPE(ctypes.c_uint32, ctypes.c_void_p)
    places = (ctypes.c_void_p * (_HARDWARE_VENDOR + 1)).from_address(table)
    usual = places[_HARDWARE_VENDOR]
    kind, vendor = number(places[_HARDWARE_TYPE] or 0), number(usual or 0)

    @number  # type: ignore[untyped-decorator]
    def answer(device: int) -> int:
        return _INTEL if kind(device) == _CPU else int(vendor(device))

    page = (table + ctypes.sizeof(ctypes.c_void_p) * _HARDWARE_VENDOR) & -mmap.PAGESIZE

    def protect(access: int) -> None:
        if ctypes.CDLL(None).mprotect(ctypes.c_void_p(page), mmap.PAGESIZE, access):
            raise ValueError("the table cannot be written to")

    protect(mmap.PROT_READ | mmap.PROT_WRITE)
    places[_HARDWARE_VENDOR] = ctypes.cast(answer, ctypes.c_void_p).value
    try:
        yield
    finally:
        places[_HARDWARE_VENDOR] = usual
        protect(mmap.PROT_READ)
