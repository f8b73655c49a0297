"""One step of a Llama as ONNX; the keys and values of earlier tokens go in and out as tensors.

The export follows the layers of Hugging Face's `LlamaForCausalLM` (RMS norm, rotary positions,
attention with a cache, SiLU gate) with the whole cache as one tensor, so that a client or another
model can pass it from one step to the next.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from .exports import OPSET
from .recipe import Recipe


def step(checkpoint: Path) -> Any:
    """The torch module to export.

    Inputs: `input_ids` (n, new) int64; `attention_mask` (n, before + new) int64, 0 for padding;
    `past` (n, layers · 2, heads, before, 64) float32. Outputs: `logits` (n, vocabulary) of the
    last token, and `present`, the cache with the new tokens in it.

    `before` is at least 1: an empty cache is one column of zeros that the mask excludes. A request
    fails if it has a position beyond the context length or a token beyond the vocabulary.
    """
    import torch
    from torch.nn import functional
    from transformers import LlamaForCausalLM

    model = LlamaForCausalLM.from_pretrained(checkpoint).eval()
    heads = model.config.num_key_value_heads
    queries = model.config.num_attention_heads
    size = model.config.hidden_size // queries

    def turned(x: Any, cos: Any, sin: Any) -> Any:
        first, second = x[..., : size // 2], x[..., size // 2 :]
        return x * cos + torch.cat([-second, first], -1) * sin

    class Step(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.model = model.model
            self.head = model.lm_head
            places = torch.arange(model.config.max_position_embeddings)
            angles = places[:, None].float() * model.model.rotary_emb.inv_freq.float()
            self.register_buffer("cos", torch.cat([angles, angles], -1).cos())
            self.register_buffer("sin", torch.cat([angles, angles], -1).sin())

        def forward(
            self, input_ids: torch.Tensor, attention_mask: torch.Tensor, past: torch.Tensor
        ) -> Any:
            rows, new = input_ids.shape
            places = (attention_mask.cumsum(1) - 1).clamp(min=0)
            total = attention_mask.shape[1]
            here = places[:, total - new :]
            cos, sin = (
                functional.embedding(here, table)[:, None] for table in (self.cos, self.sin)
            )
            order = torch.arange(total)
            seen = order[None, :] <= order[total - new :, None]
            allowed = seen[None, None] & (attention_mask[:, None, None, :] > 0)
            # A padding row may attend to nothing. With -inf its softmax would be NaN, so a very
            # small number is taken.
            bias = torch.where(allowed, 0.0, -1e30)
            x = self.model.embed_tokens(input_ids)
            kept = []
            for number, layer in enumerate(self.model.layers):
                attention = layer.self_attn
                y = layer.input_layernorm(x)
                q, k, v = (
                    part(y).view(rows, new, count, size).transpose(1, 2)
                    for part, count in (
                        (attention.q_proj, queries),
                        (attention.k_proj, heads),
                        (attention.v_proj, heads),
                    )
                )
                q, k = turned(q, cos, sin), turned(k, cos, sin)
                k = torch.cat([past[:, 2 * number], k], 2)
                v = torch.cat([past[:, 2 * number + 1], v], 2)
                kept += [k, v]
                if queries > heads:
                    k, v = (t.repeat_interleave(queries // heads, 1) for t in (k, v))
                weights = torch.softmax(q @ k.transpose(2, 3) * size**-0.5 + bias, -1)
                y = (weights @ v).transpose(1, 2).reshape(rows, new, queries * size)
                x = x + attention.o_proj(y)
                y = layer.post_attention_layernorm(x)
                y = layer.mlp.down_proj(
                    functional.silu(layer.mlp.gate_proj(y)) * layer.mlp.up_proj(y)
                )
                x = x + y
            return self.head(self.model.norm(x[:, -1])), torch.stack(kept, 1)

    return Step().eval()


def export(checkpoint: Path, target: Path) -> None:
    """Write the step of a Llama as one ONNX file."""
    import torch

    module = step(checkpoint)
    config = module.model.config
    size = config.hidden_size // config.num_attention_heads
    rows, new, before = 2, 3, 5
    cache = (rows, config.num_hidden_layers * 2, config.num_key_value_heads, before, size)
    examples = (
        torch.ones((rows, new), dtype=torch.int64),
        torch.ones((rows, before + new), dtype=torch.int64),
        torch.zeros(cache),
    )
    batch = torch.export.Dim("batch")
    free = torch.export.Dim.DYNAMIC
    program = torch.onnx.export(
        module,
        examples,
        input_names=["input_ids", "attention_mask", "past"],
        output_names=["logits", "present"],
        dynamic_shapes=({0: batch, 1: free}, {0: batch, 1: free}, {0: batch, 3: free}),
        opset_version=OPSET,
        dynamo=True,
        verbose=False,
    )
    program.save(target, external_data=False)


def _recipe(source: str, sentence: str) -> Recipe:
    def function(target: Path) -> None:
        from . import checkpoint

        export(checkpoint(source), target)

    return Recipe(
        f"{source}_onnx",
        sentence,
        function,
        "model.onnx",
        needs=(source,),
        uses=("exports",),
        packages=("torch", "onnx", "onnxscript", "transformers"),
        on_request=True,
    )


RECIPES = (
    _recipe("llama", "one step of the Llama as ONNX, with its key-value cache"),
    _recipe("llama_tiny", "one step of the Llama for tests as ONNX"),
    _recipe("llama_large", "one step of the Llama for benchmarks as ONNX"),
)
