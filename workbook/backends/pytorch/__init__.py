"""The stand-in for NVIDIA's PyTorch backend; the server starts `model.py`."""
