"""TensorRT plans of the digit classifier, in fp32, fp16 and int8.

    engines.lacking()       # "" where plans can be built, else a sentence: what this machine lacks
    engines.build(onnx, target, {"image": (1, 8, 8)})                   # by trtexec where it is
    engines.build(onnx, target, {"image": (1, 8, 8)}, by="python")      # by TensorRT's Python API

TensorRT builds a plan by timing kernels on the GPU that is to run it. A plan fits that GPU model
and that version of TensorRT. So the plans for NVIDIA's container are built inside it.

Networks are strongly typed: the ONNX file says in which type each layer computes. This works the
same with TensorRT 10 and 11. TensorRT 11 has no other way: its flags for fp16 and int8 are gone,
and so is calibration. So fp16 comes from an ONNX file in fp16, and int8 from one with pairs of
QuantizeLinear and DequantizeLinear (`digits_onnx_int8`).

Not verified on a GPU. Names of the API are tested against NVIDIA's bindings 10.4 and 11.4.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import shutil
import subprocess
from collections.abc import Callable, Mapping
from importlib import metadata
from pathlib import Path
from typing import Literal

from . import data
from .recipe import Recipe

#: Batch sizes: the smallest, the one to be fastest at, the largest.
BATCHES = (1, 8, 64)
#: Memory on the GPU that a layer may use beside its tensors.
WORKSPACE_MIB = 1024
#: Images that the int8 scales are measured on.
CALIBRATION = 512

_IMAGE = {"image": (1, 8, 8)}
#: Where NVIDIA's containers keep trtexec; it is not on their PATH.
_TRTEXEC = Path("/usr/src/tensorrt/bin/trtexec")
_DISTRIBUTIONS = ("tensorrt", "tensorrt-cu12", "tensorrt-cu13")

Way = Literal["trtexec", "python"]


def lacking() -> str:
    """What this machine lacks to build plans, as a sentence; "" where it can."""
    if not tools():
        return (
            "TensorRT is not installed: there is neither its Python package (`tensorrt`) nor "
            "trtexec."
        )
    if not gpu():
        return "TensorRT builds a plan on the GPU that is to run it, and no NVIDIA GPU answers."
    return ""


def tools() -> tuple[Way, ...]:
    """The tools of TensorRT that are here, the preferred one first: trtexec, python."""
    found: list[Way] = [] if _trtexec() is None else ["trtexec"]
    if importlib.util.find_spec("tensorrt") is not None:
        found.append("python")
    return tuple(found)


def build(
    onnx: Path,
    target: Path,
    inputs: Mapping[str, tuple[int, ...]],
    *,
    by: Way | None = None,
    batches: tuple[int, int, int] = BATCHES,
) -> None:
    """Build a plan from an ONNX file whose first dimension is the batch.

    Args:
        onnx: the network; its types are those of the plan.
        target: the plan to write.
        inputs: shapes without the batch dimension, by name.
        by: with which tool; by default trtexec where it is, since in NVIDIA's container its version
            is that of the server. Else the Python API.
        batches: the smallest batch, the one to be fastest at, and the largest.

    Raises:
        RuntimeError: TensorRT refused the network, or is not there; one line says why.
    """
    way = by or next(iter(tools()), None)
    if way is None:
        raise RuntimeError(lacking())
    if way == "trtexec":
        _by_trtexec(trtexec_command(onnx, target, inputs, batches))
    else:
        _by_python(onnx, target, inputs, batches)
    if not target.is_file():
        raise RuntimeError(f"TensorRT wrote no plan from {onnx}")


def trtexec_command(
    onnx: Path,
    target: Path,
    inputs: Mapping[str, tuple[int, ...]],
    batches: tuple[int, int, int] = BATCHES,
) -> list[str]:
    """The command line that builds a plan with trtexec, without measuring it afterwards.

    trtexec_command(Path("model.onnx"), Path("model.plan"), {"image": (1, 8, 8)})
    """
    shapes = [
        f"--{which}Shapes="
        + ",".join(f"{name}:{'x'.join(map(str, (rows, *dims)))}" for name, dims in inputs.items())
        for which, rows in zip(("min", "opt", "max"), batches, strict=True)
    ]
    return [
        str(_trtexec() or _TRTEXEC),
        f"--onnx={onnx}",
        f"--saveEngine={target}",
        *shapes,
        f"--memPoolSize=workspace:{WORKSPACE_MIB}",
        "--stronglyTyped",  # TensorRT 11 knows nothing else, and still takes the option
        "--skipInference",
    ]


@functools.cache
def gpu() -> str:
    """The names of the GPUs that answer, one per line; "" where there is none."""
    try:
        done = subprocess.run(
            ["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"],
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.strip()


def fits() -> str:
    """What a plan fits, for its key: the GPU, and the TensorRT that builds it."""
    tool = _trtexec()
    if tool is not None:
        state = tool.resolve().stat()
        version = f"trtexec {state.st_size} {state.st_mtime_ns}"
    else:
        found = {d.name.lower() for d in metadata.distributions() if d.name}
        version = " ".join(f"{n} {metadata.version(n)}" for n in _DISTRIBUTIONS if n in found)
    return f"{version} on {gpu()}"


def digits_onnx_int8(target: Path) -> None:
    """ONNX with the scales of int8 in it: image (n, 1, 8, 8) → logits (n, 10), fp32 outside."""
    from . import checkpoint

    quantize(checkpoint("digits_onnx"), target, data.digits().x_train[:CALIBRATION], batches=8)


def quantize(raw: Path, target: Path, images: data.Array, *, batches: int) -> None:
    """Write an ONNX file with pairs of QuantizeLinear and DequantizeLinear, as TensorRT wants them.

    Scales are symmetric (zero points are 0), one per channel for weights; biases stay fp32; only
    the inputs of layers with weights are quantized, and TensorRT fuses the rest.

    Args:
        raw: the network in fp32; its input is called `image`.
        target: the file to write.
        images: examples, on which the scales are measured; the first dimension is the example.
        batches: into how many batches they are split.
    """
    import numpy as np
    from onnxruntime import quantization

    class Images(quantization.CalibrationDataReader):  # type: ignore[misc]
        def __init__(self) -> None:
            self._batches = iter(np.array_split(images, batches))

        def get_next(self) -> dict[str, data.Array] | None:
            batch = next(self._batches, None)
            return None if batch is None else {"image": batch}

    layers = ["Conv", "Gemm"]
    quantization.quantize_static(
        raw,
        target,
        Images(),
        quant_format=quantization.QuantFormat.QDQ,
        op_types_to_quantize=layers,
        per_channel=True,
        activation_type=quantization.QuantType.QInt8,
        weight_type=quantization.QuantType.QInt8,
        extra_options={
            "ActivationSymmetric": True,
            "WeightSymmetric": True,
            "QuantizeBias": False,
            "OpTypesToExcludeOutputQuantization": layers,
        },
    )


def digits_plan_fp32(target: Path) -> None:
    """A plan from the fp32 network. On GPUs since Ampere its convolutions may compute in TF32."""
    _plan("digits_onnx", target)


def digits_plan_fp16(target: Path) -> None:
    """A plan from the fp16 network; fp32 outside."""
    _plan("digits_onnx_fp16", target)


def digits_plan_int8(target: Path) -> None:
    """A plan from the network with int8 scales; fp32 outside."""
    _plan("digits_onnx_int8", target)


def _plan(network: str, target: Path) -> None:
    from . import checkpoint

    build(checkpoint(network), target, _IMAGE)


def _trtexec() -> Path | None:
    found = shutil.which("trtexec") or shutil.which(_TRTEXEC)
    return None if found is None else Path(found)


def _by_trtexec(command: list[str]) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError as error:
        raise RuntimeError(f"{command[0]} cannot be run: {error.strerror}") from None
    print(done.stdout, done.stderr, sep="\n")
    if done.returncode:
        lines = (done.stdout + done.stderr).splitlines()
        errors = [line.partition("[E]")[2].strip() for line in lines if "[E]" in line]
        why = errors[0] if errors else f"it ended with code {done.returncode}"
        raise RuntimeError(f"trtexec built no plan: {why}")


def _by_python(
    onnx: Path, target: Path, inputs: Mapping[str, tuple[int, ...]], batches: tuple[int, int, int]
) -> None:
    try:
        trt = importlib.import_module("tensorrt")
    except ImportError as error:
        raise RuntimeError(f"the tensorrt package cannot be imported: {error}") from None
    logger = trt.Logger(trt.Logger.WARNING)
    builder = trt.Builder(logger)
    network = builder.create_network(1 << int(trt.NetworkDefinitionCreationFlag.STRONGLY_TYPED))
    parser = trt.OnnxParser(network, logger)
    if not parser.parse_from_file(str(onnx)):
        problems = [parser.get_error(i).desc() for i in range(parser.num_errors)]
        raise RuntimeError(f"TensorRT does not read {onnx}: {'; '.join(problems)}")
    profile = builder.create_optimization_profile()
    for name, dims in inputs.items():
        profile.set_shape(name, *((rows, *dims) for rows in batches))
    config = builder.create_builder_config()
    config.set_memory_pool_limit(trt.MemoryPoolType.WORKSPACE, WORKSPACE_MIB << 20)
    config.add_optimization_profile(profile)
    plan = builder.build_serialized_network(network, config)
    if plan is None:
        raise RuntimeError("TensorRT built no plan; the lines above say why")
    target.write_bytes(plan)


def _plan_recipe(precision: str, function: Callable[[Path], None], network: str) -> Recipe:
    return Recipe(
        f"digits_plan_{precision}",
        f"the digit classifier as a TensorRT plan, {precision}",
        function,
        "model.plan",
        needs=(network,),
        uses=(),
        on_request=True,
        fits=fits,
    )


RECIPES = (
    Recipe(
        "digits_onnx_int8",
        "the digit classifier as ONNX with int8 scales, fp32 outside",
        digits_onnx_int8,
        "model.onnx",
        needs=("digits_onnx",),
        packages=("onnx", "onnxruntime-gpu"),
        on_request=True,
    ),
    _plan_recipe("fp32", digits_plan_fp32, "digits_onnx"),
    _plan_recipe("fp16", digits_plan_fp16, "digits_onnx_fp16"),
    _plan_recipe("int8", digits_plan_int8, "digits_onnx_int8"),
)
