"""Training beside TRL + PEFT: supervised tokens per second and memory; and the losses of both, step by step."""
import json
import pathlib
import shutil

import desk
import measure

HERE = pathlib.Path(__file__).resolve().parent


def corpus_of(bench):
    """The messages file that both sides train on."""
    if bench.a.corpus:
        return bench.need("corpus")
    out = bench.work / "train.jsonl"
    if not out.exists():
        measure.run(bench.peer("make_corpus.py", bench.need("data"), out), log=bench.log)
    return out


def hf_model(bench):
    """The student's weights as the peers read them: the same numbers, in f32."""
    out = bench.work / "hf"
    if not out.exists():
        measure.run(bench.understudy("merge", "--model", bench.a.model, "--out", out), bench.env, log=bench.log)
    return out


def fresh(run):
    """A run directory with its corpus and nothing else."""
    for path in run.iterdir():
        if path.name not in ("corpus", "traces.jsonl"):
            shutil.rmtree(path) if path.is_dir() else path.unlink()


def sets(**keys):
    return [part for key, value in keys.items() for part in ("--set", f"train.{key}={value}")]


def log_of(run):
    lines = map(json.loads, open(run / "trainer_log.jsonl", encoding="utf-8"))
    return [line for line in lines if line.get("eval_f1") is None]


def ours(bench, config, run, micro):
    fresh(run)
    command = bench.understudy("train", config, *sets(max_steps=bench.a.steps, micro_batch_size=micro))
    _, seconds, peak = measure.run(command, bench.env, log=bench.log)
    log = log_of(run)
    # Tokens over tokens per second: the time at the end of each step, finer than the log's clock.
    ends = [line["total_tokens"] / line["throughput"] for line in log]
    taken, steps = ends[-1] - ends[0], len(log) - 1
    learned = log[-1]["supervised_tokens"] - log[0]["supervised_tokens"]
    return {
        "examples_per_s": round(micro * steps / taken, 3), "supervised_tokens_per_s": round(learned / taken, 2),
        "tokens_per_s": round((log[-1]["total_tokens"] - log[0]["total_tokens"]) / taken, 1),
        "mean_step_s": round(taken / steps, 3), "peak_resident_gb": round(peak / 1e9, 3), "micro": micro,
        "threads": bench.a.threads, "command_s": round(seconds, 1), "losses": [round(line["loss"], 4) for line in log],
    }


def train(bench):
    corpus, hf = corpus_of(bench), hf_model(bench)
    config, _ = desk.corpus(corpus, bench.work / "train", bench.a.model)
    run = bench.work / "train/run"
    systems = {f"understudy f32, micro {micro}": lambda micro=micro: ours(bench, config, run, micro)
               for micro in bench.a.micro}
    for name, flags in (("f32, padded, batch 8", ["--micro", 8]),
                        ("bf16, padded, batch 8", ["--micro", 8, "--dtype", "bfloat16"]),
                        # Two rows of 1024 are about the tokens of eight padded examples.
                        ("f32, packed to 1024", ["--micro", 2, "--packing", "--len", 1024])):
        command = bench.peer("train_trl.py", hf, corpus, "--steps", bench.a.steps, *flags)
        told = lambda command=command: measure.last_json(measure.run(command, bench.env, bench.work, bench.log)[0])
        systems[f"trl+peft {name}"] = told
    for _ in range(bench.a.rounds):
        for name, measured in systems.items():
            if bench.wanted(name):
                bench.keep("train", name, measured())
    rows = bench.rows("train")
    ours_of = [name for name in systems if name.startswith("understudy")]
    measure.table(rows, ours_of, "supervised_tokens_per_s", "supervised tokens/s")


def curve(bench, steps=60, per_step=4):
    """Both sides begin with the same adapter and see the same conversations in the same order."""
    corpus, hf = corpus_of(bench), hf_model(bench)
    # The shortest conversations: what is compared are the losses, and PyTorch takes its time.
    lines = [json.loads(line)["messages"] for line in open(corpus, encoding="utf-8")]
    length = lambda at: sum(len(message["content"]) for message in lines[at])
    short = set(sorted(range(len(lines)), key=length)[:steps * per_step])
    config, _ = desk.corpus(corpus, bench.work / "curve", bench.a.model, keep=lambda at, _: at in short)
    run, init, order = (bench.work / "curve" / name for name in ("run", "init", "order.json"))
    python = [bench.a.python, str(HERE / "loss_curve.py")]
    if not init.exists():
        measure.run([*python, "init", hf, init], bench.env, log=bench.log)
    train = ["train", config, *sets(max_steps=steps, micro_batch_size=per_step, init_adapter=init)]
    order.write_text(measure.run(bench.understudy(*train, "--dry-run", "--json"), bench.env, log=bench.log)[0])
    theirs = bench.work / "curve/peer.jsonl"
    done = len(theirs.read_text().splitlines()) if theirs.exists() else 0
    if done < steps:
        measure.run([*python, "train", hf, run / "corpus/train.jsonl", order, init, theirs], bench.env, log=bench.log)
    fresh(run)
    measure.run(bench.understudy(*train), bench.env, log=bench.log)
    pairs = [(line["loss"], json.loads(peer)["loss"]) for line, peer in zip(log_of(run), open(theirs))]
    apart = [abs(a - b) / b for a, b in pairs]
    worst = max(range(len(apart)), key=apart.__getitem__)
    bench.keep("curve", "understudy against transformers + peft", {
        "steps": len(pairs), "largest_relative_difference": apart[worst], "at_step": worst + 1,
        "mean_relative_difference": sum(apart) / len(apart), "first": pairs[0], "last": pairs[-1],
    })
    print(f"losses of {len(pairs)} steps: largest relative difference {apart[worst]:.2e} at step {worst + 1} "
          f"(ours {pairs[worst][0]:.6f}, theirs {pairs[worst][1]:.6f})")
