"""The two compiled helpers of the laptop server. README.md in this folder describes them."""

from .build import autocomplete, fastpath, fingerprint

__all__ = ["autocomplete", "fastpath", "fingerprint"]
