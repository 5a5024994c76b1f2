"""Numbers for tests/encoder_golden.rs, from sentence-transformers and transformers in f32 on the CPU.

    pip install torch transformers sentence-transformers safetensors tokenizers
    python scripts/golden/sentence_encoder.py tiny tests/golden/minilm
    python scripts/golden/sentence_encoder.py real DIR tests/golden/minilm-real.json

`tiny` writes a BERT with random, non-uniform weights as a sentence-transformers directory, with a
WordPiece tokenizer of its own, and beside it `golden.json`: per text its ids and its vector, all
texts in one padded batch, and the token states of the first. `real` does the same for the weights
in DIR (`understudy model fetch minilm` prints it).
"""

import json
import math
import sys
from pathlib import Path

import torch
from safetensors.torch import save_file
from sentence_transformers import SentenceTransformer
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
from transformers import BertConfig, BertModel

LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789"
WORDS = ["the", "in", "of", "ann", "lee", "lives", "bern", "left", "for", "rome", "works", "at", "acme", "city"]
PIECES = ["##s", "##ed", "##ing", "##er", "##ton", "##ville", *("##" + letter for letter in LETTERS)]
TINY = [
    "Ann Lee left Bern for Rome in 1861.",
    "Rome",
    "",
    "Ann works at Acme City; Lee lives in the city of Bern, and so on (and on) — for ever.",
    "ÉCOLE Zürich \u6771\u4eac \u0442 \U0001f600",
    "  leftville\tannington\n\x07 of\u00a0the ",
    "ann lee " * 40,
    "x" * 120,
]
REAL = [
    "Ronald Reagan lived in California before he became President of the United States.",
    "Reagan lives in America.",
    "The ministry said on Friday that it would not follow the advice of its own committee.",
    "Rome",
    "",
    "Naïve café owners — «les propriétaires» — in 東京 did not care; 100% of them, they said (twice).",
    "The committee met again on Monday to discuss the report of its chairman. " * 40,
    "Dieser Satz ist deutsch, und dieser auch.",
]


def randomise(model, seed):
    """Weights whose rows, columns and tensors all differ; norms around one."""
    generator = torch.Generator().manual_seed(seed)
    for name, parameter in sorted(model.named_parameters()):
        noise = torch.randn(parameter.shape, generator=generator)
        with torch.no_grad():
            if "LayerNorm.weight" in name:
                parameter.copy_(1 + 0.3 * noise)
            elif parameter.dim() == 1 or "embeddings" in name:
                parameter.copy_(0.5 * noise)
            else:
                parameter.copy_(noise * 1.5 / math.sqrt(parameter.shape[1]))


def write_tiny(out):
    specials = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    vocab = {}
    for word in [*specials, *WORDS, *LETTERS, *PIECES, *".,;()\u2014", "\u6771"]:
        vocab.setdefault(word, len(vocab))
    tokenizer = Tokenizer(models.WordPiece(vocab, unk_token="[UNK]", max_input_chars_per_word=100))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS]:0 $A:0 [SEP]:0", pair="[CLS]:0 $A:0 [SEP]:0 $B:1 [SEP]:1",
        special_tokens=[("[CLS]", vocab["[CLS]"]), ("[SEP]", vocab["[SEP]"])])
    tokenizer.add_special_tokens(specials)
    # As published tokenizers have it; the encoder's own max_seq_length counts instead.
    tokenizer.enable_truncation(8)
    tokenizer.enable_padding(length=8)
    out.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(out / "tokenizer.json"))
    config = BertConfig(
        vocab_size=len(vocab), hidden_size=24, num_hidden_layers=2, num_attention_heads=4, intermediate_size=40,
        max_position_embeddings=64, type_vocab_size=2, layer_norm_eps=1e-6, hidden_act="gelu")
    model = BertModel(config).eval()
    randomise(model, 11)
    written = {key: value for key, value in config.to_dict().items() if value is not None}
    written["architectures"] = ["BertModel"]
    write(out / "config.json", written)
    tensors = {name: value.contiguous() for name, value in model.state_dict().items()}
    tensors["embeddings.position_ids"] = torch.arange(64).unsqueeze(0)
    save_file(tensors, out / "model.safetensors", metadata={"format": "pt"})
    write(out / "tokenizer_config.json", {
        "tokenizer_class": "BertTokenizerFast", "do_lower_case": True, "model_max_length": 512, "unk_token": "[UNK]",
        "sep_token": "[SEP]", "pad_token": "[PAD]", "cls_token": "[CLS]", "mask_token": "[MASK]"})
    kinds = [("", "Transformer"), ("1_Pooling", "Pooling"), ("2_Normalize", "Normalize")]
    write(out / "modules.json", [
        {"idx": at, "name": str(at), "path": path, "type": f"sentence_transformers.models.{kind}"}
        for at, (path, kind) in enumerate(kinds)])
    write(out / "sentence_bert_config.json", {"max_seq_length": 32, "do_lower_case": False})
    (out / "1_Pooling").mkdir(exist_ok=True)
    write(out / "1_Pooling" / "config.json", {
        "word_embedding_dimension": 24, "pooling_mode_cls_token": False, "pooling_mode_mean_tokens": True,
        "pooling_mode_max_tokens": False, "pooling_mode_mean_sqrt_len_tokens": False})


def golden(folder, texts):
    encoder = SentenceTransformer(str(folder), device="cpu", model_kwargs={"attn_implementation": "eager"}).eval()
    with torch.no_grad():
        vectors = encoder.encode(texts, batch_size=len(texts), convert_to_tensor=True).float()
        inputs = encoder.tokenizer(
            [text.strip() for text in texts], padding=True, truncation=True, max_length=encoder.max_seq_length,
            return_tensors="pt")
        states = encoder[0].auto_model(**inputs).last_hidden_state
    # The same vectors by hand, so that what the directory asks for is what was done.
    mask = inputs["attention_mask"].unsqueeze(-1).float()
    means = (states * mask).sum(1) / mask.sum(1)
    by_hand = torch.nn.functional.normalize(means, dim=1)
    apart = (by_hand - vectors).abs().max().item()
    assert apart < 2e-6, apart
    print(f"{len(texts)} texts, {vectors.shape[1]} numbers each; padded to {mask.shape[1]}; by hand within {apart:.1e}")
    lengths = inputs["attention_mask"].sum(1).tolist()
    return {"texts": [
        {"text": text, "ids": ids[:length], "vector": [float(f"{number:.9g}") for number in vector]}
        for text, ids, length, vector in zip(texts, inputs["input_ids"].tolist(), lengths, vectors.tolist())]}


def write(path, value):
    path.write_text(json.dumps(value, indent=1 if isinstance(value, dict) else None, ensure_ascii=False) + "\n")


def main():
    torch.set_num_threads(1)
    if sys.argv[1] == "tiny":
        out = Path(sys.argv[2])
        write_tiny(out)
        numbers, target = golden(out, TINY), out / "golden.json"
    else:
        numbers, target = golden(sys.argv[2], REAL), Path(sys.argv[3])
    lines = ",\n".join(json.dumps(text, ensure_ascii=True) for text in numbers["texts"])
    target.write_text(f'{{"texts": [\n{lines}\n]}}\n')


main()
