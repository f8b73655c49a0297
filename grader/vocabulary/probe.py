"""`Probe`: the requests that a check may send to a server.

In the student's notebook a probe sends its requests to the student's own server, in the judge to a
sandboxed one. The answer of a student's model can be late, huge, of a wrong type, or missing. In
each of these cases the probe raises a `Failure` with a sentence for the student, and no other
exception.
"""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import hashlib
import queue
import shutil
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
import psutil

from workbook.common.errors import WorkbookError
from workbook.server import Server, ports
from workbook.server.catalogue.evidence import CONFIG

from . import admission
from . import requests as form
from .failure import Failure
from .requests import Array, Inputs, Refusal
from .stream import Stream, streams

__all__ = ["Array", "Counts", "Inputs", "Probe", "Refusal", "Stream"]

T = TypeVar("T")

#: How often requests are sent while the queue refuses one of them (`Probe.outcomes_in_time`).
_TRIES = 3
#: In the message of Triton's queue for a request that has waited longer than its policy allows.
_EXPIRED = "Request timeout expired"


@dataclasses.dataclass(frozen=True)
class Counts:
    """What Triton's statistics extension has counted for a model, all versions together.

    The difference of two counts is what happened in between::

        before = server.counts("forest")
        server.together("forest", requests)
        change = server.counts("forest") - before
        change.executions < change.requests     # True: some requests shared a batch

    Attributes:
        requests: requests that succeeded.
        failures: requests that failed.
        inferences: rows, that is the sum of the requests' batch sizes.
        executions: how often the backend was called; fewer than `requests` where it batched.
    """

    requests: int
    failures: int
    inferences: int
    executions: int

    def __sub__(self, before: Counts) -> Counts:
        pairs = zip(dataclasses.astuple(self), dataclasses.astuple(before), strict=True)
        return Counts(*(a - b for a, b in pairs))


class Probe:
    """Sends a check's requests to the server with the student's models.

    Example, in a check whose first parameter is `server: Probe`::

        config = server.config(model)
        answer = server.infer(model, {"input__0": rows}, outputs=["output__0"])["output__0"]

    Attributes:
        server: the server itself. Checks use the methods of the probe instead: these raise
            `Failure` with a sentence.
        rng: random numbers. In a notebook they are always the same; in the judge they depend on
            the class's secret.
        is_late: whether a model has not answered in time, or not ended a stream.
        may_reload: whether `allow_batches` may load a model again: in the judge, not in a notebook.

    Args:
        server: the server to send requests to.
        load: load a model at its first request. The judge's server starts without models.
        backends: the backends that a model may use, with what they read (admission.py); empty:
            every model is admitted.
    """

    def __init__(
        self, server: Server, *, load: bool = False, backends: Collection[str] = ()
    ) -> None:
        self.server = server
        self.rng = np.random.default_rng(0)
        self.is_late = False
        self.may_reload = load
        self._backends = backends
        self._load = load
        self._loaded: dict[str, Failure | None] = {}
        self._configs: dict[str, dict[str, Any]] = {}
        self._with_batches: set[str] = set()
        self._copies: dict[str, str] = {}
        self._client: Any = None

    def seed(self, number: int) -> None:
        """Start `rng` again. The same number gives the same random numbers.

        Example::

            server.seed(7)
            rows = server.rng.random((10, 30), dtype=np.float32)
        """
        self.rng = np.random.default_rng(number)

    def require(self, model: str) -> None:
        """Raise `Failure` unless a model is ready.

        The other methods call this when they are first asked for a model, and where the server
        refuses a later question.

        Example::

            server.require("forest")

        Raises:
            Failure: it is not ready; where loading it failed, the message says why.
        """
        if not isinstance(model, str):
            raise Failure(
                f"{_short(model)} is not the name of a model.", help="Hand over its name, a str."
            )
        if model not in self._loaded:
            self._loaded[model] = self._refusal_to_serve(model)
            if self._load and self._loaded[model] is None:
                try:
                    self.server.load(model, timeout=60.0)
                except WorkbookError as error:
                    self._loaded[model] = Failure(str(error), safe="The model did not load.")
        if failure := self._loaded.get(model):
            raise Failure(failure.rationale, help=failure.help, safe=failure.safe)
        ready = self._ask(lambda: self.server.ready(model))
        if not ready:
            raise Failure(
                f"The server has no model {model!r} that is ready.",
                help="deploy(…) its folder first, and read what deploy answers.",
            )

    def config(self, model: str) -> dict[str, Any]:
        """A model's configuration as the server parsed it: Triton's `ModelConfig` as JSON.

        Example::

            server.config("forest")["max_batch_size"]       # 256

        Raises:
            Failure: the model is not ready.
        """
        return copy.deepcopy(self._config(model))

    def parameter(self, model: str, key: str) -> str | None:
        """The `string_value` of a parameter in the parsed configuration; None if there is none.

        Example::

            server.parameter("forest", "output_class")      # "true"

        Raises:
            Failure: the model is not ready.
        """
        entry = self._config(model).get("parameters", {}).get(key, {})
        return entry.get("string_value") if isinstance(entry, dict) else None

    def allow_batches(self, model: str, rows: int) -> None:
        """In the judge, let a model take this many rows in a request, if its config allows fewer.

        The check of the config takes points for the number. A check of something else calls this,
        so that the number costs nothing more. `config` still has the student's own number. In a
        notebook nothing happens: the student's server stays as it is.

        Example::

            server.allow_batches("classifier", 32)

        Raises:
            Failure: the model is not ready, or does not load with batches.
        """
        config = self._config(model)
        if not self.may_reload or model in self._with_batches:
            return
        if int(config.get("max_batch_size", 0)) < rows:
            changed = copy.deepcopy(config) | {"max_batch_size": rows}
            # The server has filled it in: it is the old max_batch_size.
            changed.get("dynamic_batching", {}).pop("preferred_batch_size", None)
            self._ask(lambda: self.server.load(model, config=changed, timeout=60.0), model)
            self._with_batches.add(model)

    def versions(self, model: str) -> tuple[int, ...]:
        """The versions of a model that answer, in ascending order.

        Example::

            server.versions("releases")     # (1, 3)

        Raises:
            Failure: the model is not ready.
        """
        self.require(model)
        index = self._ask(lambda: self.server.index(ready_only=True))
        return tuple(sorted(int(entry["version"]) for entry in index if entry["name"] == model))

    @contextlib.contextmanager
    def copied(self, model: str, files: Mapping[str, bytes], **fields: Any) -> Iterator[str]:
        """Serve a copy of a model with other files, in one instance, while the block runs.

        The repository is not changed: the server gets the copy's files with the request to load it.
        The judge keeps the copy, so that a hidden variant that asks for the same one finds it.

        Example::

            with server.copied("classifier", {"1/checkpoint/config.json": b"{…}"}) as name:
                server.infer(name, inputs)

        Args:
            model: the model's name.
            files: by path in the model's folder, what takes a file's place, or is added.
            fields: of the copy's config, in place of the model's.

        Yields:
            The copy's name.

        Raises:
            Failure: the model is not ready, or its copy does not load.
        """
        config = self.config(model)
        home = self.server.repository / model
        content = {
            path.relative_to(home).as_posix(): path.read_bytes()
            for path in sorted(home.rglob("*"))
            if path.is_file() and not path.is_symlink() and "__pycache__" not in path.parts
        }
        content = {path: data for path, data in content.items() if "/" in path} | dict(files)
        digest = hashlib.sha256(repr((sorted(content.items()), fields)).encode()).hexdigest()
        name = f"{model}_copy_{digest[:8]}"
        groups = config.get("instance_group") or [{}]
        config |= {
            "instance_group": [groups[0] | {"name": "one", "count": 1}],
            **fields,
            "name": name,
        }
        if self._copies.get(name) != digest:
            try:
                overrides = {f"file:{path}": data for path, data in content.items()}
                self.server.load(name, config=config, files=overrides, timeout=60.0, folder=home)
            except WorkbookError as error:
                raise Failure(
                    f"A copy of {model} with other files does not load. {error.what}",
                    help="model.py must find its files in the folder that args names.",
                    safe="A copy of your model with other files does not load.",
                ) from None
        self._loaded[name], self._copies[name] = None, digest
        try:
            yield name
        finally:
            self._configs.pop(name, None)
            if not self._load:
                del self._loaded[name], self._copies[name]
                with contextlib.suppress(WorkbookError):
                    self.server.begin_unload(name)

    def place(self, model: str, files: Mapping[str, bytes]) -> None:
        """Put a model of the course into the repository; what has its name there is deleted.

        The assignment names such models in `RESERVED`, in its module of checks.

        Example::

            server.place("before_decide", {"config.pbtxt": b"…", "1/model.py": b"…"})

        Args:
            model: the model's name.
            files: by path in the model's folder. A path that ends with `/` is an empty folder.

        Raises:
            Failure: the repository cannot be written to.
        """
        home = self.server.repository / model
        try:
            if home.is_dir() and not home.is_symlink():
                shutil.rmtree(home)
            for path, content in files.items():
                place = home / path
                (place if path.endswith("/") else place.parent).mkdir(parents=True, exist_ok=True)
                if not path.endswith("/"):
                    place.write_bytes(content)
        except OSError as error:
            raise Failure(
                f"{model} cannot be written into the model repository: {error.strerror}.",
                help="Is the server one of this machine? `workbook status` says where its "
                "repository is.",
            ) from None
        self._forget(model)

    def take_out(self, model: str, *, timeout: float = 30.0) -> None:
        """Unload a model and, of an ensemble, its steps. The next request loads them anew.

        It returns when the server offers none of them. Their processes end a moment later.

        Example::

            server.take_out("service")

        Raises:
            Failure: it is still there after `timeout` seconds.
        """
        names = [model]
        for name in names:  # it grows: a step can be an ensemble
            steps = self.config(name).get("ensemble_scheduling", {}).get("step", ())
            names += [n for step in steps if (n := str(step["model_name"])) not in names]
        try:
            for name in names:
                self.server.unload(name, timeout=timeout, report=lambda text: None)
        except WorkbookError:
            raise Failure(
                f"{model} could not be unloaded within {timeout:.0f} s.",
                help="On a busy computer it may take longer: run the cell again. What does "
                "`finalize` of a Python model do? Do its requests end? An ensemble whose steps "
                "have refused requests may keep some: then start the server anew with `workbook "
                "stop` and `workbook serve --detach`, and deploy again.",
            ) from None
        for name in names:
            self._forget(name)

    def take_in(self, model: str) -> None:
        """Load a model that `place` has written or `take_out` has unloaded, in a notebook, too.

        Raises:
            Failure: the model is not admitted, or does not load.
        """
        self._forget(model)
        if failure := self._refusal_to_serve(model):
            raise failure
        try:
            self.server.load(model, timeout=60.0)
        except WorkbookError as error:
            raise Failure(str(error), safe="The model did not load.") from None
        self.config(model)

    def _forget(self, model: str) -> None:
        self._loaded.pop(model, None)
        self._configs.pop(model, None)
        self._with_batches.discard(model)

    def memory(self) -> int:
        """Bytes of memory that the server holds, with the processes of all its models.

        A page that several processes share may count more than once, so compare two readings.

        Example::

            before = server.memory()
            server.require("forest")
            server.memory() - before    # about what the forest takes

        Raises:
            Failure: the server's processes cannot be seen.
        """
        if (held := getattr(self.server, "memory", None)) is not None:  # the judge's server
            time.sleep(0.3)
            return int(held())
        with contextlib.suppress(psutil.Error):
            if found := ports.holder(ports.of(self.server.url) or 80):
                infos = [p.memory_info() for p in (found, *found.children(recursive=True))]
                return sum(info.rss - info.shared for info in infos)
        raise Failure(
            "The processes of the server cannot be seen.",
            help="Does it run on this machine, and is it yours? `workbook status` says so.",
        )

    def counts(self, model: str) -> Counts:
        """What the server has counted for a model since it was loaded.

        The server counts a request after it has sent the answer, and an execution after that. So
        this reads the counts every 20 ms until two readings agree, for a second at most.

        Example::

            server.counts("forest").requests        # 114

        Raises:
            Failure: the model is not ready.
        """
        self._config(model)
        counts = self._count(model)
        for _ in range(50):
            time.sleep(0.02)
            before, counts = counts, self._count(model)
            if counts == before:
                break
        return counts

    def _count(self, model: str) -> Counts:
        records = self._ask(lambda: self.server.statistics(model), model)
        return Counts(
            requests=sum(r["inference_stats"]["success"]["count"] for r in records),
            failures=sum(r["inference_stats"]["fail"]["count"] for r in records),
            inferences=sum(r["inference_count"] for r in records),
            executions=sum(r["execution_count"] for r in records),
        )

    def infer(
        self,
        model: str,
        inputs: Inputs,
        *,
        outputs: Iterable[str] = (),
        version: int | None = None,
        classes: int = 0,
        timeout: float = 20.0,
    ) -> dict[str, Array]:
        """Send one request and return the outputs by name.

        Example::

            rows = np.zeros((4, 30), np.float32)
            answer = server.infer("forest", {"input__0": rows}, outputs=["output__0"])
            answer["output__0"].shape       # (4, 2)

        Args:
            model: the model's name.
            inputs: arrays by input name. Their first dimension is the batch, where the model has
                one. Their dtypes decide the tensors' data types.
            outputs: the outputs that must be in the answer; by default all that the answer has.
            version: the model's version; by default the server chooses (the newest that it serves).
            classes: for each of `outputs`, ask for this many top classes instead of values. They
                come as bytes: `value:index:label`.
            timeout: seconds to wait for the answer.

        Raises:
            Failure: the server refused the request; or the answer is late, cannot be read, lacks
                an output, or has another data type than the config states.
        """
        (outcome,) = self.outcomes(
            model,
            [inputs],
            outputs=outputs,
            version=version,
            classes=classes,
            timeout=timeout,
        )
        if isinstance(outcome, Refusal):
            raise outcome.failure(model)
        return outcome

    def together(
        self,
        model: str,
        requests: Sequence[Inputs],
        *,
        outputs: Iterable[str] = (),
        version: int | None = None,
        classes: int = 0,
        timeout: float = 20.0,
    ) -> list[dict[str, Array]]:
        """Send many requests without waiting in between; the answers come in the requests' order.

        Then several requests wait at the same time, and the dynamic batcher can put them into one
        batch.

        Example::

            requests = [{"input__0": row[None]} for row in rows]
            answers = server.together("forest", requests, outputs=["output__0"])

        Args:
            model: the model's name.
            requests: for each request its inputs. The other arguments are those of `infer`;
                `timeout` is per request.

        Raises:
            Failure: as for `infer`, for the first request that fails.
        """
        found = []
        for outcome in self.outcomes(
            model, requests, outputs=outputs, version=version, classes=classes, timeout=timeout
        ):
            if isinstance(outcome, Refusal):
                raise outcome.failure(model)
            found.append(outcome)
        return found

    def outcomes(
        self,
        model: str,
        requests: Sequence[Inputs],
        *,
        outputs: Iterable[str] = (),
        version: int | None = None,
        classes: int = 0,
        timeout: float = 20.0,
    ) -> list[dict[str, Array] | Refusal]:
        """Send many requests as `together` does; a request may be refused.

        Example::

            right, wrong = server.outcomes("forest", [{"input__0": rows}, {"input__0": short}])
            isinstance(wrong, Refusal)      # True

        Args:
            model: the model's name.
            requests: for each request its inputs. The other arguments are those of `infer`.

        Returns:
            For each request its outputs by name, or a `Refusal` with the server's message.

        Raises:
            Failure: the server is lost; or an answer is late, cannot be read, lacks an output, or
                has another data type than the config states.
        """
        declared = self._input_types(model)
        names = list(outputs)
        answers: queue.Queue[tuple[int, Any, Any]] = queue.Queue()
        for number, inputs in enumerate(requests):
            self._connection().async_infer(
                model,
                form.tensors(inputs),
                callback=lambda result, error, n=number: answers.put((n, result, error)),
                model_version="" if version is None else str(version),
                outputs=form.wanted(names, classes),
                client_timeout=timeout,
            )
        found: dict[int, dict[str, Array] | Refusal] = {}
        for _ in requests:
            try:
                number, result, error = answers.get(timeout=timeout + 5)
            except queue.Empty:
                raise self._late(model, timeout) from None
            if error is None:
                found[number] = form.read(model, result, names, {} if classes else declared)
            else:
                found[number] = self._refusal(model, error, timeout)
        if any(isinstance(outcome, Refusal) for outcome in found.values()):
            self.require(model)  # where the model has gone, say this
        return [found[number] for number in range(len(requests))]

    def outcomes_in_time(
        self,
        model: str,
        requests: Sequence[Inputs],
        *,
        outputs: Iterable[str] = (),
        timeout: float = 20.0,
    ) -> list[dict[str, Array] | Refusal]:
        """As `outcomes`; all are sent again, twice at most, where the queue refuses one as late.

        A model may have a queue policy that refuses requests which wait too long. On a busy machine
        that says nothing about the model. And Triton 24.10 now and then lets a request wait for
        half a second, though no other is there: it came while the instances were about to be free.

        Example::

            (answer,) = server.outcomes_in_time("forest", [{"input__0": rows}])

        Args:
            model: the model's name.
            requests: for each request its inputs. The other arguments are those of `infer`.

        Returns:
            As `outcomes`.

        Raises:
            Failure: as for `outcomes`.
        """
        for _ in range(_TRIES):
            found = self.outcomes(model, requests, outputs=outputs, timeout=timeout)
            if not any(isinstance(one, Refusal) and _EXPIRED in one.message for one in found):
                break
        return found

    def refusal(self, model: str, inputs: Inputs, *, timeout: float = 20.0) -> str:
        """The server's message if it refuses a request; "" if it answers the request.

        Example::

            if not server.refusal("forest", {"input__0": rows[:, :29]}):
                raise Failure("forest answers rows that lack a measurement.")

        Raises:
            Failure: neither; the answer is late, or the server is lost.
        """
        (outcome,) = self.outcomes(model, [inputs], timeout=timeout)
        return outcome.message if isinstance(outcome, Refusal) else ""

    def streams(
        self,
        model: str,
        requests: Sequence[Inputs],
        *,
        outputs: Iterable[str] = (),
        leave_after: int | None = None,
        timeout: float = 30.0,
    ) -> list[Stream]:
        """Send requests that are answered by streams, each by a client of its own, all at once.

        Example::

            (stream,) = server.streams("story", [{"text": prompt}], outputs=["token"])
            [part["token"].item() for part in stream.parts]     # [b"Once", b" upon", …]

        Args:
            model: the model's name; it is decoupled, or answers with one response.
            requests: the inputs of each request.
            outputs: the outputs that each response must have; by default whatever it has.
            leave_after: leave after this many responses, so that the server cancels the request.
            timeout: seconds until a stream must have ended.

        Returns:
            One stream per request. A stream that was refused, or did not end, says so.

        Raises:
            Failure: the model is not ready, or a response cannot be read.
        """
        found = streams(
            self.server.grpc_client,
            model,
            requests,
            outputs=outputs,
            declared=self._input_types(model),
            leave_after=leave_after,
            timeout=timeout,
        )
        if any(stream.refused is not None for stream in found):
            self.require(model)  # as in `outcomes`
        if any(stream.ended is None and not stream.refused for stream in found) and not leave_after:
            self.is_late = True
        return found

    def _input_types(self, model: str) -> dict[str, str]:
        return {
            str(output.get("name")): str(output.get("data_type", ""))
            for output in self._config(model).get("output", ())
        }

    def _config(self, model: str) -> dict[str, Any]:
        """The same as `config`, without a copy: the caller must not change it.

        It is read once per model: no model is deployed anew while a check runs.
        """
        if not isinstance(model, str) or model not in self._configs:
            self.require(model)
            self._configs[model] = self._ask(lambda: self.server.config(model), model)
        return self._configs[model]

    def _refusal(self, model: str, error: Any, timeout: float) -> Refusal:
        """The server's refusal; raises `Failure` if the error is not the server's answer."""
        refused = form.refusal(error)
        if refused.status == "DEADLINE_EXCEEDED" or "Deadline Exceeded" in refused.message:
            raise self._late(model, timeout)
        if refused.status == "UNAVAILABLE" and not self.server.live():
            raise Failure(
                f"The server ended while it was asked for {model}.",
                help="`workbook status` says whether it runs again, and where its log is. Start it "
                "with `workbook serve --detach` if it does not; then deploy, and run this cell "
                "again. If it ends again, the end of its log may say why.",
            )
        return refused

    def _late(self, model: str, timeout: float) -> Failure:
        self.is_late = True
        return Failure(
            f"{model} did not answer within {timeout:.0f} s.",
            help="Call it yourself with one row: does it answer? The server's log may say more.",
        )

    def close(self) -> None:
        """Close the connection. The server itself keeps running."""
        if self._client is not None:
            with contextlib.suppress(Exception):
                self._client.close()
            self._client = None

    def _refusal_to_serve(self, model: str) -> Failure | None:
        """A `Failure` if the assignment's backends do not admit the model (admission.py)."""
        if not self._backends:
            return None
        if not self._load and not (self.server.repository / model / CONFIG).is_file():
            return None  # in the notebook the server says which models it has
        return admission.refusal(self.server.repository, model, self._backends)

    def _connection(self) -> Any:
        if self._client is None:
            self._client = self.server.grpc_client()
        return self._client

    def _ask(self, question: Callable[[], T], model: str = "") -> T:
        """Ask the server a question; where it is about a model, say first that it is not ready."""
        try:
            return question()
        except WorkbookError as error:
            if model:
                self.require(model)
            raise Failure(
                error.what,
                help=error.todo,
                safe="The server did not answer a question about the model.",
            ) from None


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}…"
