"""Learning rates for src/train/schedule.rs, stepped through transformers' own `get_scheduler`.

    pip install torch transformers
    python scripts/golden/schedules.py tests/golden/schedules.json

Warm-up steps are those of `TrainingArguments.get_warmup_steps`: the ratio times the steps, rounded
up. Each list of rates goes one step beyond the last.
"""

import json
import math
import sys

import torch
from transformers import get_scheduler

PEAK = 2e-4


def rates(name, total, warmup):
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=PEAK)
    scheduler = get_scheduler(name, optimizer, num_warmup_steps=warmup, num_training_steps=total)
    found = []
    for _ in range(total + 1):
        found.append(scheduler.get_last_lr()[0])
        optimizer.step()
        scheduler.step()
    return found


def main(out):
    cases = []
    for name in ["constant", "constant_with_warmup", "linear", "cosine"]:
        for total in [0, 1, 2, 3, 10, 37]:
            for ratio in [0.0, 0.03, 0.1, 0.5, 1.0]:
                warmup = math.ceil(total * ratio)
                cases.append(
                    dict(name=name, total=total, ratio=ratio, warmup=warmup, rates=rates(name, total, warmup)))
    with open(out, "w", encoding="utf-8") as file:
        file.write(json.dumps(dict(peak=PEAK, cases=cases)).replace("}, {", "},\n {") + "\n")


main(sys.argv[1])
