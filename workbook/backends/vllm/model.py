"""The stand-in for Triton's vLLM backend: the same engine, vLLM's own build for the CPU.

The rules are those of triton-inference-server/vllm_backend: `1/model.json` holds the engine's
arguments; the config leaves inputs and outputs out; the model is decoupled and vLLM batches by
itself, continuously. The engine runs in a process of its own, so that the work of sending answers
never holds up its steps. Requests are coroutines on one event loop, in a thread of this process.
"""

from __future__ import annotations

import asyncio
import importlib.util
import json
import multiprocessing
import os
import sys
import threading
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import triton_python_backend_utils as pb_utils

from workbook.backends.base import BadModel, BadRequest, Config, StandIn
from workbook.backends.vllm import sampling, tensors

FINAL = pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL
#: How often a request that waits for the engine looks whether engine and client are there, in s.
LOOK = 0.1
#: Upstream's words.
UNHEALTHY = "Model is unavailable due to unhealthy vLLM engine"
#: What the CPU build takes from the environment, where nothing else is set: room for keys and
#: values in GiB, no look for the hub's server, no reports home. The library's own choice of cores
#: leaves one of them to the server, which on two cores is half of the machine. Threads that wait
#: sleep, which costs their waking in each of a step's many loops; where they spin, as OpenMP's do,
#: a second program on the same cores slows each step by an order of magnitude.
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
        if importlib.util.find_spec("vllm") is None:
            raise BadModel(
                f"unable to load model '{self.config.name}', vLLM is not installed here. To "
                "install its CPU build and load the model, run `make vllm` in the course's folder"
            )
        for name, value in SETTINGS.items():
            os.environ.setdefault(name, value)
        if Path(arguments["model"]).is_dir():
            os.environ["HF_HUB_OFFLINE"] = "1"
        # The stub is no Python that could run the engine's process; this one can.
        multiprocessing.set_executable(str(_python()))
        self._healthy = self.config.boolean("ENABLE_VLLM_HEALTH_CHECK", False)
        self._metrics = self.config.boolean("REPORT_CUSTOM_METRICS", False)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="vllm requests")
        self._thread.start()
        self._tasks: set[asyncio.Task[None]] = set()
        self._loggers: list[Any] = []
        try:
            self._engine = self._wait(self._start(arguments))
        except Exception as error:
            self._end_loop()
            raise BadModel(
                f"unable to load model '{self.config.name}', vLLM's engine did not start: "
                f"{_said(error)}"
            ) from error
        self.say(f"engine ready, {arguments['model']}")

    def execute(self, requests: Sequence[Any]) -> None:  # type: ignore[override]  # decoupled
        """Hand the requests to the event loop; it answers each through its own sender."""
        if self._healthy and not self._check_health(requests):
            return
        for request in requests:
            self._loop.call_soon_threadsafe(self._begin, request)

    def unload(self) -> None:
        """Let the requests under way finish, then end the engine."""
        self._wait(self._finish())
        self._engine.shutdown()
        del self._engine  # while there is an interpreter that it can be taken apart in
        self._end_loop()
        for logger in self._loggers:  # else they outlive what Triton keeps them in
            logger.close()

    # -- the engine -----------------------------------------------------------------------------

    async def _start(self, arguments: dict[str, Any]) -> Any:
        from vllm.engine.arg_utils import AsyncEngineArgs
        from vllm.exceptions import VLLMClientError
        from vllm.v1.engine.async_llm import AsyncLLM

        self._refusals = (BadRequest, ValueError, TypeError, VLLMClientError)
        given = AsyncEngineArgs(**arguments)
        factories: list[Any] = []
        if self._metrics and not given.disable_log_stats:
            from workbook.backends.vllm.metrics import Logger

            def logger(config: Any, index: int = 0) -> Any:
                labels = {"model": self.config.name, "version": self.config.version}
                self._loggers.append(Logger(config, index, labels))
                return self._loggers[-1]

            factories.append(logger)
        return AsyncLLM.from_engine_args(given, stat_loggers=factories or None)

    async def _finish(self) -> None:
        while self._tasks:
            await asyncio.wait(self._tasks)

    def _wait(self, work: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def _end_loop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def _check_health(self, requests: Sequence[Any]) -> bool:
        """Whether the engine lives; if not, the requests are told and the model is unloaded."""
        try:
            self._wait(self._engine.check_health())
        except Exception as error:
            pb_utils.Logger.log_error(f"vllm: the engine is not healthy: {_said(error)}")
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
        """Answer one request, for as long as its client is there."""
        sender = request.get_response_sender()
        answer = asyncio.ensure_future(self._respond(request, sender))
        while not answer.done():
            await asyncio.wait([answer], timeout=LOOK)
            gone, dead = sender.is_cancelled(), self._engine.errored
            if not answer.done() and (gone or dead):
                answer.cancel()  # the engine drops a request whose reader is cancelled
                await asyncio.wait([answer], timeout=LOOK)  # one that has died may never do so
                break
        try:
            if not answer.done():
                raise asyncio.CancelledError
            response = answer.result()
        except asyncio.CancelledError:
            if dead:  # since the health check
                response = _failure(UNHEALTHY, pb_utils.TritonError.UNAVAILABLE)
            else:
                pb_utils.Logger.log_info(f"vllm: a request to '{self.config.name}' was cancelled")
                response = _failure("Request was cancelled", pb_utils.TritonError.CANCELLED)
        except Exception as error:
            message = f"Error generating stream: {_said(error)}"  # upstream's words
            if isinstance(_cause(error), self._refusals):
                response = _failure(message, pb_utils.TritonError.INVALID_ARG)
            else:
                pb_utils.Logger.log_error(f"vllm: {message}")
                response = _failure(message, pb_utils.TritonError.INTERNAL)
        sender.send(response, FINAL)

    async def _respond(self, request: Any, sender: Any) -> Any:
        """Send what the engine makes as it makes it; returns the last response, not yet sent."""
        from vllm.sampling_params import RequestOutputKind

        asked = tensors.Asked.read(request)
        parameters = sampling.parameters(asked.parameters)
        # Where nothing is streamed, a piece for every token would be work that nobody sees.
        kinds = RequestOutputKind
        parameters.output_kind = kinds.CUMULATIVE if asked.stream else kinds.FINAL_ONLY
        state, last = tensors.Sent(), None
        async for output in self._engine.generate(
            {"prompt": asked.prompt}, parameters, str(uuid.uuid4())
        ):
            if asked.stream and not output.finished:
                sender.send(tensors.response(output, asked, state))
            last = output
        return tensors.response(last, asked, state)


def engine_arguments(config: Config) -> dict[str, Any]:
    """What `1/model.json` says; the model's folder may be named as the repository's users see it.

    Raises:
        BadModel: the file is missing, is not JSON, or names no model.
    """
    file = config.file("model.json")
    try:
        arguments = json.loads(file.read_text(encoding="utf-8"))
    except ValueError as error:
        raise BadModel(f"failed to read {file}: it is not JSON: {error}") from None
    if not isinstance(arguments, dict) or not isinstance(arguments.get("model"), str):
        raise BadModel(f'failed to read {file}: it must be an object with a "model"')
    # Upstream hands the name on as it is; a path is then looked for where the server was started,
    # which for the container is the repository.
    local = config.directory.parent / arguments["model"]
    if local.is_dir():
        arguments["model"] = str(local)
    return arguments


def _python() -> Path:
    """The interpreter whose packages this process uses; the stub itself is none."""
    return Path(sys.prefix, "bin", "python")


def _failure(message: str, code: Any) -> Any:
    return pb_utils.InferenceResponse([], pb_utils.TritonError(message, code))


def _said(error: BaseException) -> str:
    """An error's own words, or its kind where it has none."""
    found = _cause(error)
    return str(found) or type(found).__name__


def _cause(error: BaseException) -> BaseException:
    """What a wordless error was raised for: the engine wraps what goes wrong with a request."""
    while not str(error) and error.__cause__ is not None:
        error = error.__cause__
    return error
