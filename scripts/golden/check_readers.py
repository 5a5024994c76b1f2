"""Whether the libraries still give the numbers that scripts/golden/readers.py wrote.

    python scripts/golden/check_readers.py
"""

import json
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
sys.dont_write_bytecode = True
import readers  # noqa: E402


def main():
    golden = HERE.parent.parent / "tests" / "golden"
    with tempfile.TemporaryDirectory() as temporary:
        out = Path(temporary)
        readers.variants(out / "variants")
        readers.quants(out / "quants.json")
        readers.tokenizers(out / "tokenizers.json")
        read = lambda root, name: json.loads((root / name).read_text())  # noqa: E731
        for name in ["quants.json", "tokenizers.json"]:
            assert read(out, name) == read(golden, name), f"{name} has changed"
        ours, theirs = (read(root, "variants/variants.json")["cases"] for root in (golden, out))
        assert [case["name"] for case in ours] == [case["name"] for case in theirs]
        for old, new in zip(ours, theirs):
            worst = max(abs(a - b) for a, b in zip(old["logits"], new["logits"], strict=True))
            assert worst <= 1e-5, f"{old['name']}: {worst}"
            print(f"{old['name']:<44} {worst:.1e}")


if __name__ == "__main__":
    main()
