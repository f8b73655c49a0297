"""The compiled helpers of the laptop server. README.md in this folder describes them."""

from .build import fastpath, fingerprint, preload

__all__ = ["fastpath", "fingerprint", "preload"]
