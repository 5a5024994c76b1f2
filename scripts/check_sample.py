#!/usr/bin/env python3
"""Checks the sample corpus in data/sample against its schema and its README.

Every offset, surface form, signature and role; ids; counts per split; duplicates and near-copies;
the hashes that data/README.md states. Prints `file:line: what is wrong` and exits 1, or the counts.
Needs nothing but Python 3.11 (standard library).
"""

import collections
import hashlib
import itertools
import json
import pathlib
import re
import sys
import tomllib
import unicodedata

ROOT = pathlib.Path(__file__).resolve().parent.parent
SAMPLE = ROOT / "data" / "sample"
COUNTS = {"train": 240, "dev": 30, "test": 70}
DOMAINS = {"news", "biography", "science", "business", "sports"}
MIN_GOLD_TRAIN = 60
MIN_SHARE_WITHOUT_ENTITY = 0.15
MIN_NON_ASCII_NAMES = 3  # texts per split with a name outside ASCII
MIN_NESTED = 2  # texts per split where a name stands inside a longer one
MAX_WORDS = 70
NEAR_COPY = 0.6  # Jaccard of the word sets
SHARED_RUN = 5  # words in a row that two splits may not share

problems = []
counts = collections.Counter()


def complain(path, line, message):
    problems.append(f"{path.relative_to(ROOT)}:{line}: {message}")


def words(text):
    return re.findall(r"[\w'’.]*\w", text.lower())


def whole_word(text, start, end):
    before = text[start - 1 : start]
    after = text[end : end + 1]
    return not (before and re.match(r"\w", before)) and not (after and re.match(r"\w", after))


def occurrences(text, surface):
    pattern = r"(?<!\w)" + re.escape(surface) + r"(?!\w)"
    return [(m.start(), m.end()) for m in re.finditer(pattern, text)]


def check_span(item, text, what, say):
    """The span as a pair, or None after a complaint."""
    start, end, surface = item.get("start"), item.get("end"), item.get("text")
    if not (isinstance(start, int) and isinstance(end, int) and 0 <= start < end <= len(text)):
        return say(f"{what} {surface!r}: offsets {start}..{end} are no span of a text of {len(text)} code points")
    if text[start:end] != surface:
        return say(f"{what} {surface!r} does not stand at {start}..{end}; there stands {text[start:end]!r}")
    if not whole_word(text, start, end):
        return say(f"{what} {surface!r} at {start}..{end} cuts a word")
    return start, end


def check_entities(entities, text, types, say):
    spans = []
    for entity in entities:
        if set(entity) != {"type", "text", "start", "end"}:
            say(f"entity {entity.get('text')!r} has the keys {sorted(entity)}; expected end, start, text, type")
            continue
        if entity["type"] not in types:
            say(f"entity {entity['text']!r} has the type {entity['type']!r}; the schema has {sorted(types)}")
        surface = entity["text"]
        span = check_span(entity, text, "entity", say)
        if span is None:
            continue
        # A name may itself end in a possessive: the restaurant chain Denny's.
        if re.match(r"(?i)the ", surface) or re.search(r"['’]s$", surface) and surface not in {"Denny's"}:
            say(f"entity {surface!r} takes in an article or a possessive")
        if re.search(r"(?i)day$", surface) and entity["type"] == "date":
            say(f"date {surface!r} is a weekday")
        if spans and span[0] < spans[-1][1]:
            say(f"entity {surface!r} overlaps the entity before it or stands out of text order")
        spans.append(span)
    taken = set(spans)
    for surface in {entity["text"] for entity in entities}:
        for start, end in occurrences(text, surface):
            inside = any(a <= start and end <= b for a, b in taken)
            if not inside:
                say(f"{surface!r} is annotated elsewhere in the text but not at {start}..{end}")
    return spans


def check_relations(relations, entities, signatures, say):
    seen = set()
    for relation in relations:
        if set(relation) != {"type", "head", "tail"} or relation["type"] not in signatures:
            say(f"relation {relation} is not of the schema; known: {sorted(signatures)}")
            continue
        label, head, tail = relation["type"], relation["head"], relation["tail"]
        if not all(isinstance(x, int) and 0 <= x < len(entities) for x in (head, tail)) or head == tail:
            say(f"relation {label!r}: ordinals {head} and {tail} do not name two of the {len(entities)} entities")
            continue
        if (label, head, tail) in seen:
            say(f"relation {label!r} from {head} to {tail} is given twice")
        seen.add((label, head, tail))
        for end, at, allowed in (("head", head, signatures[label][0]), ("tail", tail, signatures[label][1])):
            if entities[at]["type"] not in allowed:
                say(f"relation {label!r}: {end} {entities[at]['text']!r} is a {entities[at]['type']}; allowed: {allowed}")
        counts["relation " + label] += 1


def check_events(events, entities, text, roles, say):
    by_span = {(entity["start"], entity["end"]): entity for entity in entities}
    for event in events:
        if set(event) != {"type", "trigger", "arguments"} or event["type"] not in roles:
            say(f"event {event.get('type')!r} is not of the schema; known: {sorted(roles)}")
            continue
        label = event["type"]
        trigger = check_span(event["trigger"], text, "trigger", say)
        if trigger and any(a < trigger[1] and trigger[0] < b for a, b in by_span):
            say(f"trigger {event['trigger']['text']!r} overlaps an entity")
        filled = [argument.get("role") for argument in event["arguments"]]
        for role, number in collections.Counter(filled).items():
            if number > 1:
                say(f"event {label!r}: role {role!r} is filled {number} times")
        for argument in event["arguments"]:
            role, span = argument.get("role"), check_span(argument, text, "argument", say)
            if role not in roles[label]:
                say(f"event {label!r} has no role {role!r}; known: {sorted(roles[label])}")
            elif span and span not in by_span:
                say(f"argument {argument['text']!r} of {label!r} is no annotated entity")
            elif span and by_span[span]["type"] not in roles[label][role]:
                say(f"role {role!r} of {label!r}: {argument['text']!r} is a {by_span[span]['type']}; allowed: {roles[label][role]}")
        counts["event " + label] += 1


def check_text(text, say):
    if not text or text != text.strip() or re.search(r"[\x00-\x1f\x7f\u200b\ufeff]|  ", text):
        say("the text is empty or has edge, doubled or control white space")
    if unicodedata.normalize("NFC", text) != text:
        say("the text is not in Unicode form NFC")
    if len(text.split()) > MAX_WORDS:
        say(f"the text has {len(text.split())} words; at most {MAX_WORDS}")


def nested(entities):
    """Whether a one-word entity's surface stands inside another entity, as a name in a name."""
    texts = {entity["text"] for entity in entities}
    return any(a != b and a in b.split() for a in texts for b in texts)


def read_split(split, types, signatures, roles):
    """The documents of a split as (path, line, id, text); tallies as it goes."""
    path, documents, ids, tally = SAMPLE / f"{split}.jsonl", [], set(), collections.Counter()
    for line, raw in enumerate(path.read_text(encoding="utf-8").split("\n")[:-1], 1):
        say = lambda message: complain(path, line, message)
        try:
            document = json.loads(raw)
        except ValueError as error:
            say(f"not JSON: {error}")
            continue
        if not set(document) <= {"id", "text", "gold", "meta"} or not {"id", "text"} <= set(document):
            say(f"the keys are {sorted(document)}; expected id, text, gold (where annotated), meta")
            continue
        text = document["text"]
        documents.append((path, line, document["id"], text))
        # Every id of the split once, in any order: train is sorted by contradictions, not by id.
        number = document["id"].removeprefix(f"{split}-")
        if not (len(number) == 3 and number.isdigit() and 1 <= int(number) <= COUNTS[split]) or document["id"] in ids:
            say(f"id {document['id']!r}; expected {split}-001 to {split}-{COUNTS[split]:03}, each once")
        ids.add(document["id"])
        if document.get("meta", {}).get("domain") not in DOMAINS:
            say(f"meta.domain is {document.get('meta')}; expected one of {sorted(DOMAINS)}")
        check_text(text, say)
        tally["texts"] += 1
        if "gold" not in document:
            if split != "train":
                say("dev and test documents are all annotated; gold is missing")
            continue
        gold = document["gold"]
        if set(gold) != {"entities", "relations", "events"}:
            say(f"gold has the keys {sorted(gold)}; expected entities, events, relations")
            continue
        before = len(problems)
        check_entities(gold["entities"], text, types, say)
        if len(problems) == before:
            check_relations(gold["relations"], gold["entities"], signatures, say)
            check_events(gold["events"], gold["entities"], text, roles, say)
        tally["gold"] += 1
        tally["without entity"] += not gold["entities"]
        tally["non-ASCII"] += any(not entity["text"].isascii() for entity in gold["entities"])
        tally["nested"] += nested(gold["entities"])
        for entity in gold["entities"]:
            counts["entity " + entity["type"]] += 1
    check_tally(split, path, tally)
    return documents


def check_tally(split, path, tally):
    if tally["texts"] != COUNTS[split]:
        complain(path, 1, f"{tally['texts']} documents; expected {COUNTS[split]}")
    if split == "train" and tally["gold"] < MIN_GOLD_TRAIN:
        complain(path, 1, f"{tally['gold']} annotated documents; expected at least {MIN_GOLD_TRAIN}")
    if tally["without entity"] < MIN_SHARE_WITHOUT_ENTITY * tally["gold"]:
        complain(path, 1, f"{tally['without entity']} of {tally['gold']} annotated texts have no entity; expected at least {MIN_SHARE_WITHOUT_ENTITY:.0%}")
    for what, least in (("non-ASCII", MIN_NON_ASCII_NAMES), ("nested", MIN_NESTED)):
        if tally[what] < least:
            complain(path, 1, f"{tally[what]} texts with {what} names; expected at least {least}")
    print(f"{split}: " + ", ".join(f"{number} {what}" for what, number in tally.items()))


def check_copies(documents):
    """No duplicate anywhere; no near-copy and no shared run of words between splits."""
    prepared = []
    for path, line, name, text in documents:
        found = words(text)
        runs = {tuple(found[at : at + SHARED_RUN]) for at in range(len(found) - SHARED_RUN + 1)}
        prepared.append((path, line, name, set(found), runs))
    for (_, _, one, bag, runs), (path, line, two, other_bag, other_runs) in itertools.combinations(prepared, 2):
        alike = len(bag & other_bag) / max(1, len(bag | other_bag))
        if alike >= NEAR_COPY:
            complain(path, line, f"{two} is a near-copy of {one}: {alike:.0%} of their words are shared")
        shared = runs & other_runs
        if shared and one.split("-")[0] != two.split("-")[0]:
            complain(path, line, f"{two} shares {' '.join(min(shared))!r} with {one} of another split")


def check_hashes():
    readme = ROOT / "data" / "README.md"
    stated = {}
    for line, row in enumerate(readme.read_text(encoding="utf-8").splitlines(), 1):
        if found := re.search(r"`(sample/[\w.]+)`.*`([0-9a-f]{64})`", row):
            stated[found[1]] = (line, found[2])
    for file in sorted(SAMPLE.iterdir()):
        name = f"sample/{file.name}"
        actual = hashlib.sha256(file.read_bytes()).hexdigest()
        if name not in stated:
            complain(readme, 1, f"no sha256 for {name}; it is {actual}")
        elif stated[name][1] != actual:
            complain(readme, stated[name][0], f"sha256 of {name} is {actual}")


def main():
    schema = tomllib.loads((SAMPLE / "schema.toml").read_text(encoding="utf-8"))
    types = {entity["label"] for entity in schema["entities"]}
    signatures = {relation["label"]: (relation["head"], relation["tail"]) for relation in schema["relations"]}
    roles = {event["label"]: {role["label"]: role["types"] for role in event["roles"]} for event in schema["events"]}
    documents = [document for split in COUNTS for document in read_split(split, types, signatures, roles)]
    check_copies(documents)
    check_hashes()
    for label in [f"entity {t}" for t in types] + [f"relation {r}" for r in signatures] + [f"event {e}" for e in roles]:
        if not counts[label]:
            complain(SAMPLE / "schema.toml", 1, f"{label} of the schema never occurs in the corpus")
    print(", ".join(f"{label}: {number}" for label, number in sorted(counts.items())))
    for problem in problems:
        print(problem, file=sys.stderr)
    print("sample corpus: " + (f"{len(problems)} problems" if problems else "ok"))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
