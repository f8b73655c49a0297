"""The lecture's network as a Keras model on TensorFlow, with PyTorch's weights."""

from __future__ import annotations

from typing import Any

from workbook.lessons import formats


def network() -> Any:
    """A Keras model: image (n, 3, 64, 64) float32 → {"logits": (n, 2)}.

    PyTorch stores a convolution's kernel as (out, in, height, width), Keras as (height, width, in,
    out). TensorFlow's convolutions on the CPU want the channels last.
    """
    import tensorflow as tf
    import torch

    own = formats.network()
    image = tf.keras.Input((3, 64, 64), name="image")
    x = tf.keras.layers.Permute((2, 3, 1))(image)
    for layer in own.features:
        if isinstance(layer, torch.nn.Conv2d):
            conv = tf.keras.layers.Conv2D(layer.out_channels, 3, padding="same", activation="relu")
            x = tf.keras.layers.MaxPooling2D()(conv(x))
            conv.set_weights(
                [layer.weight.detach().numpy().transpose(2, 3, 1, 0), layer.bias.detach().numpy()]
            )
    head = tf.keras.layers.Dense(2)
    logits = head(tf.keras.layers.GlobalAveragePooling2D()(x))
    head.set_weights([own.head.weight.detach().numpy().T, own.head.bias.detach().numpy()])
    return tf.keras.Model(image, {"logits": logits})
