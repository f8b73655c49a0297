"""The expected answers of every demonstration model: the same weights, run by the framework.

Nothing here knows of Triton. A reference takes the inputs of a request by name, batch first, and
gives the outputs by name.
"""

from __future__ import annotations

import base64
import functools
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from workbook.common import paths

Tensors = dict[str, Any]


def weights(file: str) -> Path:
    """A file of the shared repository, e.g. "digits_onnx/1/model.onnx"."""
    return paths.repository() / file


def square(inputs: Tensors) -> Tensors:
    return {"OUTPUT": inputs["INPUT"] ** 2}


@functools.cache
def session(file: str) -> Any:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(weights(file), options, providers=["CPUExecutionProvider"])


def onnx(file: str) -> Callable[[Tensors], Tensors]:
    def answer(inputs: Tensors) -> Tensors:
        return {"logits": session(file).run(["logits"], inputs)[0]}

    return answer


def digits_torch(inputs: Tensors) -> Tensors:
    import torch

    model = torch.jit.load(weights("digits_torch/1/model.pt"))
    with torch.inference_mode():
        return {"OUTPUT__0": model(torch.from_numpy(inputs["INPUT__0"])).numpy()}


def digits_openvino(inputs: Tensors) -> Tensors:
    import openvino

    model = openvino.compile_model(
        weights("digits_openvino/1/model.xml"), "CPU", {"INFERENCE_NUM_THREADS": 1}
    )
    return {"logits": model(inputs)["logits"]}


def digits_tf(inputs: Tensors) -> Tensors:
    import tensorflow as tf

    loaded = tf.saved_model.load(weights("digits_tf/1/model.savedmodel"))
    answer = loaded.signatures["serving_default"](image=tf.constant(inputs["image"]))
    return {"logits": answer["logits"].numpy()}


def forest_xgboost(inputs: Tensors) -> Tensors:
    import xgboost

    model = xgboost.XGBClassifier()
    model.load_model(weights("forest_xgboost/1/xgboost.json"))
    return {"output__0": model.predict_proba(inputs["input__0"])}


def forest_lightgbm(inputs: Tensors) -> Tensors:
    import lightgbm

    model = lightgbm.Booster(model_file=weights("forest_lightgbm/1/model.txt"))
    return {"output__0": (model.predict(inputs["input__0"]) > 0.5).astype(np.float32)}


def forest_sklearn(inputs: Tensors) -> Tensors:
    import joblib

    from workbook import zoo

    model = joblib.load(zoo.checkpoint("digits_sklearn"))
    return {"output__0": model.predict_proba(inputs["input__0"])}


def jpeg_dali(inputs: Tensors) -> Tensors:
    from nvidia import dali

    file = str(weights("jpeg_dali/1/model.dali"))
    pipeline = dali.Pipeline.deserialize(filename=file, device_id=None)
    pipeline.build()
    pipeline.feed_input("jpeg", list(inputs["jpeg"]))
    return {"pixels": np.array(pipeline.run()[0].as_tensor())}


def _named(logits: Any, names: dict[int, str], score: str) -> Tensors:
    probabilities = logits.softmax(-1).numpy()
    best = probabilities.argmax(1)
    return {
        "label": np.array([[names[int(i)].encode()] for i in best], dtype=object),
        score: probabilities.max(1, keepdims=True),
        "probabilities": probabilities,
    }


def image_classifier(inputs: Tensors) -> Tensors:
    import torch
    from PIL import Image
    from transformers import AutoImageProcessor, AutoModelForImageClassification

    place = weights("image_classifier/1/checkpoint")
    model = AutoModelForImageClassification.from_pretrained(place).eval()
    files = [base64.b64decode(text) for text in inputs["image"].ravel()]
    images = [Image.open(io.BytesIO(file)).convert("RGB") for file in files]
    with torch.inference_mode():
        pixels = AutoImageProcessor.from_pretrained(place)(images, return_tensors="pt")
        return _named(model(**pixels).logits, model.config.id2label, "score")


def text_classifier(inputs: Tensors) -> Tensors:
    import torch
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    place = weights("text_classifier/1/checkpoint")
    model = AutoModelForSequenceClassification.from_pretrained(place).eval()
    texts = [text.decode() for text in inputs["text"].ravel()]
    with torch.inference_mode():
        tokens = AutoTokenizer.from_pretrained(place)(texts, padding=True, return_tensors="pt")
        return _named(model(**tokens).logits, model.config.id2label, "score")


def language(inputs: Tensors) -> Tensors:
    """The ensemble answers as the text classifier does: it holds the same weights."""
    answer = text_classifier(inputs)
    return {"label": answer["label"], "probability": answer["score"]}


def language_tokenizer(inputs: Tensors) -> Tensors:
    from transformers import AutoTokenizer

    place = weights("text_classifier/1/checkpoint")
    texts = [text.decode() for text in inputs["text"].ravel()]
    tokens = AutoTokenizer.from_pretrained(place)(
        texts, padding="max_length", max_length=64, truncation=True, return_tensors="np"
    )
    return {name: tokens[name].astype(np.int64) for name in ("input_ids", "attention_mask")}


def language_labels(inputs: Tensors) -> Tensors:
    from scipy.special import softmax

    from workbook.zoo.data import LANGUAGES

    probabilities = softmax(inputs["logits"], axis=1)
    best = probabilities.argmax(1)
    return {
        "label": np.array([[LANGUAGES[i].encode()] for i in best], dtype=object),
        "probability": probabilities.max(1, keepdims=True),
    }


def chooser(inputs: Tensors) -> Tensors:
    places = {
        b"fp32": (b"digits_onnx/1", onnx("digits_onnx/1/model.onnx")),
        b"fp16": (b"digits_onnx/2", onnx("digits_onnx/2/model.onnx")),
        b"torch": (b"digits_torch/1", _torch_as_onnx),
    }
    answers = [
        (places[choice][0], places[choice][1]({"image": image[None]})["logits"])
        for choice, image in zip(inputs["choice"].ravel(), inputs["image"], strict=True)
    ]
    return {
        "logits": np.concatenate([logits for _, logits in answers]),
        "answered_by": np.array([[who] for who, _ in answers], dtype=object),
    }


def _torch_as_onnx(inputs: Tensors) -> Tensors:
    return {"logits": digits_torch({"INPUT__0": inputs["image"]})["OUTPUT__0"]}
