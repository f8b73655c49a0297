"""The stand-in for Triton's vLLM backend: the same engine, vLLM's own build for the CPU.

The rules are those of triton-inference-server/vllm_backend: `1/model.json` holds the engine's
arguments; the config names no inputs and outputs; the model is decoupled, and vLLM itself does the
batching (continuous batching). The engine runs in a process of its own, so that sending answers
does not delay its steps. That process also computes the network's steps (one_process.py). Each
request is a coroutine on one event loop, in a thread of this process.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import importlib.util
import json
import multiprocessing
import os
import sys
import tempfile
import threading
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import triton_python_backend_utils as pb_utils

from workbook.backends.base import BadModel, BadRequest, Config, StandIn
from workbook.backends.vllm import one_process, sampling_parameters, tensors

FINAL = pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL
#: Seconds between two checks, during a request, that its client waits and the engine still runs.
LOOK = 0.1
#: Upstream's message.
UNHEALTHY = "Model is unavailable due to unhealthy vLLM engine"
#: Environment variables for vLLM's CPU build. A variable that the user has set is kept.
#: OMP_WAIT_POLICY passive: waiting threads sleep. Waking them costs time in each step, but if they
#: spin (OpenMP's default), another program on the same cores makes each step ten times slower.
#: VLLM_CPU_KVCACHE_SPACE: GiB for keys and values.
#: VLLM_CPU_OMP_THREADS_BIND nobind: vLLM's default reserves one core for the server, which is half
#: of a machine with two cores.
#: VLLM_NO_USAGE_STATS: vLLM sends no usage statistics.
SETTINGS = {
    "OMP_WAIT_POLICY": "passive",
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "VLLM_NO_USAGE_STATS": "1",
    "VLLM_LOGGING_LEVEL": "ERROR",
}


class TritonPythonModel(StandIn):
    """A language model on vLLM's asynchronous engine."""

    backend: ClassVar[str] = "vllm"
    #: The package that generates text, and the engine's owner as messages name it.
    package: ClassVar[str] = "vllm"
    whose: ClassVar[str] = "vLLM's"

    @classmethod
    def auto_complete_config(cls, auto: Any) -> Any:
        """Fill in every tensor that the config leaves out, as upstream does."""
        raw = auto.as_dict()
        for wanted, present, add in (
            (tensors.INPUTS, raw["input"], auto.add_input),
            (tensors.OUTPUTS, raw["output"], auto.add_output),
        ):
            names = {entry["name"] for entry in present}
            for entry in wanted:
                if entry["name"] not in names:
                    add(dict(entry))
        auto.set_model_transaction_policy({"decoupled": True})
        auto.set_max_batch_size(0)
        return auto

    def load(self) -> None:
        """Start the engine, and wait until it can answer."""
        arguments = engine_arguments(self.config)
        if importlib.util.find_spec(self.package) is None:
            raise BadModel(
                f"unable to load model '{self.config.name}', vLLM is not installed here. To "
                "install its CPU build and load the model, run `make vllm` in the course's folder"
            )
        for name, value in SETTINGS.items():
            os.environ.setdefault(name, value)
        if Path(arguments["model"]).is_dir():
            os.environ["HF_HUB_OFFLINE"] = "1"
        elif why := no_weights(arguments["model"]):
            raise BadModel(
                f"unable to load model '{self.config.name}', there are no weights at "
                f"'{arguments['model']}': no such folder in {self.config.directory.parent}, {why}"
            )
        # By default Python would start a child process with the stub, which is not an interpreter.
        multiprocessing.set_executable(str(_python()))
        self._healthy = self.config.boolean("ENABLE_VLLM_HEALTH_CHECK", False)
        self._metrics = self.config.boolean("REPORT_CUSTOM_METRICS", False)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="vllm requests")
        self._thread.start()
        self._tasks: set[asyncio.Task[None]] = set()
        self._loggers: list[Any] = []
        self._until_end = contextlib.ExitStack()
        try:
            self._engine = self._wait(self._start(arguments))
        except Exception as error:
            self._end()
            raise BadModel(
                f"unable to load model '{self.config.name}', {self.whose} engine did not start: "
                f"{_message(error)}"
            ) from error
        self.log(f"engine ready, {arguments['model']}")

    def execute(self, requests: Sequence[Any]) -> None:  # type: ignore[override]  # decoupled
        """Pass the requests to the event loop; each is answered through its response sender."""
        if self._healthy and not self._check_health(requests):
            return
        for request in requests:
            self._loop.call_soon_threadsafe(self._begin, request)

    def unload(self) -> None:
        """Let running requests finish, then end the engine."""
        self._wait(self._finish())
        self._engine.shutdown()
        del self._engine  # its destructor needs a running interpreter
        self._end()
        for logger in self._loggers:  # before Triton frees the metrics' families
            logger.close()
        # A task that ended with an exception and the exception refer to each other. So the task's
        # request is kept, and its destructor crashes after Triton has freed the shared memory.
        gc.collect()

    # -- the engine -----------------------------------------------------------------------------

    async def _start(self, arguments: dict[str, Any]) -> Any:
        from vllm.engine.arg_utils import AsyncEngineArgs
        from vllm.exceptions import VLLMClientError

        self._refusals = (BadRequest, ValueError, TypeError, VLLMClientError)
        sockets = tempfile.TemporaryDirectory(prefix="vllm-")  # vLLM removes none of their files
        os.environ["VLLM_RPC_BASE_PATH"] = self._until_end.enter_context(sockets)
        given = AsyncEngineArgs(**arguments)
        factories: list[Any] = []
        if self._metrics and not given.disable_log_stats:
            from workbook.backends.vllm.metrics import Logger

            def logger(config: Any, index: int = 0) -> Any:
                labels = {"model": self.config.name, "version": self.config.version}
                self._loggers.append(Logger(config, index, labels))
                return self._loggers[-1]

            factories.append(logger)
        return one_process.start(given, factories or None)

    async def _finish(self) -> None:
        while self._tasks:
            await asyncio.wait(self._tasks)

    def _wait(self, work: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def _end(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._until_end.close()

    def _check_health(self, requests: Sequence[Any]) -> bool:
        """Whether the engine is healthy; if not, fail the requests and unload the model."""
        try:
            self._wait(self._engine.check_health())
        except Exception as error:
            pb_utils.Logger.log_error(f"vllm: the engine is not healthy: {_message(error)}")
            pb_utils.unload_model(self.config.name)
            for request in requests:
                failure = _failure(UNHEALTHY, pb_utils.TritonError.UNAVAILABLE)
                request.get_response_sender().send(failure, FINAL)
            return False
        return True

    # -- a request ------------------------------------------------------------------------------

    def _begin(self, request: Any) -> None:
        task = self._loop.create_task(self._attend(request))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _attend(self, request: Any) -> None:
        """Answer one request; stop when its client has gone."""
        sender = request.get_response_sender()
        answer = asyncio.ensure_future(self._respond(request, sender))
        while not answer.done():
            await asyncio.wait([answer], timeout=LOOK)
            cancelled, dead = sender.is_cancelled(), self._engine.errored
            if not answer.done() and (cancelled or dead):
                answer.cancel()  # the engine then aborts the request
                await asyncio.wait([answer], timeout=LOOK)  # a dead engine may never react
                break
        try:
            if not answer.done():
                raise asyncio.CancelledError
            response = answer.result()
        except asyncio.CancelledError:
            if dead:  # it died after the health check
                response = _failure(UNHEALTHY, pb_utils.TritonError.UNAVAILABLE)
            else:
                pb_utils.Logger.log_info(f"vllm: a request to '{self.config.name}' was cancelled")
                response = _failure("Request was cancelled", pb_utils.TritonError.CANCELLED)
        except Exception as error:
            message = f"Error generating stream: {_message(error)}"  # upstream's message
            if isinstance(_cause(error), self._refusals):
                response = _failure(message, pb_utils.TritonError.INVALID_ARG)
            else:
                pb_utils.Logger.log_error(f"vllm: {message}")
                response = _failure(message, pb_utils.TritonError.INTERNAL)
        sender.send(response, FINAL)

    async def _respond(self, request: Any, sender: Any) -> Any:
        """Send the engine's output as it comes; return the last response, not yet sent."""
        inputs = tensors.Inputs.read(request)
        parameters = self._parameters(inputs)
        state, last = tensors.Sent(), None
        async for output in self._engine.generate(
            {"prompt": inputs.prompt}, parameters, str(uuid.uuid4())
        ):
            if inputs.stream and not output.finished:
                sender.send(tensors.response(output, inputs, state))
            last = output
        return tensors.response(last, inputs, state)

    def _parameters(self, inputs: tensors.Inputs) -> Any:
        """The sampling parameters of a request, as the engine takes them."""
        from vllm.sampling_params import RequestOutputKind

        parameters = sampling_parameters.read(inputs.parameters)
        # Without streaming, one output at the end is enough; one per token would be wasted work.
        kinds = RequestOutputKind
        parameters.output_kind = kinds.CUMULATIVE if inputs.stream else kinds.FINAL_ONLY
        return parameters


def engine_arguments(config: Config) -> dict[str, Any]:
    """The engine arguments from `1/model.json`.

    A relative path in "model" is relative to the model repository.

    Raises:
        BadModel: the file is missing, is not JSON, or names no model.
    """
    file = config.directory / config.version / "model.json"
    if not file.is_file():  # upstream's message
        raise BadModel(
            f"'model.json' containing vllm engine args must be provided in '{file.parent}'"
        )
    try:
        arguments = json.loads(file.read_text(encoding="utf-8"))
    except ValueError as error:
        raise BadModel(f"failed to read {file}: it is not JSON: {error}") from None
    if not isinstance(arguments, dict) or not isinstance(arguments.get("model"), str):
        raise BadModel(f'failed to read {file}: it must be an object with a "model"')
    # Upstream passes the name to vLLM unchanged. A relative path is then relative to the folder in
    # which the server was started; for the container, that is the repository.
    local = config.directory.parent / arguments["model"]
    if local.is_dir():
        arguments["model"] = str(local)
    return arguments


def no_weights(name: str) -> str:
    """Why the engine cannot find a "model" that is not a folder; "" if it may find it.

    The engine itself reports that only after its start, which takes a minute or more.

    no_weights("facebook/opt-125m")  # "" with a network, "and the hub cannot be reached" without
    """
    if ":" in name or Path(name).exists():  # an address, a quantization of GGUF, or a GGUF file
        return ""
    if os.environ.get("VLLM_USE_MODELSCOPE", "").lower() in ("1", "true"):
        return ""
    import huggingface_hub as hub
    from huggingface_hub import constants, errors

    if Path(constants.HF_HUB_CACHE, f"models--{name.replace('/', '--')}").is_dir():
        return ""
    try:
        hub.model_info(name, timeout=10)
    except errors.HFValidationError:
        return "and it is not a name that the hub can have"
    except errors.GatedRepoError:
        return ""
    except errors.RepositoryNotFoundError:
        return "and the hub has no model of this name"
    except errors.OfflineModeIsEnabled:
        return "and HF_HUB_OFFLINE forbids to ask the hub"
    except errors.HfHubHTTPError:
        return ""
    except Exception as error:  # its type depends on the library that the hub's client uses
        return "" if "Timeout" in type(error).__name__ else "and the hub cannot be reached"
    return ""


def _python() -> Path:
    """The Python interpreter whose packages this process uses; the stub is not one."""
    return Path(sys.prefix, "bin", "python")


def _failure(message: str, code: Any) -> Any:
    return pb_utils.InferenceResponse([], pb_utils.TritonError(message, code))


def _message(error: BaseException) -> str:
    """An exception's message; if it is empty, the exception's type."""
    found = _cause(error)
    return str(found) or type(found).__name__


def _cause(error: BaseException) -> BaseException:
    """The cause of an exception without a message: the engine wraps errors of a request."""
    while not str(error) and error.__cause__ is not None:
        error = error.__cause__
    return error
