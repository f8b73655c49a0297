"""Export a small BERT that gives a sentence's mean vector: python export.py TARGET"""

import sys

import torch
from transformers import BertConfig, BertModel


class Encoder(torch.nn.Module):
    """Tokens of sentences, int64 (n, tokens) → vector, float32 (n, 768)."""

    def __init__(self):
        super().__init__()
        size = {"vocab_size": 1000, "num_hidden_layers": 2, "intermediate_size": 768}
        config = BertConfig(**size, attn_implementation="eager")
        self.bert = BertModel(config, add_pooling_layer=False)

    def forward(self, input_ids, attention_mask, token_type_ids):
        words = self.bert(input_ids, attention_mask, token_type_ids).last_hidden_state
        mask = attention_mask[:, :, None].to(words.dtype)  # 0 where a sentence is padded
        return (words * mask).sum(1) / mask.sum(1)


def main(target):
    torch.manual_seed(0)
    free = {0: torch.export.Dim("batch"), 1: torch.export.Dim("tokens")}
    torch.onnx.export(
        Encoder().eval(),
        tuple(torch.ones((2, 7), dtype=torch.int64) for _ in range(3)),
        target,
        input_names=["input_ids", "attention_mask", "token_type_ids"],
        output_names=["vector"],
        dynamic_shapes=(free, free, free),
        external_data=False,
        verbose=False,
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
