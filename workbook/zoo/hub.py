"""A checkpoint from the Hugging Face hub in place of one that is built here."""

from __future__ import annotations

from pathlib import Path

from .builder import BuildError

#: Weights in formats that the course does not read.
_SKIP = ["*.bin", "*.h5", "*.msgpack", "*.onnx", "*.ot", "*.tflite", "onnx/*", "openvino/*"]


def fetch(name: str) -> Path:
    """Download a checkpoint, or find it where an earlier download put it.

        fetch("microsoft/resnet-18")

    Args:
        name: its name on the hub, e.g. "microsoft/resnet-18".

    Returns:
        A folder with config, weights as safetensors, and tokenizer or preprocessor.

    Raises:
        BuildError: no network, no such checkpoint, or one without safetensors.
    """
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import (
        GatedRepoError,
        HFValidationError,
        LocalEntryNotFoundError,
        RepositoryNotFoundError,
    )

    try:
        folder = Path(snapshot_download(name, ignore_patterns=_SKIP))
    except HFValidationError:
        raise BuildError(
            f"{name!r} is not the name of a checkpoint.",
            todo="Write it as on the hub, e.g. microsoft/resnet-18.",
        ) from None
    except GatedRepoError:
        raise BuildError(
            f"{name} asks for an account that has accepted its licence.",
            todo="Accept it on the checkpoint's page, then run `hf auth login`.",
        ) from None
    except RepositoryNotFoundError:
        raise BuildError(
            f"The hub has no checkpoint called {name}.", todo="Check the spelling of its name."
        ) from None
    except (LocalEntryNotFoundError, OSError):
        raise BuildError(
            f"{name} could not be fetched: the hub cannot be reached, and it is not on this disk.",
            todo="Connect to a network, or leave the name out: the zoo builds one offline.",
        ) from None
    if not any(folder.glob("*.safetensors")):
        raise BuildError(
            f"{name} holds no safetensors weights.",
            where=str(folder),
            todo="Take a checkpoint with a model.safetensors file.",
        )
    return folder
