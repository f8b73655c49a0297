"""The two compiled helpers of the laptop server: see README.md in this folder."""

from .build import autocomplete, fastpath, fingerprint

__all__ = ["autocomplete", "fastpath", "fingerprint"]
