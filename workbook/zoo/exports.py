"""Export the classifiers to the formats of other frameworks; the answers stay the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from . import classifiers, data, huggingface
from .recipe import Recipe

#: The ONNX operator set of the exports: read by ONNX Runtime since 1.14 (2023).
OPSET = 18


def digits_onnx(target: Path) -> None:
    """ONNX, fp32: image (n, 1, 8, 8) → logits (n, 10)."""
    to_onnx(classifiers.load("digits_cnn"), {"image": (1, 8, 8)}, target)


def digits_onnx_fp16(target: Path) -> None:
    """The same with fp16 weights and arithmetic, but fp32 inputs and outputs."""
    import onnx
    from onnxconverter_common import float16

    from . import checkpoint

    model = onnx.load(checkpoint("digits_onnx"))
    onnx.save(float16.convert_float_to_float16(model, keep_io_types=True), target)


def photo_onnx(target: Path) -> None:
    """ONNX: image (n, 3, 64, 64) in -1..1 → logits (n, 2)."""
    to_onnx(classifiers.load("photo_cnn"), {"image": (3, data.CROP, data.CROP)}, target)


def iris_onnx(target: Path) -> None:
    """One layer as ONNX: lengths (n, 4) in cm → probabilities (n, 3); logistic regression."""
    import numpy as np
    import onnx
    from onnx import TensorProto, helper, numpy_helper
    from sklearn.linear_model import LogisticRegression

    split = data.iris()
    fitted = LogisticRegression(max_iter=1000).fit(split.x_train, split.y_train)
    graph = helper.make_graph(
        [
            helper.make_node("Gemm", ["lengths", "weight", "bias"], ["score"]),
            helper.make_node("Softmax", ["score"], ["probabilities"], axis=1),
        ],
        "iris",
        [helper.make_tensor_value_info("lengths", TensorProto.FLOAT, ["batch", 4])],
        [helper.make_tensor_value_info("probabilities", TensorProto.FLOAT, ["batch", 3])],
        [
            numpy_helper.from_array(np.ascontiguousarray(fitted.coef_.T, np.float32), "weight"),
            numpy_helper.from_array(fitted.intercept_.astype(np.float32), "bias"),
        ],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=10)
    onnx.checker.check_model(model)
    onnx.save(model, target)


def language_onnx(target: Path) -> None:
    """ONNX: input_ids, attention_mask (n, 64) int64 → logits (n, 16)."""
    import torch
    from transformers import BertForSequenceClassification

    from . import checkpoint

    class Logits(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.model = BertForSequenceClassification.from_pretrained(
                checkpoint("text_classifier"), attn_implementation="eager"
            )

        def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> Any:
            return self.model(input_ids=input_ids, attention_mask=attention_mask).logits

    shape = (huggingface.TOKENS,)
    to_onnx(Logits().eval(), {"input_ids": shape, "attention_mask": shape}, target, whole=True)


def digits_torchscript(target: Path) -> None:
    """TorchScript: image (n, 1, 8, 8) → logits (n, 10)."""
    import torch

    torch.jit.save(torch.jit.script(classifiers.load("digits_cnn")), target)


def digits_openvino(target: Path) -> None:
    """OpenVINO IR, a folder with model.xml and model.bin: image (n, 1, 8, 8) → logits (n, 10)."""
    import openvino

    from . import checkpoint

    model = openvino.convert_model(checkpoint("digits_onnx"))
    openvino.save_model(model, target / "model.xml", compress_to_fp16=False)


def digits_savedmodel(target: Path) -> None:
    """TensorFlow SavedModel with `serving_default`: image (n, 1, 8, 8) → logits (n, 10)."""
    import tensorflow as tf

    torch_model = classifiers.load("digits_cnn")
    image = tf.keras.Input((1, 8, 8), name="image")
    x = tf.keras.layers.Permute((2, 3, 1))(image)  # TensorFlow's CPU convolutions want NHWC
    x = tf.keras.layers.Conv2D(16, 3, padding="same", activation="relu", name="one")(x)
    x = tf.keras.layers.Conv2D(32, 3, padding="same", activation="relu", name="two")(x)
    x = tf.keras.layers.MaxPooling2D()(x)
    x = tf.keras.layers.Permute((3, 1, 2))(x)  # the last layer's weights expect channels first
    x = tf.keras.layers.Flatten()(x)
    model = tf.keras.Model(image, {"logits": tf.keras.layers.Dense(10, name="head")(x)})
    for name, layer in (("one", torch_model.features[0]), ("two", torch_model.features[2])):
        kernel = layer.weight.detach().numpy().transpose(2, 3, 1, 0)
        model.get_layer(name).set_weights([kernel, layer.bias.detach().numpy()])
    head = [p.detach().numpy() for p in torch_model.head.parameters()]
    model.get_layer("head").set_weights([head[0].T, head[1]])
    model.export(target, verbose=False)


def jpeg_dali(target: Path) -> None:
    """A DALI pipeline: JPEG bytes → pixels (3, 64, 64) float32 in -1..1, the photo CNN's input."""
    from nvidia.dali import fn, pipeline_def, types

    # device_id None: the pipeline runs on the CPU, so that it loads where there is no GPU.
    @pipeline_def(batch_size=64, num_threads=1, device_id=None)  # type: ignore[untyped-decorator]
    def pipeline() -> Any:
        encoded = fn.external_source(name="jpeg", device="cpu", dtype=types.UINT8, ndim=1)
        image = fn.decoders.image(encoded, device="cpu", output_type=types.RGB)
        image = fn.resize(image, resize_x=data.CROP, resize_y=data.CROP)
        return fn.crop_mirror_normalize(
            image,
            dtype=types.FLOAT,
            output_layout="CHW",
            mean=[127.5] * 3,
            std=[127.5] * 3,
            name="pixels",
        )

    pipeline().serialize(filename=str(target))


def to_onnx(
    model: Any, inputs: dict[str, tuple[int, ...]], target: Path, *, whole: bool = False
) -> None:
    """Export a torch module to ONNX with a variable batch dimension.

    Args:
        inputs: shapes without the batch dimension, by name.
        whole: the inputs are int64, not float32.
    """
    import torch

    dtype = torch.int64 if whole else torch.float32
    examples = tuple(torch.ones((2, *shape), dtype=dtype) for shape in inputs.values())
    program = torch.onnx.export(
        model,
        examples,
        input_names=list(inputs),
        output_names=["logits"],
        dynamic_shapes=tuple({0: torch.export.Dim("batch")} for _ in inputs),
        opset_version=OPSET,
        dynamo=True,
        verbose=False,
    )
    program.save(target, external_data=False)


_ONNX = ("torch", "onnx", "onnxscript")
_NETS = ("data", "nets", "classifiers")

RECIPES = (
    Recipe(
        "digits_savedmodel",
        "the digit classifier as a TensorFlow SavedModel",
        digits_savedmodel,
        "model.savedmodel",
        needs=("digits_cnn",),
        uses=_NETS,
        packages=("torch", "tensorflow-cpu"),
    ),
    Recipe(
        "language_onnx",
        "the language classifier as ONNX, 64 tokens per text",
        language_onnx,
        "model.onnx",
        needs=("text_classifier",),
        uses=("huggingface",),
        packages=(*_ONNX, "transformers"),
    ),
    Recipe(
        "photo_onnx",
        "the photo classifier as ONNX, some 10 ms for a batch of eight on one core",
        photo_onnx,
        "model.onnx",
        needs=("photo_cnn",),
        uses=_NETS,
        packages=_ONNX,
    ),
    Recipe(
        "digits_onnx",
        "the digit classifier as ONNX, fp32",
        digits_onnx,
        "model.onnx",
        needs=("digits_cnn",),
        uses=_NETS,
        packages=_ONNX,
    ),
    Recipe(
        "digits_onnx_fp16",
        "the digit classifier as ONNX, fp16 inside, fp32 outside",
        digits_onnx_fp16,
        "model.onnx",
        needs=("digits_onnx",),
        uses=(),
        packages=("onnx", "onnxconverter-common"),
    ),
    Recipe(
        "digits_torchscript",
        "the digit classifier as TorchScript",
        digits_torchscript,
        "model.pt",
        needs=("digits_cnn",),
        uses=_NETS,
        packages=("torch",),
    ),
    Recipe(
        "digits_openvino",
        "the digit classifier as OpenVINO IR",
        digits_openvino,
        "openvino",
        needs=("digits_onnx",),
        uses=(),
        packages=("openvino",),
    ),
    Recipe(
        "jpeg_dali",
        "a DALI pipeline that decodes, resizes and normalises JPEG files",
        jpeg_dali,
        "model.dali",
        packages=("nvidia-dali-cuda120",),
    ),
    Recipe(
        "iris_onnx",
        "one layer as ONNX: logistic regression on iris flowers",
        iris_onnx,
        "model.onnx",
        packages=("onnx", "scikit-learn"),
    ),
)
