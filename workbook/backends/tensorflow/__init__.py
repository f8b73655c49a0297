"""The stand-in for NVIDIA's TensorFlow backend; the server starts `model.py`."""
