"""Two tiny Hugging Face classifiers, saved with `save_pretrained`."""

from __future__ import annotations

from pathlib import Path

from . import data
from .recipe import Recipe

#: Tokens per text: longer texts are cut, shorter ones padded (in the ensemble).
TOKENS = 64


def image_classifier(target: Path) -> None:
    """A ResNet for digits as RGB images of any size; its preprocessor resizes them to 32 by 32."""
    import numpy as np
    import torch
    from torch.nn import functional
    from transformers import ResNetConfig, ResNetForImageClassification, ViTImageProcessorPil

    from . import nets

    split = data.digits()
    processor = ViTImageProcessorPil(
        size={"height": 32, "width": 32}, image_mean=[0.5] * 3, image_std=[0.5] * 3
    )
    images = [np.repeat((x * 255).round().astype(np.uint8), 3, axis=0) for x in split.x_train]
    rgb = [image.transpose(1, 2, 0) for image in images]
    pixels = processor(rgb, return_tensors="pt")["pixel_values"]
    classes = torch.from_numpy(split.y_train)
    torch.manual_seed(0)
    model = ResNetForImageClassification(
        ResNetConfig(
            embedding_size=16,
            hidden_sizes=[16, 32, 64],
            depths=[1, 1, 1],
            layer_type="basic",
            id2label=dict(enumerate(split.labels)),
            label2id={label: number for number, label in enumerate(split.labels)},
        )
    )

    def loss(which: torch.Tensor) -> torch.Tensor:
        return functional.cross_entropy(model(pixels[which]).logits, classes[which])

    nets.fit(model, loss, len(rgb), epochs=10)
    model.save_pretrained(target)
    processor.save_pretrained(target)


def text_classifier(target: Path) -> None:
    """A one-layer BERT that tells the language of a text, with its own tokenizer."""
    import numpy as np
    import torch
    from tokenizers import (
        Regex,
        Tokenizer,
        models,
        normalizers,
        pre_tokenizers,
        processors,
        trainers,
    )
    from torch.nn import functional
    from transformers import BertConfig, BertForSequenceClassification, PreTrainedTokenizerFast

    from . import nets

    split = data.languages()
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]
    tokenizer = Tokenizer(models.BPE(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.train_from_iterator(
        split.x_train,
        trainers.BpeTrainer(vocab_size=4000, special_tokens=special, show_progress=False),
    )
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B [SEP]",
        special_tokens=[("[CLS]", 2), ("[SEP]", 3)],
    )
    tokenizer.enable_truncation(TOKENS)
    tokenizer.enable_padding()

    torch.manual_seed(0)
    model = BertForSequenceClassification(
        BertConfig(
            vocab_size=tokenizer.get_vocab_size(),
            hidden_size=64,
            num_hidden_layers=1,
            num_attention_heads=4,
            intermediate_size=128,
            max_position_embeddings=TOKENS,
            attention_probs_dropout_prob=0.0,
            id2label=dict(enumerate(split.labels)),
            label2id={label: number for number, label in enumerate(split.labels)},
        )
    )
    # BPE dropout (Provilkov et al., 2020) prepares the model for unseen words: at random, a word
    # is split into smaller tokens than usual. The library's own dropout cannot be seeded, so a
    # mark at which the tokenizer splits is put between letters at random during training.
    mark = "\ue000"
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Metaspace(), pre_tokenizers.Split(Regex(mark), "removed")]
    )
    rng = np.random.default_rng(0)

    def cut(text: str) -> str:
        before = (rng.random(len(text)) < 0.1).tolist()
        return "".join(mark * yes + c for c, yes in zip(text, before, strict=True))

    classes = torch.from_numpy(split.y_train)

    def loss(which: torch.Tensor) -> torch.Tensor:
        batch = tokenizer.encode_batch([cut(split.x_train[i]) for i in which.tolist()])
        logits = model(
            input_ids=torch.tensor([one.ids for one in batch]),
            attention_mask=torch.tensor([one.attention_mask for one in batch]),
        ).logits
        return functional.cross_entropy(logits, classes[which])

    nets.fit(model, loss, len(classes), epochs=5, rate=4e-3)
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    model.save_pretrained(target)
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token="[PAD]",
        unk_token="[UNK]",
        cls_token="[CLS]",
        sep_token="[SEP]",
        model_max_length=TOKENS,
        model_input_names=["input_ids", "attention_mask"],
    ).save_pretrained(target)


RECIPES = (
    Recipe(
        "text_classifier",
        "a Hugging Face BERT: which of 16 languages; 98 % of test texts right",
        text_classifier,
        "text_classifier",
        uses=("data", "nets"),
        packages=("torch", "transformers", "tokenizers", "babel"),
    ),
    Recipe(
        "image_classifier",
        "a Hugging Face ResNet on image files: which digit; 97 % of test digits right",
        image_classifier,
        "image_classifier",
        uses=("data", "nets"),
        packages=("torch", "transformers", "scikit-learn"),
    ),
)
