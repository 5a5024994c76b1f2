#!/usr/bin/env python3
"""The losses of a LoRA run with transformers and PEFT, in the order of a run of `understudy train`.

    loss_curve.py init MODEL_DIR ADAPTER_DIR            an adapter to begin with, as PEFT draws it
    loss_curve.py train MODEL_DIR CORPUS.jsonl ORDER.json ADAPTER_DIR OUT.jsonl [--lr 2e-4] [--warmup 0.1]

ORDER.json is what `understudy train CONFIG --dry-run --json` prints. One conversation at a time goes
through the model, without padding; a step's loss is the mean over its supervised tokens. The adapter
has rank 16 and alpha 32 on all linear layers; AdamW and the cosine schedule are those of PyTorch and
transformers. Needs torch, transformers and peft.
"""
import argparse
import json
import math
import os
import time

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
import torch
from peft import LoraConfig, PeftModel, get_peft_model
from transformers import AutoModelForCausalLM, AutoTokenizer, get_scheduler


def ids(tokenizer, messages):
    """Prompt and answer as trained on; what is behind the end of the answer's turn is not read."""
    text = lambda m, ask: tokenizer.apply_chat_template(m, tokenize=False, add_generation_prompt=ask)
    prompt = tokenizer(text(messages[:-1], True), add_special_tokens=False)["input_ids"]
    whole = tokenizer(text(messages, False), add_special_tokens=False)["input_ids"]
    assert whole[:len(prompt)] == prompt, "the chat template does not only append"
    end = tokenizer.convert_tokens_to_ids(tokenizer.eos_token)
    return whole[:len(prompt) + whole[len(prompt):].index(end) + 1], len(prompt)


def init(a):
    torch.manual_seed(a.seed)
    model = AutoModelForCausalLM.from_pretrained(a.model, dtype=torch.float32)
    lora = LoraConfig(r=16, lora_alpha=32, target_modules="all-linear", task_type="CAUSAL_LM")
    get_peft_model(model, lora).save_pretrained(a.adapter)


def train(a):
    tokenizer = AutoTokenizer.from_pretrained(a.model)
    model = AutoModelForCausalLM.from_pretrained(a.model, dtype=torch.float32)
    model = PeftModel.from_pretrained(model, a.adapter, is_trainable=True)
    model.train()
    order = json.load(open(a.order, encoding="utf-8"))
    corpus = [ids(tokenizer, json.loads(line)["messages"]) for line in open(a.corpus, encoding="utf-8")]
    tokens, learned = sum(len(x) for x, _ in corpus), sum(len(x) - start for x, start in corpus)
    assert [tokens, learned] == [order["tokens"], order["supervised_tokens"]], "the two tokenizers disagree"
    steps = order["steps"]
    factors = [p for p in model.parameters() if p.requires_grad]
    adam = torch.optim.AdamW(factors, lr=a.lr, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.0)
    warmup = math.ceil(a.warmup * len(steps))
    schedule = get_scheduler("cosine", adam, num_warmup_steps=warmup, num_training_steps=len(steps))
    with open(a.out, "w", encoding="utf-8") as out:
        for number, names in enumerate(steps, 1):
            start, total, count = time.time(), 0.0, 0
            rows = [corpus[int(name.rsplit(":", 1)[1]) - 1] for name in names]
            labels = sum(len(x) - begin for x, begin in rows)
            for x, begin in rows:
                scores = model(input_ids=torch.tensor([x])).logits[0, begin - 1:-1]
                loss = torch.nn.functional.cross_entropy(scores, torch.tensor(x[begin:]), reduction="sum")
                (loss / labels).backward()
                total, count = total + loss.item(), count + len(x) - begin
            norm = torch.nn.utils.clip_grad_norm_(factors, 1.0).item()
            line = {"step": number, "loss": total / count, "grad_norm": norm, "lr": schedule.get_last_lr()[0]}
            adam.step(), schedule.step(), adam.zero_grad()
            out.write(json.dumps({**line, "seconds": round(time.time() - start, 2)}) + "\n")
            out.flush()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(required=True)
    verb = verbs.add_parser("init")
    verb.set_defaults(run=init)
    verb.add_argument("model"), verb.add_argument("adapter"), verb.add_argument("--seed", type=int, default=7)
    verb = verbs.add_parser("train")
    verb.set_defaults(run=train)
    for name in ("model", "corpus", "order", "adapter", "out"):
        verb.add_argument(name)
    verb.add_argument("--lr", type=float, default=2e-4), verb.add_argument("--warmup", type=float, default=0.1)
    a = parser.parse_args()
    a.run(a)
