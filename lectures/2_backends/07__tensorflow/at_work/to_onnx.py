"""Export a Keras model as ONNX, by Keras on PyTorch: python to_onnx.py MODEL.keras MODEL.onnx"""

import os
import sys

os.environ["KERAS_BACKEND"] = "torch"  # before Keras is imported
import keras

model = keras.models.load_model(sys.argv[1], compile=False)
model(keras.ops.zeros((2, *model.input_shape[1:])))
model.export(sys.argv[2], format="onnx", verbose=False)
