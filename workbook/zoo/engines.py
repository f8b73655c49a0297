"""TensorRT plans: of the digit classifier in fp32, fp16 and int8, and of any other ONNX file.

    built = engines.build(Path("model.onnx"), Path("1/model.plan"), engines.profile_of({"x": (4,)}))
    built.record.layers     # what was fused; the same is in 1/model.plan.json
    built.log               # all that TensorRT said
    engines.lacking()       # "" where plans can be built, else a sentence: what this machine lacks
    engines.cannot_run()    # "" where they can run, too

There are three ways, in this order:

- `trtexec`: NVIDIA's program, in its containers. There its version is that of the server
- `python`: TensorRT's Python API, the package `tensorrt`
- `rtx`: TensorRT for RTX, the package `tensorrt_rtx`. It has the same API

The first two time kernels on the GPU that is to run the plan. Such a plan fits that GPU model and
that version of TensorRT; the plans for NVIDIA's container are built inside it. TensorRT for RTX
needs no GPU to build: its plan is for several kinds of GPU, and its runtime compiles the kernels on
the GPU. It is another product, with a runtime of its own: NVIDIA's container does not take its
plans.

Networks are strongly typed: the ONNX file says in which type each layer computes. This works the
same with TensorRT 10 and 11 and TensorRT for RTX. TensorRT 11 has no other way: its flags for fp16
and int8 are gone, and so is calibration. So fp16 comes from an ONNX file in fp16, and int8 from one
with pairs of QuantizeLinear and DequantizeLinear (`digits_onnx_int8`).

The ways `trtexec` and `python` are not verified on a GPU. Names of the API are tested against
NVIDIA's bindings 10.4 and 11.4; `rtx` is run by the tests.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib.util
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any, Literal

from ..backends.tensorrt import record
from ..backends.tensorrt.record import PRODUCTS, TYPES, Port, Record, Shape
from . import data, engine_builder, engine_log
from .recipe import Recipe

#: Batch sizes: the smallest, the one to be fastest at, the largest.
BATCHES = (1, 8, 64)
#: Memory on the GPU that a layer may use beside its tensors.
WORKSPACE_MIB = 1024
#: Images that the int8 scales are measured on.
CALIBRATION = 512
#: The compute capabilities of the GPUs that run plans of TensorRT for RTX: Ampere (8.0, 8.6), Ada
#: (8.9), Blackwell (12.0, 12.1). It builds for Turing (7.5) too, where a network allows it.
RTX = ("8.0", "8.6", "8.9", "12.0", "12.1")

_IMAGE = {"image": (1, 8, 8)}
#: Where NVIDIA's containers keep trtexec; it is not on their PATH.
_TRTEXEC = Path("/usr/src/tensorrt/bin/trtexec")
_DISTRIBUTIONS = ("tensorrt", "tensorrt-cu12", "tensorrt-cu13")

Way = Literal["trtexec", "python", "rtx"]
#: Input → the smallest shape, the one to be fastest at, and the largest, all with the batch.
Profile = Mapping[str, tuple[Shape, Shape, Shape]]


class EngineError(RuntimeError):
    """There is no plan. The message says why in one line, in TensorRT's words.

    Attributes:
        log: all that TensorRT said; each line begins with its severity.
    """

    def __init__(self, message: str, log: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.log = tuple(log)


@dataclasses.dataclass(frozen=True)
class Built:
    """A plan that was built.

    Attributes:
        record: what is known of it; the file beside the plan says the same. None for trtexec.
        log: all that TensorRT said. Each line begins with its severity, except those of trtexec.
    """

    record: Record | None
    log: tuple[str, ...]


def lacking() -> str:
    """What this machine lacks to build plans, as a sentence; "" where it can."""
    if tools():
        return ""
    return (
        "Neither TensorRT for RTX (the package `tensorrt_rtx`) is installed nor, beside an NVIDIA "
        "GPU, TensorRT (`tensorrt` or trtexec)."
    )


def cannot_run() -> str:
    """Why plans that are built here cannot run here, as a sentence; "" where they can.

    A GPU for which TensorRT for RTX has no target is taken for one that cannot.
    """
    if lacking():
        return lacking()
    if not gpu():
        return "A TensorRT engine runs on an NVIDIA GPU only, and none answers."
    if tools()[0] == "rtx" and not set(_capabilities()) & set(RTX):
        return f"TensorRT for RTX has no engines for this GPU: {gpu().splitlines()[0]}."
    return ""


def tools() -> tuple[Way, ...]:
    """The ways to build a plan on this machine, the preferred one first."""
    found: list[Way] = []
    if gpu():
        found += [] if _trtexec() is None else ["trtexec"]
        found += [] if importlib.util.find_spec("tensorrt") is None else ["python"]
    if importlib.util.find_spec("tensorrt_rtx") is not None:
        found.append("rtx")
    return tuple(found)


def profile_of(
    inputs: Mapping[str, tuple[int, ...]], batches: tuple[int, int, int] = BATCHES
) -> Profile:
    """The profile of a network whose first dimension alone is variable.

        profile_of({"image": (1, 8, 8)}, (1, 8, 64))
        # {"image": ((1, 1, 8, 8), (8, 1, 8, 8), (64, 1, 8, 8))}

    Args:
        inputs: shapes without the batch dimension, by name.
        batches: the smallest batch, the one to be fastest at, and the largest.
    """
    smallest, optimum, largest = batches
    return {
        name: ((smallest, *dims), (optimum, *dims), (largest, *dims))
        for name, dims in inputs.items()
    }


def build(
    onnx: Path,
    target: Path,
    profile: Profile,
    *,
    by: Way | None = None,
    compute_capabilities: Sequence[str] = (),
    workspace_mib: int = WORKSPACE_MIB,
) -> Built:
    """Build a plan from an ONNX file; beside it, `<plan>.json` says what is known of it.

    A plan that is there already stays if this one cannot be built.

    Args:
        onnx: the network; its types are those of the plan.
        target: the plan to write.
        profile: the shapes that the plan takes, for each input with a variable dimension.
        by: in which way; by default the first of `tools()`.
        compute_capabilities: of the GPUs that the plan is for, e.g. `["8.6"]`; by default RTX. The
            way `rtx` alone has a choice.
        workspace_mib: memory on the GPU that a layer may use beside its tensors.

    Raises:
        EngineError: TensorRT refused the network or the profile, or is not there.
    """
    way = by or next(iter(tools()), None)
    if way is None:
        raise EngineError(lacking())
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".building-") as folder:
        plan = Path(folder, target.name)
        if way == "trtexec":
            built = _by_trtexec(onnx, plan, profile, workspace_mib)
        else:
            product = "tensorrt" if way == "python" else "tensorrt_rtx"
            built = _by_python(
                product, onnx, plan, profile, list(compute_capabilities), workspace_mib
            )
        # The record of another plan is not believed, so it does not matter which comes first.
        for file in sorted(Path(folder).iterdir()):
            file.replace(target.with_name(file.name))
    if built.record is None:
        record.path(target).unlink(missing_ok=True)
    return built


def trtexec_command(
    onnx: Path, target: Path, profile: Profile, workspace_mib: int = WORKSPACE_MIB
) -> list[str]:
    """The command line that builds a plan with trtexec, without measuring it afterwards.

    trtexec_command(Path("model.onnx"), Path("model.plan"), profile_of({"image": (1, 8, 8)}))
    """
    shapes = [
        f"--{which}Shapes="
        + ",".join(f"{name}:{'x'.join(map(str, given[i]))}" for name, given in profile.items())
        for i, which in enumerate(("min", "opt", "max"))
    ]
    return [
        str(_trtexec() or _TRTEXEC),
        f"--onnx={onnx}",
        f"--saveEngine={target}",
        *(shapes if profile else ()),
        f"--memPoolSize=workspace:{workspace_mib}",
        "--stronglyTyped",  # TensorRT 11 knows nothing else, and still takes the option
        "--skipInference",
    ]


@functools.cache
def gpu() -> str:
    """The GPUs that answer, one per line with its compute capability; "" where there is none."""
    try:
        done = subprocess.run(
            ["nvidia-smi", "--query-gpu=name,compute_cap", "--format=csv,noheader"],
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.strip()


def fits() -> str:
    """What a plan fits, for its key: the TensorRT that builds it, and the GPU if it fits one."""
    way, tool = next(iter(tools()), None), _trtexec()
    if way == "rtx":
        return f"tensorrt_rtx {metadata.version('tensorrt-rtx-cu12')}"
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

    try:
        build(checkpoint(network), target / "model.plan", profile_of(_IMAGE))
    except EngineError as error:
        print(*error.log, sep="\n")  # into the recipe's log
        raise


def _trtexec() -> Path | None:
    found = shutil.which("trtexec") or shutil.which(_TRTEXEC)
    return None if found is None else Path(found)


def _capabilities() -> list[str]:
    return [line.rpartition(",")[2].strip() for line in gpu().splitlines()]


def _by_trtexec(onnx: Path, plan: Path, profile: Profile, workspace_mib: int) -> Built:
    command = trtexec_command(onnx, plan, profile, workspace_mib)
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError as error:
        raise EngineError(f"{command[0]} cannot be run: {error.strerror}") from None
    lines = (done.stdout + done.stderr).splitlines()
    if done.returncode:
        errors = [line.partition("[E]")[2].strip() for line in lines if "[E]" in line]
        why = errors[0] if errors else f"it ended with code {done.returncode}"
        raise EngineError(f"trtexec built no plan: {why}", lines)
    if not plan.is_file():
        raise EngineError(f"trtexec wrote no plan from {onnx}", lines)
    return Built(None, tuple(lines))


def _by_python(
    product: str,
    onnx: Path,
    plan: Path,
    profile: Mapping[str, Sequence[Shape]],
    compute_capabilities: list[str],
    workspace_mib: int,
) -> Built:
    """Build a plan through the Python API, in a process of its own, and write its record."""
    profile = {n: [tuple(map(int, shape)) for shape in given] for n, given in profile.items()}
    request = {
        "product": product,
        "onnx": str(onnx.absolute()),
        "plan": str(plan.absolute()),
        "profile": profile,
        "compute_capabilities": compute_capabilities,
        "workspace_mib": workspace_mib,
    }
    answer = _in_a_process(request)
    log = tuple(answer["log"])
    if answer["problem"]:
        raise EngineError(
            f"{PRODUCTS[product]} builds no engine from {onnx.name}: {answer['problem']}", log
        )

    def ports(found: Sequence[Mapping[str, Any]]) -> tuple[Port, ...]:
        return tuple(
            Port(
                tensor["name"],
                TYPES.get(tensor["type"], "TYPE_INVALID"),
                tuple(tensor["dims"]),
                *profile.get(tensor["name"], ()),
            )
            for tensor in found
        )

    memory = engine_log.memory(log)
    found = Record.of(
        plan,
        product=product,
        version=answer["version"],
        compute_capabilities=tuple(answer["compute_capabilities"] or _capabilities()),
        inputs=ports(answer["inputs"]),
        outputs=ports(answer["outputs"]),
        layers=engine_log.layers(log),
        activation_bytes=memory.get("Activation"),
        weights_bytes=memory.get("Weights"),
        seconds=round(answer["seconds"], 3),
    )
    found.save(plan)
    return Built(found, log)


def _in_a_process(request: Mapping[str, Any]) -> dict[str, Any]:
    """Run engine_builder.py with a request; returns its answer."""
    with tempfile.TemporaryDirectory() as folder:
        question, result = Path(folder, "request.json"), Path(folder, "answer.json")
        question.write_text(json.dumps(request), encoding="utf-8")
        command = [sys.executable, "-P", engine_builder.__file__, str(question), str(result)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode == 0:
            answer: dict[str, Any] = json.loads(result.read_text(encoding="utf-8"))
            return answer
    last = (done.stderr.strip().splitlines() or [""])[-1]
    how = f"by signal {-done.returncode}" if done.returncode < 0 else f"with an error: {last}"
    return {"log": done.stderr.splitlines(), "problem": f"the builder's process ended {how}"}


def _plan_recipe(precision: str, function: Callable[[Path], None], network: str) -> Recipe:
    return Recipe(
        f"digits_plan_{precision}",
        f"the digit classifier as a TensorRT plan, {precision}",
        function,
        "engine",
        needs=(network,),
        uses=("engine_builder", "engine_log", "../backends/tensorrt/record.py"),
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
