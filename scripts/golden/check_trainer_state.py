"""Reads trainer_state.json as transformers does, and as LLaMA-Factory plots it.

    pip install torch transformers
    python scripts/golden/check_trainer_state.py                          # the committed sample
    python scripts/golden/check_trainer_state.py RUN_DIR/trainer_state.json

The Rust test demands the committed sample byte for byte of our own writer.
"""

import sys
from pathlib import Path

from transformers import TrainerState

SAMPLE = Path(__file__).parents[2] / "tests/golden/trainer_state.json"


def main(path):
    state = TrainerState.load_from_json(str(path))
    assert state.global_step <= state.max_steps and state.num_train_epochs >= 1, state
    # As `plot_loss` collects them: every value is drawn.
    losses = [(entry["step"], entry["loss"]) for entry in state.log_history if "loss" in entry]
    metrics = [(entry["step"], entry["eval_f1"]) for entry in state.log_history if "eval_f1" in entry]
    for step, value in losses + metrics:
        assert isinstance(step, int) and isinstance(value, float), (step, value)
    assert losses and losses == sorted(losses, key=lambda pair: pair[0]), losses
    if metrics:
        best = max(value for _, value in metrics)
        assert state.best_metric == best, (state.best_metric, best)
        assert state.best_model_checkpoint == f"checkpoint-{state.best_global_step}", state
        assert (state.best_global_step, best) in metrics
    if path == SAMPLE:
        assert losses == [(1, 4.25)] and metrics == [(2, 0.5)] and state.max_steps == 8, state
    print(f"{path.name}: {state.global_step} of {state.max_steps} steps, {len(losses)} losses, {len(metrics)} metrics")


main(Path(sys.argv[1]) if len(sys.argv) > 1 else SAMPLE)
