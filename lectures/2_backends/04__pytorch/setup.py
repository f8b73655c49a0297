"""For 04__pytorch: a small GPT with the production guide's tensors, and files for models."""

from __future__ import annotations

import logging
import re
import shutil
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from workbook.lessons import formats
from workbook.lessons.workspace import folder
from workbook.server import Server

#: The size of the production guide's vocabulary.
WORDS = 13088
_WIDTH = 32


def models() -> Path:
    """Make a fresh repository with an empty version 1 of each model that the notebook makes."""
    home = folder("pytorch")
    for name in ("pytorch_model", "focus_pytorch", "ibuddha_chitchat", "focus_compiled"):
        (home / name / "1").mkdir(parents=True)
    return home


def with_nvfuser(text: str) -> str:
    """Activate the parameter that the production guide's config has in comments."""
    block = r"(?ms)^#parameters: \{.*?^#\}"
    return re.sub(block, lambda found: found[0].replace("#", ""), text)


def hide_warnings() -> None:
    """Hide torch's warnings that torch.jit is deprecated."""
    warnings.filterwarnings("ignore", module=r"torch\b")
    warnings.filterwarnings("ignore", message=r"`torch\.jit\.")
    logging.getLogger("torch.export").setLevel(logging.ERROR)  # a file's name is not .pt2


class TinyGPT(torch.nn.Module):  # type: ignore[misc]
    """A GPT of one layer with random weights, and with the production guide's inputs and output.

    input_ids, attention_mask, token_type_ids: int64 (n, tokens) → float32 (n, tokens, 13088).
    """

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.words = torch.nn.Embedding(WORDS, _WIDTH)
        self.types = torch.nn.Embedding(WORDS, _WIDTH)
        self.mix = torch.nn.Linear(_WIDTH, 3 * _WIDTH)
        self.head = torch.nn.Linear(_WIDTH, WORDS)

    def forward(
        self,
        input_ids: torch.Tensor,
        attention_mask: torch.Tensor,
        token_type_ids: torch.Tensor,
    ) -> torch.Tensor:
        """Return the logits of the next word at each place."""
        x = self.words(input_ids) + self.types(token_type_ids)
        query, key, value = self.mix(x).chunk(3, dim=-1)
        scores = query @ key.transpose(1, 2)
        seen = torch.ones_like(scores).tril() * attention_mask[:, None, :]
        weights = torch.softmax(scores.masked_fill(seen == 0, -1e9), dim=-1)
        return self.head(x + weights @ value)


class Scaled(torch.nn.Module):  # type: ignore[misc]
    """The task's network: its pixels lie between any values of black and white.

    image float32 (n, 3, 64, 64), black and white float32 (n, 1) → logits float32 (n, 2).
    """

    def __init__(self) -> None:
        super().__init__()
        self.net = formats.network()

    def forward(
        self, image: torch.Tensor, black: torch.Tensor, white: torch.Tensor
    ) -> torch.Tensor:
        """Return the logits of "blurred" and "sharp"."""
        low, high = black[:, :, None, None], white[:, :, None, None]
        return self.net(2 * (image - low) / (high - low) - 1)


#: The smallest config for the network that the backend accepts.
CONFIG = """\
platform: "pytorch_libtorch"
max_batch_size: 8
input [ { name: "INPUT__0" data_type: TYPE_FP32 dims: [ 3, 64, 64 ] } ]
output [ { name: "OUTPUT__0" data_type: TYPE_FP32 dims: [ 2 ] } ]
instance_group [ { kind: KIND_CPU count: 1 } ]
"""
#: The config of a model.py that the backend compiles.
COMPILED = """\
backend: "pytorch"
runtime: "model.py"
max_batch_size: 8
input [ { name: "image" data_type: TYPE_FP32 dims: [ 3, 64, 64 ] } ]
output [ { name: "logits" data_type: TYPE_FP32 dims: [ 2 ] } ]
instance_group [ { kind: KIND_CPU count: 1 } ]
parameters { key: "NUM_THREADS" value: { string_value: "1" } }
"""
#: The backend slides' config, as their printout has it.
PRINTED = """\
name: "pytorch_model"
platform: "pytorch_libtorch"
max_batch_size: 8
input [
   name: "INPUT__0"
   data_type: TYPE_FP32
   dims: [ 5 ]
output [
   name: "OUTPUT__0"
   data_type: TYPE_FP32
   dims: [ 1 ]
instance_group [
    kind: KIND_GPU
"""
#: The production guide's config.
CHITCHAT = """\
#this MUST be the same name with the outside folder
name: "ibuddha_chitchat"
# pytorch
platform: "pytorch_libtorch"
# you should limit this ,or else the graphic card will doom...
max_batch_size: 64
input [
  {
    #pytorch output this 0,1,2 silly name by default
    name: "INPUT__0"
    #int64 or int32, must be the same as the model define
    data_type: TYPE_INT64
    #dynamic sequence len, means you can input text len from 1 to 510 typically, or else you should put a fix value here
    dims: [-1]
  },
  {
    name: "INPUT__1"
    data_type: TYPE_INT64
    dims: [-1]
  },
  {
    name: "INPUT__2"
    data_type: TYPE_INT64
    dims: [-1]
  }
]
output [
  {
    #pytorch silly default name
    name: "OUTPUT__0"
    data_type: TYPE_FP32
    dims: [13088]
  }
]
# output only one which has bigger version
version_policy: { latest {num_versions: 1}}
#version_policy: { all {}}
# enable dynamic will improve your performance greatly
dynamic_batching {
}
# enable this will make your inference faster
parameters: {
key: "INFERENCE_MODE"
    value: {
    string_value:"true"
    }
}
# disable this. It is slower than default in my test
#parameters: {
#key: "ENABLE_NVFUSER"
#    value: {
#    string_value:"true"
#    }
#}

#pytorch model only run in graphic card 0 by default
instance_group [
  {
    count: 1
    kind: KIND_GPU
    gpus: [ 0 ]
  }
]
"""  # noqa: E501
#: A parameter that is neither true nor false, to put before the others.
NO_BOOLEAN = 'parameters { key: "INFERENCE_MODE" value: { string_value: "yes" } }\nparameters'
_SCALED = """\
platform: "pytorch_libtorch"
max_batch_size: 8
input [
  { name: "picture" data_type: TYPE_FP32 dims: [ 3, 64, 64 ] },
  { name: "white" data_type: TYPE_FP32 dims: [ 1 ] },
  { name: "black" data_type: TYPE_FP32 dims: [ 1 ] }
]
output [ { name: "OUTPUT__0" data_type: TYPE_FP32 dims: [ 2 ] } ]
instance_group [ { kind: KIND_CPU count: 1 } ]
"""


def scaled(models: Path) -> None:
    """Put the task's model into a repository; its config's names do not fit forward().

    An existing folder stays as it is, because it may hold the reader's work.
    """
    home = models / "scaled"
    if home.exists():
        return
    (home / "1").mkdir(parents=True)
    torch.jit.script(Scaled().eval()).save(home / "1/model.pt")
    (home / "config.pbtxt").write_text(_SCALED, "utf-8")


def traced(module: torch.nn.Module, example: torch.Tensor) -> tuple[Any, str]:
    """Trace a module; returns the trace, and torch's warnings.

    Args:
        example: the input whose operations are recorded.
    """
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        trace = torch.jit.trace(module, example)
    words = [str(w.message) for w in caught if issubclass(w.category, torch.jit.TracerWarning)]
    return trace, "\n".join(dict.fromkeys(words))


def compiled(models: Path) -> None:
    """Write config and weights of `focus_compiled`, beside the notebook's model.py."""
    home = models / "focus_compiled"
    (home / "config.pbtxt").write_text(COMPILED, "utf-8")
    torch.save(formats.network().state_dict(), home / "1/model.pt")


def channels_last(models: Path) -> str:
    """Copy `focus_pytorch` with weights in the layout channels-last; returns the copy's name.

    The convolutions then compute in this layout, and convert the pictures themselves.
    """
    home = models / "focus_last"
    shutil.rmtree(home, ignore_errors=True)
    shutil.copytree(models / "focus_pytorch", home)
    network = formats.network().to(memory_format=torch.channels_last)
    torch.jit.script(network).save(home / "1/model.pt")
    return home.name


def rename(file: Path, name: str) -> str:
    """Rename a file; returns a sentence about it."""
    file.rename(file.with_name(name))
    return f"`{file.name}` is called `{name}`."


def sentence(tokens: int) -> list[npt.NDArray[np.int64]]:
    """Make a sentence for `TinyGPT`: ids, mask and types, each int64 (1, tokens)."""
    ids = np.random.default_rng(tokens).integers(2, WORDS, (1, tokens))
    mask, types = np.ones_like(ids), np.zeros_like(ids)
    mask[0, -1] = 0
    return [ids, mask, types]


def answer(server: Server, model: str, inputs: dict[str, npt.NDArray[Any]]) -> npt.NDArray[Any]:
    """Send one request, and return its first output.

    Raises:
        WorkbookError: the server answered with an error.
    """
    from tritonclient import grpc
    from tritonclient.utils import InferenceServerException, np_to_triton_dtype

    from workbook.server.explain import explain

    output = server.config(model)["output"][0]["name"]
    tensors = []
    for name, array in inputs.items():
        tensor = grpc.InferInput(name, array.shape, np_to_triton_dtype(array.dtype))
        tensors.append(tensor.set_data_from_numpy(array))
    try:
        with server.grpc_client() as client:
            found: npt.NDArray[Any] = client.infer(model, tensors).as_numpy(output)
    except InferenceServerException as error:
        raise explain(error, server, model) from None
    return found
