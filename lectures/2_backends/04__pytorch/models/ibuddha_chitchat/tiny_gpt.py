"""A GPT of one layer with random weights, with the production guide's inputs and output."""

import torch
from torch import nn

WORDS, WIDTH = 13088, 32


class TinyGPT(nn.Module):
    """Ids, mask and types, int64 (n, tokens), to logits (n, tokens, WORDS)."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.words, self.types = nn.Embedding(WORDS, WIDTH), nn.Embedding(WORDS, WIDTH)
        self.mix, self.head = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WORDS)

    def forward(self, input_ids, attention_mask, token_type_ids):
        x = self.words(input_ids) + self.types(token_type_ids)
        query, key, value = self.mix(x).chunk(3, dim=-1)
        scores = query @ key.transpose(1, 2)
        seen = torch.ones_like(scores).tril() * attention_mask[:, None, :]
        weights = torch.softmax(scores.masked_fill(seen == 0, -1e9), dim=-1)
        return self.head(x + weights @ value)
