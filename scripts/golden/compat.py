#!/usr/bin/env python3
"""What the original scorers print on generated, hostile documents, for tests/golden/compat.json.

    python3 -m venv .venv && .venv/bin/pip install seqeval==1.2.2 nervaluate==1.2.1
    .venv/bin/python scripts/golden/compat.py ORIGINALS > tests/golden/compat.json

ORIGINALS holds checkouts of the projects that have no package, one directory each, none of them part
of this repository; every number comes from their code, run here:

    spert          lavis-nlp/spert a53f468             spert/evaluator.py
    uie            universal-ie/UIE c88dd08            uie/extraction/scorer.py
    iepile         zjunlp/IEPile 933918d               ie2instruction/eval, eval_func.convert_kg
    instructuie    BeyonderXX/InstructUIE 339ade6      src/evaluation/evaluator.py
    uniner         universal-ner/universal-ner 844e0e1 src/eval/evaluate.py
    oneke          zjunlp/OneKE 55f701a                src/utils/process.py, the loop of experiments/dataset_def.py
    conlleval      conlleval.pl of 2004-01-26          conlleval (Perl)
    semeval        semeval2010_task8_scorer-v1.2.pl    the same (Perl)
    tacred         yuhaozhang/tacred-relation          utils/scorer.py
    duie           LawsonAbs/duie_py, as PaddleNLP has it  re_official_evaluation.py

Modules that these import for their models alone (torch, transformers, vllm, ...) are empty stand-ins.
Each original is given what its own pipeline would have made of the documents: tags of tokens, offsets,
or an answer written as its prompt asks for it, read by its own parser.
"""
import ast
import contextlib
import importlib.util
import io
import json
import pathlib
import random
import re
import subprocess
import sys
import tempfile
import types
import zipfile
from collections import Counter

ROOT = pathlib.Path(sys.argv[1]).resolve()


class Anything(types.ModuleType):
    """A module of which every name exists and nothing is used."""

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return type(name, (), {"__init__": lambda self, *a, **k: None})


def stand_in(*names):
    for name in names:
        sys.modules[name] = Anything(name)


def load(path, name):
    spec = importlib.util.spec_from_file_location(name, ROOT / path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def functions(path, *names):
    """Functions of a file whose imports cannot be had."""
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    kept = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name in names]
    assert len(kept) == len(names), path
    space = {"re": re, "json": json, "Counter": Counter}
    exec(compile(ast.Module(kept, []), path, "exec"), space)
    return [space[name] for name in names]


def quietly(call, *arguments, **named):
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        return call(*arguments, **named)


# ------------------------------------------------------------------------------------ documents

WORDS = ["Ann", "Acme", "the", "A", "an", "São", "Zürich", "李雷", "北京", "🗼", "x.y", "O'Neil", "co-op", "Inc.", "US,",
         "loc]x", "a;b", "{b}", "say", "\"q\"", "back\\slash", "tab", "Location", "naïve", "I", "NAN", "《红楼梦》", "(up)",
         "THE", "ß", "İz", "Σας", "’s", "non\u00a0break", "e\u0301t", "two.", "...", ",,", "a_b", "na"]
PLAIN = ["Ann", "Acme", "the", "Bern", "left", "Bo", "met", "in", "of", "Rome", "said", "O'Neil", "Inc.", "was"]
TYPES = ["PER", "LOC", "ORG", "0", "a-b", "-x-"]
RELATIONS = ["lives in", "票房", "票房.inArea", "票房.onDate", "works_for", "na"]
EVENTS = ["attack", "Move.Person", "die"]
ROLES = ["agent", "place", "time"]


def spot(rng, words, starts):
    at = rng.randrange(len(words))
    end = min(len(words), at + rng.choice([1, 1, 1, 2, 2, 3]))
    return starts[at], starts[end - 1] + len(words[end - 1])


def piece(text, where):
    return {"text": text[where[0]:where[1]], "start": where[0], "end": where[1]}


def annotate(rng, text, words, starts):
    entities = [{"type": rng.choice(TYPES), **piece(text, spot(rng, words, starts))}
                for _ in range(rng.choice([0, 1, 2, 3, 4]))]
    if entities and rng.random() < 0.2:
        entities.append(dict(rng.choice(entities)))
    relations = []
    if entities:
        for _ in range(rng.choice([0, 0, 1, 2, 3])):
            ends = rng.randrange(len(entities)), rng.randrange(len(entities))
            relations.append({"type": rng.choice(RELATIONS), "head": ends[0], "tail": ends[1]})
    events = []
    for _ in range(rng.choice([0, 0, 1, 2])):
        arguments = [{"role": rng.choice(ROLES), **piece(text, spot(rng, words, starts))} for _ in range(rng.choice([0, 1, 2]))]
        events.append({"type": rng.choice(EVENTS), "trigger": piece(text, spot(rng, words, starts)), "arguments": arguments})
    return {"entities": entities, "relations": relations, "events": events}


def copy(found):
    return json.loads(json.dumps(found))


def disturbed(rng, gold, text, words, starts):
    """A reading: items kept, retyped, moved, dropped, repeated and invented."""
    pred = copy(gold)
    for entity in pred["entities"]:
        fate = rng.random()
        if fate < 0.15:
            entity["type"] = rng.choice(TYPES + ["NEW"])
        elif fate < 0.35:
            entity.update(piece(text, spot(rng, words, starts)))
        elif fate < 0.45 and entity["end"] - entity["start"] > 1:
            entity.update(piece(text, (entity["start"], entity["end"] - 1)))
    extra = annotate(rng, text, words, starts)
    if rng.random() < 0.4:
        base = len(pred["entities"])
        pred["entities"] += extra["entities"]
        for relation in extra["relations"]:
            pred["relations"].append({**relation, "head": relation["head"] + base, "tail": relation["tail"] + base})
        pred["events"] += extra["events"]
    pred["relations"] = [one for one in pred["relations"] if rng.random() > 0.15]
    for relation in pred["relations"]:
        if rng.random() < 0.15:
            relation["head"], relation["tail"] = relation["tail"], relation["head"]
        if rng.random() < 0.1:
            relation["type"] = rng.choice(RELATIONS)
    for event in pred["events"]:
        if rng.random() < 0.2:
            event["type"] = rng.choice(EVENTS)
        if rng.random() < 0.2:
            event["trigger"] = piece(text, spot(rng, words, starts))
        for argument in event["arguments"]:
            if rng.random() < 0.2:
                argument["role"] = rng.choice(ROLES)
            if rng.random() < 0.2:
                argument.update(piece(text, spot(rng, words, starts)))
    if pred["relations"] and rng.random() < 0.2:
        pred["relations"].append(dict(rng.choice(pred["relations"])))
    if pred["events"] and rng.random() < 0.2:
        pred["events"].append(copy(rng.choice(pred["events"])))
    order = list(range(len(pred["entities"])))
    rng.shuffle(order)
    place = {old: new for new, old in enumerate(order)}
    pred["entities"] = [pred["entities"][old] for old in order]
    for relation in pred["relations"]:
        relation["head"], relation["tail"] = place[relation["head"]], place[relation["tail"]]
    return pred


def documents(rng, count):
    made = []
    for number in range(count):
        vocabulary = PLAIN if number % 3 else WORDS
        words = [rng.choice(vocabulary) for _ in range(rng.randint(1, 12))]
        starts, at = [], 0
        for word in words:
            starts.append(at)
            at += len(word) + 1
        text = " ".join(words)
        gold = annotate(rng, text, words, starts) if rng.random() > 0.1 else {"entities": [], "relations": [], "events": []}
        pred = disturbed(rng, gold, text, words, starts) if rng.random() > 0.06 else None
        # A text of its own for each document: DuIE's scorer has no other name for it.
        made.append({"id": f"d{number}", "text": f"{text} #{number}", "gold": gold, "pred": pred})
    return made


NOTHING = {"entities": [], "relations": [], "events": []}


def found(document):
    return document["pred"] or NOTHING


# ----------------------------------------------------------------------------------------- tags

ALONE = re.compile("[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U000323af]|"
                   "[^\\s\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U000323af]+")


def tokens_of(text, how):
    if how == "words":
        return [match.span() for match in ALONE.finditer(text)]
    return [(at, at + 1) for at, char in enumerate(text) if not char.isspace()]


def tags_of(extraction, tokens):
    tags, lost, mentions = ["O"] * len(tokens), 0, set()
    for entity in extraction["entities"]:
        inside = [at for at, (start, end) in enumerate(tokens) if start < entity["end"] and end > entity["start"]]
        if inside:
            mentions.add((inside[0], -inside[-1] - 1, entity["type"]))
        else:
            lost += 1
    for first, behind, label in sorted(mentions):
        if any(tag != "O" for tag in tags[first:-behind]):
            lost += 1
            continue
        tags[first:-behind] = ["I-" + label] * (-behind - first)
        tags[first] = "B-" + label
    return tags, lost


def prf(precision, recall, f1):
    return {"precision": float(precision), "recall": float(recall), "f1": float(f1)}


def conlleval(gold, pred):
    lines = []
    for one, other in zip(gold, pred):
        lines += [f"w {a} {b}" for a, b in zip(one, other)] + [""]
    printed = subprocess.run(["perl", str(ROOT / "conlleval/conlleval")], input="\n".join(lines) + "\n", capture_output=True,
                             text=True, check=True).stdout
    counts = re.search(r"with (\d+) phrases; found: (\d+) phrases; correct: (\d+)", printed)
    there, seen, right = map(int, counts.groups())
    figures = [float(x) / 100 for x in re.search(r"precision: +([\d.]+)%; recall: +([\d.]+)%; FB1: +([\d.]+)", printed).groups()]
    return {"entities": {**prf(*figures), "tp": right, "fp": seen - right, "fn": there - right}}


def tag_modes(gold, pred, scheme):
    from seqeval.metrics.sequence_labeling import precision_recall_fscore_support as default
    from seqeval.metrics.v1 import precision_recall_fscore_support as strict
    return {
        "seqeval": {"entities": prf(*quietly(default, gold, pred, average="micro", zero_division=0)[:3])},
        "seqeval-strict": {"entities": prf(*strict(gold, pred, average="micro", scheme=scheme, zero_division=0)[:3])},
        "conlleval": conlleval(gold, pred),
    }


def wild_tags(rng, prefixes, count):
    """Tags that follow no scheme: chunks without a beginning, changes of type inside."""
    gold, pred = [], []
    for _ in range(count):
        draw = lambda: "O" if rng.random() < 0.3 else f"{rng.choice(prefixes)}-{rng.choice(TYPES[:5])}"
        one = [draw() for _ in range(rng.randint(1, 9))]
        gold.append(one)
        pred.append([tag if rng.random() < 0.75 else draw() for tag in one])
    return gold, pred


# -------------------------------------------------------------------------------- the originals

def nervaluate(docs):
    from nervaluate import Evaluator
    def spans(extraction):
        return [{"label": one["type"], "start": one["start"], "end": one["end"] - 1} for one in extraction["entities"]]
    gold, pred = [spans(doc["gold"]) for doc in docs], [spans(found(doc)) for doc in docs]
    labels = {one["label"] for doc in gold + pred for one in doc}
    overall = Evaluator(gold, pred, tags=list(labels), loader="dict").evaluate()["overall"]
    names = {"strict": "strict", "exact": "exact", "partial": "partial", "type": "ent_type"}
    return {f"nervaluate-{ours}": {"entities": prf(overall[name].precision, overall[name].recall, overall[name].f1)}
            for ours, name in names.items()}


def spert(docs):
    stand_in("torch", "transformers", "spert", "spert.prediction", "spert.entities", "spert.input_reader", "spert.opt")
    stand_in("sklearn.utils.nothing")
    sys.modules["spert"].prediction = sys.modules["spert.prediction"]
    evaluator = load("spert/spert/evaluator.py", "spert_evaluator").Evaluator
    class Type:
        def __init__(self, index):
            self.index, self.short_name = index, str(index)
    kinds = {}
    kind = lambda name: kinds.setdefault(name, Type(len(kinds) + 1))
    entity = lambda one: (one["start"], one["end"], kind(("entity", one["type"])))
    def both(extraction):
        entities = [entity(one) for one in extraction["entities"]]
        relations = [(entities[one["head"]], entities[one["tail"]], kind(("relation", one["type"]))) for one in extraction["relations"]]
        return entities, relations
    it = evaluator.__new__(evaluator)
    it._pseudo_entity_type = Type(0)
    sides = [[both(doc["gold"]) for doc in docs], [both(found(doc)) for doc in docs]]
    it._gt_entities, it._pred_entities = ([one[0] for one in side] for side in sides)
    it._gt_relations, it._pred_relations = ([one[1] for one in side] for side in sides)
    ner, bare, typed = quietly(it.compute_scores)
    figures = lambda row: prf(*(value / 100 for value in row[:3]))
    return {"spert": {"entities": figures(ner), "relations": figures(typed), "relations_boundaries": figures(bare)}}


def uie(docs):
    scorer = load("uie/uie/extraction/scorer.py", "uie_scorer")
    def entities(extraction):
        return [{"type": one["type"], "offset": [one["start"], one["end"]], "text": one["text"]} for one in extraction["entities"]]
    def relations(extraction):
        ends = entities(extraction)
        return [{"type": one["type"], "args": [ends[one["head"]], ends[one["tail"]]]} for one in extraction["relations"]]
    def events(extraction):
        place = lambda one: {"offset": [one["start"], one["end"]], "text": one["text"]}
        return [{"type": one["type"], **place(one["trigger"]), "args": [{"type": arg["role"], **place(arg)} for arg in one["arguments"]]}
                for one in extraction["events"]]
    def predicted(kind, items):
        # What its decoder writes: the same facts, once with offsets and once with strings.
        if kind == "entity":
            return {key: [[one["type"], one[at]] for one in items] for key, at in (("offset", "offset"), ("string", "text"))}
        if kind == "relation":
            flat = lambda one, at: [one["type"], one["args"][0]["type"], one["args"][0][at], one["args"][1]["type"], one["args"][1][at]]
            return {key: [flat(one, at) for one in items] for key, at in (("offset", "offset"), ("string", "text"))}
        flat = lambda one, at: {"type": one["type"], "trigger": one[at], "roles": [[arg["type"], arg[at]] for arg in one["args"]]}
        return {key: [flat(one, at) for one in items] for key, at in (("offset", "offset"), ("string", "text"))}
    kinds = [("entity", scorer.EntityScorer, entities), ("relation", scorer.RelationScorer, relations), ("event", scorer.EventScorer, events)]
    modes = {}
    for match in ("normal", "set", "multimatch"):
        results = {}
        for kind, one, make in kinds:
            gold = one.load_gold_list([make(doc["gold"]) for doc in docs])
            pred = one.load_pred_list([predicted(kind, make(found(doc))) for doc in docs])
            results.update(one.eval_instance_list(gold, pred, match_mode=match))
        for key in ("offset", "string"):
            figures = lambda part: prf(*(results[f"{key}-{part}-{x}"] / 100 for x in ("P", "R", "F1")))
            name = "uie" + ("-string" if key == "string" else "") + ("" if match == "normal" else f"-{match}")
            modes[name] = {"entities": figures("ent"), "relations": figures("rel-strict"), "relations_boundaries": figures("rel-boundary"),
                           "trigger_classification": figures("evt-trigger"), "argument_classification": figures("evt-role")}
    return modes


def iepile(docs):
    stand_in("rouge_chinese", "jieba")
    sys.path.insert(0, str(ROOT / "iepile/ie2instruction"))
    from eval.extracter import get_extracter
    from eval.metric import get_metric
    convert, = functions("iepile/ie2instruction/eval_func.py", "convert_kg")
    convert.__globals__.update(dict(NER="NER", RE="RE", EE="EE", SPO="SPO", KG="KG", EEA="EEA", EET="EET"))
    def answer(extraction, task):
        out = {}
        ends = extraction["entities"]
        if task == "NER":
            for one in ends:
                out.setdefault(one["type"], []).append(one["text"])
        elif task == "RE":
            for one in extraction["relations"]:
                out.setdefault(one["type"], []).append({"subject": ends[one["head"]]["text"], "object": ends[one["tail"]]["text"]})
        else:
            for one in extraction["events"]:
                arguments = {}
                for arg in one["arguments"]:
                    arguments.setdefault(arg["role"], []).append(arg["text"])
                out.setdefault(one["type"], []).append({"trigger": one["trigger"]["text"], "arguments": arguments})
        return json.dumps(out, ensure_ascii=False)
    def label(extraction, task):
        ends = extraction["entities"]
        if task == "NER":
            return [{"entity": one["text"], "entity_type": one["type"]} for one in ends]
        if task == "RE":
            return [{"head": ends[one["head"]]["text"], "relation": one["type"], "tail": ends[one["tail"]]["text"]} for one in extraction["relations"]]
        return [{"event_type": one["type"], "event_trigger": one["trigger"]["text"],
                 "arguments": [{"argument": arg["text"], "role": arg["role"]} for arg in one["arguments"]]} for one in extraction["events"]]
    modes = {}
    for match in ("normal", "set"):
        out = {}
        for task, prefix, measure in (("NER", "", "entities"), ("RE", "", "relations"), ("EE", "event_", "trigger_classification"),
                                      ("EE", "argument_", "argument_classification")):
            counter, extracter = get_metric(task)(match, "f1"), get_extracter(task)()
            for doc in docs:
                written = answer(doc["pred"], task) if doc["pred"] is not None else ""
                usable, read = quietly(extracter.extract, written)
                if not usable:
                    counter.count_error()
                counter.count_instance(gold_list=convert(label(doc["gold"], task), task), pred_list=read)
            result = counter.compute()
            out[measure] = prf(*(result[prefix + x] / 100 for x in ("P", "R", "F1")))
        modes["iepile" + ("-set" if match == "set" else "")] = out
    return modes


def instructuie(docs):
    stand_in("matplotlib", "matplotlib.pyplot")
    evaluator = load("instructuie/src/evaluation/evaluator.py", "instructuie_evaluator")
    def answer(extraction, task):
        ends = extraction["entities"]
        if task == "NER":
            items = ["{}: {}".format(one["type"], one["text"]) for one in ends]
            return " " + "; ".join(items) if items else " None"
        if task == "RE":
            items = ["{}: {}, {}".format(one["type"], ends[one["head"]]["text"], ends[one["tail"]]["text"]) for one in extraction["relations"]]
            return " " + "; ".join(items) if items else " None"
        items = []
        for one in extraction["events"]:
            arguments = [" {}: {}".format(arg["text"], arg["role"]) for arg in one["arguments"]]
            items.append(" ( {}: {}, {}) ".format(one["type"], one["trigger"]["text"], ",".join(arguments) if arguments else "None"))
        return ",".join(items) if items else " None"
    out = {}
    for task, one, measure in (("NER", evaluator.EvaluatorNER, "entities"), ("RE", evaluator.EvaluatorRE, "relations"),
                               ("EE", evaluator.EvaluatorEvent, "events")):
        it = one()
        it.audit = []
        for doc in docs:
            written = answer(doc["pred"], task) if doc["pred"] is not None else ""
            it.add({"Instance": {"ground_truth": answer(doc["gold"], task)}}, written)
        if task == "EE":
            out[measure] = {"f1": float(it.get_metric())}
        else:
            f1 = it.get_metric()
            out[measure] = prf(it.metric.precision, it.metric.recall, f1)
    return {"instructuie": out}


def uniner(docs):
    stand_in("fire", "vllm", "src", "src.serve", "src.serve.inference")
    it = load("uniner/src/eval/evaluate.py", "uniner_evaluate").NEREvaluator()
    golds, preds = [], []
    for doc in docs:
        for label in sorted({one["type"] for side in (doc["gold"], found(doc)) for one in side["entities"]}):
            answer = lambda side: json.dumps([one["text"] for one in side["entities"] if one["type"] == label])
            golds.append(answer(doc["gold"]))
            preds.append(answer(doc["pred"]) if doc["pred"] is not None else "")
    result = it.evaluate(preds, golds)
    return {"uniner": {"entities": prf(result["precision"], result["recall"], result["f1"])}}


def oneke(docs):
    names = ("remove_redundant_space", "format_string", "calculate_metrics", "dict_list_to_set", "remove_empty_values", "extract_json_dict")
    *_, metrics, as_set, _, extract = functions("oneke/src/utils/process.py", *names)
    modes = {}
    for garble in (True, False):
        out = {}
        for key, measure in (("entity_list", "entities"), ("relation_list", "relations")):
            def items(extraction):
                ends = extraction["entities"]
                if key == "entity_list":
                    return [{"name": one["text"], "type": one["type"]} for one in ends]
                return [{"head": ends[one["head"]]["text"], "tail": ends[one["tail"]]["text"], "relation": one["type"]} for one in extraction["relations"]]
            totals = [0, 0, 0]
            for doc in docs:
                truth, pred = quietly(as_set, items(doc["gold"])), set()
                if doc["pred"] is not None:
                    read = {key: items(doc["pred"])}
                    if garble:
                        read = quietly(extract, json.dumps(read, ensure_ascii=False))
                    try:
                        pred = quietly(as_set, read[key])
                    except Exception:
                        pass
                totals = [a + b for a, b in zip(totals, metrics(truth, pred))]
            out[measure] = prf(*(total / len(docs) for total in totals))
        modes["oneke" if garble else "oneke-utf8"] = out
    return modes


def duie(docs):
    official = load("duie/re_official_evaluation.py", "duie_official")
    def spo(extraction):
        ends, relations = extraction["entities"], extraction["relations"]
        mains = {(one["type"], one["tail"]) for one in relations}
        is_slot = lambda one: "." in one["type"] and (one["type"].rpartition(".")[0], one["head"]) in mains
        triples = []
        for one in (one for one in relations if not is_slot(one)):
            object = {"@value": ends[one["tail"]]["text"]}
            for slot in relations:
                if is_slot(slot) and (slot["type"].rpartition(".")[0], slot["head"]) == (one["type"], one["tail"]):
                    object[slot["type"].rpartition(".")[2]] = ends[slot["tail"]]["text"]
            triples.append({"predicate": one["type"], "subject": ends[one["head"]]["text"], "object": object})
        return triples
    lines = lambda side: "".join(json.dumps({"text": doc["text"], "spo_list": spo(side(doc))}, ensure_ascii=False) + "\n" for doc in docs)
    with tempfile.TemporaryDirectory() as desk:
        desk = pathlib.Path(desk)
        (desk / "gold.json").write_text(lines(lambda doc: doc["gold"]), encoding="utf-8")
        with zipfile.ZipFile(desk / "pred.zip", "w") as out:
            out.writestr("pred.json", lines(found))
        result = quietly(official.calc_pr, str(desk / "pred.zip"), "", str(desk / "gold.json"))
    values = {one["name"]: one["value"] for one in result["data"]}
    return {"duie": {"relations": prf(values["precision"], values["recall"], values["f1-score"])}}


# -------------------------------------------------- one relation a sentence: SemEval and TACRED

SEMEVAL = ["Cause-Effect", "Component-Whole", "Entity-Origin", "Other"]
TACRED = ["no_relation", "per:title", "org:founded_by"]


def sentences(rng, labels, count):
    """Two mentions a sentence; a relation, whose direction may be either, or none."""
    docs = []
    for number in range(count):
        ends = [{"type": "e", "text": "ab", "start": 0, "end": 2}, {"type": "e", "text": "cd", "start": 3, "end": 5}]
        def draw():
            head = rng.randrange(2) if labels is SEMEVAL else 0
            return {"type": rng.choice(labels), "head": head, "tail": 1 - head}
        gold = draw()
        pred = dict(gold) if rng.random() < 0.6 else draw()
        if labels is SEMEVAL and rng.random() < 0.15:
            pred = {**pred, "head": pred["tail"], "tail": pred["head"]}
        make = lambda one: {"entities": ends, "relations": [one], "events": []}
        docs.append({"id": f"s{number}", "text": "ab cd", "gold": make(gold), "pred": make(pred)})
    return docs


def semeval(docs):
    def label(side):
        one = side["relations"][0]
        return "Other" if one["type"] == "Other" else f"{one['type']}({'e1,e2' if one['head'] == 0 else 'e2,e1'})"
    with tempfile.TemporaryDirectory() as desk:
        for name in ("pred", "gold"):
            text = "".join(f"{number + 1}\t{label(doc[name])}\n" for number, doc in enumerate(docs))
            (pathlib.Path(desk) / name).write_text(text)
        script = ROOT / "semeval/semeval2010_task8_scorer-v1.2.pl"
        printed = subprocess.run(["perl", str(script), f"{desk}/pred", f"{desk}/gold"], capture_output=True, text=True, check=True).stdout
    # The third block is the official one: nine relations and Other, direction counts.
    row = re.findall(r"MACRO-averaged result \(excluding Other\):\s+P = +([\d.]+)%\s+R = +([\d.]+)%\s+F1 = +([\d.]+)%", printed)[-1]
    return {"semeval": {"relations": prf(*(float(x) / 100 for x in row))}}


def tacred(docs):
    score = load("tacred/utils/scorer.py", "tacred_scorer").score
    label = lambda side: side["relations"][0]["type"]
    result = quietly(score, [label(doc["gold"]) for doc in docs], [label(doc["pred"]) for doc in docs])
    return {"tacred": {"relations": prf(*result)}}


def main():
    from seqeval.scheme import IOB2, IOBES
    rng = random.Random(8)
    docs = documents(rng, 150)
    out = {"origin": "scripts/golden/compat.py", "documents": docs, "modes": {}, "tags": [], "sentences": []}
    tagged = {}
    for how in ("words", "characters"):
        rows = [(tags_of(doc["gold"], tokens_of(doc["text"], how)), tags_of(found(doc), tokens_of(doc["text"], how))) for doc in docs]
        gold, pred = [row[0][0] for row in rows], [row[1][0] for row in rows]
        tagged[how] = {**tag_modes(gold, pred, IOB2), "untagged": [sum(row[0][1] for row in rows), sum(row[1][1] for row in rows)]}
    out["tagged"] = tagged
    for original in (nervaluate, spert, uie, iepile, instructuie, uniner, oneke, duie):
        out["modes"].update(original(docs))
    for prefixes, scheme in (("BI", IOB2), ("BIES", IOBES)):
        gold, pred = wild_tags(rng, prefixes, 60)
        out["tags"].append({"gold": gold, "pred": pred, "modes": tag_modes(gold, pred, scheme)})
    for labels, original in ((SEMEVAL, semeval), (TACRED, tacred)):
        few = sentences(rng, labels, 60)
        out["sentences"].append({"documents": few, "modes": original(few)})
    text = json.dumps(out, ensure_ascii=False)
    # One document a line.
    print(re.sub(r'(?<=[\]}]), (?=\{"id")', ",\n", text))


main()
