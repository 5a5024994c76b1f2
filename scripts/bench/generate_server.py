#!/usr/bin/env python3
"""llama.cpp's server over the prompts of a messages file: slots that share a prompt cache, as many requests as slots.

    generate_server.py MODEL.gguf PROMPTS.jsonl [--slots 4] [--limit 96] [--max-new 128] [--threads 2] [--out FILE]

The last (assistant) message of each line is left out of the prompt. The server runs in this process
(package `xllamacpp`) and is asked over HTTP on the loopback. Prints one JSON line.
"""
import argparse
import concurrent.futures
import http.client
import json
import resource
import threading
import time
import urllib.parse

import xllamacpp


def served(a):
    """A server that is ready; its address."""
    p = xllamacpp.CommonParams()
    p.model.path = a.model
    p.n_parallel, p.n_ctx, p.n_batch = a.slots, 1024 * a.slots, 2048
    p.cpuparams.n_threads = p.cpuparams_batch.n_threads = a.threads
    p.hostnames, p.port, p.use_jinja = ["127.0.0.1"], 0, True
    p.warmup = True
    server = xllamacpp.Server(p)
    return server, urllib.parse.urlsplit(server.listening_address)


def main(a):
    rows = [json.loads(line)["messages"][:-1] for line in open(a.prompts, encoding="utf-8")][:a.limit]
    server, address = served(a)
    local = threading.local()

    def ask(messages):
        if not hasattr(local, "line"):
            local.line = http.client.HTTPConnection(address.hostname, address.port, timeout=600)
        body = {"messages": messages, "temperature": 0, "max_tokens": a.max_new, "cache_prompt": True}
        local.line.request("POST", "/v1/chat/completions", json.dumps(body), {"Content-Type": "application/json"})
        answer = local.line.getresponse()
        text = answer.read()
        if answer.status != 200:
            raise SystemExit(f"generate_server: status {answer.status}: {text[:200]!r}")
        told = json.loads(text)
        return told["choices"][0]["message"]["content"], told["usage"]

    with concurrent.futures.ThreadPoolExecutor(a.slots) as pool:
        # Every slot has read the instruction once before the clock starts.
        list(pool.map(ask, rows[:a.slots]))
        start = time.time()
        answers = list(pool.map(ask, rows))
        seconds = time.time() - start
    made = sum(usage["completion_tokens"] for _, usage in answers)
    cached = [usage.get("prompt_tokens_details", {}).get("cached_tokens") for _, usage in answers]
    if a.out:
        with open(a.out, "w", encoding="utf-8") as out:
            out.writelines(json.dumps({"answer": text}, ensure_ascii=False) + "\n" for text, _ in answers)
    print(json.dumps({
        "peer": "llama.cpp server", "slots": a.slots, "documents_per_s": round(len(rows) / seconds, 3),
        "answer_tokens_per_s": round(made / seconds, 1), "mean_answer_tokens": round(made / len(rows), 1),
        "cached_prompt_tokens": None if None in cached else round(sum(cached) / len(cached), 1),
        "peak_resident_gb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6, 2), "threads": a.threads,
    }), flush=True)
    del server


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model"), parser.add_argument("prompts"), parser.add_argument("--out")
    for name, default in (("slots", 4), ("limit", 96), ("max-new", 128), ("threads", 2)):
        parser.add_argument(f"--{name}", type=int, default=default)
    main(parser.parse_args())
