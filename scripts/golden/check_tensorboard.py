"""Checks src/train/tensorboard.rs against TensorBoard's own writer and reader.

    pip install tensorboard
    python scripts/golden/check_tensorboard.py           # the committed file is what TensorBoard writes and reads
    python scripts/golden/check_tensorboard.py --write   # writes it anew
    python scripts/golden/check_tensorboard.py RUN_DIR   # the event files of a run against its trainer_log.jsonl

The Rust test demands the committed file byte for byte of our own writer.
"""

import io
import json
import struct
import sys
from pathlib import Path

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.compat.proto.event_pb2 import Event, SessionLog
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.summary.writer.record_writer import RecordWriter

GOLDEN = Path(__file__).parents[2] / "tests/golden/tensorboard/events.out.tfevents.1700000000.golden"
STEPS = [
    (1, [("train/loss", 4.25), ("train/grad_norm", 12.5), ("train/learning_rate", 0.0), ("train/epoch", 0.01)]),
    (2, [("train/learning_rate", 1e-4), ("train/epoch", 0.02)]),
    (200, [("train/loss", 0.1), ("train/grad_norm", 0.0), ("train/learning_rate", 2e-4), ("train/epoch", 2.0)]),
    (200, [("eval/f1", 0.5625)]),
]


class Kept(io.BytesIO):
    """A file whose bytes outlive its closing."""

    def close(self):
        self.bytes = self.getvalue()
        super().close()


def written():
    """The file as TensorBoard writes it."""
    events = [Event(file_version="brain.Event:2"), Event(step=1, session_log=SessionLog(status=SessionLog.START))]
    for step, scalars in STEPS:
        values = [Summary.Value(tag=tag, simple_value=value) for tag, value in scalars]
        events.append(Event(step=step, summary=Summary(value=values)))
    file = Kept()
    writer = RecordWriter(file)
    for number, event in enumerate(events):
        event.wall_time = 1.7e9 + number * 0.25
        writer.write(event.SerializeToString())
    writer.close()
    return file.bytes


def read(path):
    """All scalars, by tag: pairs of step and value."""
    accumulator = EventAccumulator(str(path), size_guidance={"scalars": 0})
    accumulator.Reload()
    return {tag: [(e.step, e.value) for e in accumulator.Scalars(tag)] for tag in accumulator.Tags()["scalars"]}


def single(value):
    return struct.unpack("f", struct.pack("f", value))[0]


def expect(found, expected, what):
    if found != expected:
        sys.exit(f"{what}: expected {expected}, found {found}")


def run(folder):
    lines = [json.loads(line) for line in (folder / "trainer_log.jsonl").read_text().splitlines()]
    expected = {}
    for line in lines:
        if line.get("eval_f1") is not None:
            expected.setdefault("eval/f1", []).append((line["current_steps"], single(line["eval_f1"])))
            continue
        for tag, key in [("loss", "loss"), ("grad_norm", "grad_norm"), ("learning_rate", "lr"), ("epoch", "epoch")]:
            if line[key] is not None:
                expected.setdefault(f"train/{tag}", []).append((line["current_steps"], single(line[key])))
    expect(read(folder / "runs"), expected, folder)
    print(f"{folder}: {len(lines)} lines, the same in TensorBoard")


def main(arguments):
    if arguments == ["--write"]:
        GOLDEN.parent.mkdir(parents=True, exist_ok=True)
        GOLDEN.write_bytes(written())
    if arguments and arguments != ["--write"]:
        return run(Path(arguments[0]))
    expect(GOLDEN.read_bytes(), written(), GOLDEN)
    expected = {}
    for step, scalars in STEPS:
        for tag, value in scalars:
            expected.setdefault(tag, []).append((step, single(value)))
    expect(read(GOLDEN), expected, GOLDEN)
    print(f"{GOLDEN.name}: TensorBoard writes the same bytes and reads every number")


main(sys.argv[1:])
