"""One command of a measurement: its output, its seconds, its largest resident memory; and the table at the end.

Python 3.9 and its standard library.
"""
import json
import os
import statistics
import subprocess
import sys
import threading
import time


def run(command, env=None, cwd=None, log=None):
    """Runs a command to its end; stops the measurement where it fails.

    Returns (stdout, seconds, peak resident bytes). The memory is that of the process alone, or of the
    largest of its children, as the kernel counted it.
    """
    start = time.time()
    child = subprocess.Popen(command, env=env, cwd=cwd, stdout=subprocess.PIPE, stderr=log or subprocess.DEVNULL)
    taken = []
    # wait4 takes the usage of this child alone; the pipe has to be emptied meanwhile.
    reader = threading.Thread(target=lambda: taken.append(child.stdout.read()))
    reader.start()
    _, status, usage = os.wait4(child.pid, 0)
    seconds = time.time() - start
    reader.join()
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode not in (0, 3):
        where = f"; see {log.name}" if log else ""
        sys.exit(f"bench: exit code {child.returncode} of {' '.join(map(str, command))}{where}")
    return taken[0].decode(), seconds, usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def last_json(text):
    """The last line that is a JSON object."""
    for line in reversed(text.splitlines()):
        if line.startswith("{"):
            return json.loads(line)
    sys.exit(f"bench: no JSON line in {text!r}")


def table(rows, ours, value, unit, memory=True):
    """Medians by system, and how many times ours is of each peer's. `rows` are JSON lines with "system"."""
    systems = list(dict.fromkeys(row["system"] for row in rows))
    middle = lambda system, key: statistics.median(
        row[key] for row in rows if row["system"] == system and row.get(key) is not None)
    best = max(middle(system, value) for system in ours if system in systems)
    print(f"{'':34}{unit:>22}{'spread':>18}{'ours / it':>11}{'GB':>8}{'rounds':>8}")
    for system in systems:
        all_of = [row[value] for row in rows if row["system"] == system]
        ratio = "" if system in ours else f"{best / middle(system, value):.2f}x"
        held = f"{middle(system, 'peak_resident_gb'):.2f}" if memory else ""
        spread = f"{min(all_of):.3g} to {max(all_of):.3g}"
        print(f"{system:34}{middle(system, value):22.2f}{spread:>18}{ratio:>11}{held:>8}{len(all_of):8}")
