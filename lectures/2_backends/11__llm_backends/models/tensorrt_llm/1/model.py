"""In place of NVIDIA's program: only the import that decides whether the program can run."""

from tensorrt_llm import LLM, SamplingParams  # noqa: F401
