"""Writes router/cache/guard/wordnet/ from the database files of WordNet 3: `python scripts/wordnet.py DICT`.

Keeps single words that are common (in the vocabulary of the embedder's tokenizer, or met in
WordNet's own tagged texts), and of each only its first senses: a synonym by a rare sense
("dog" and "andiron") would say that two questions mean the same.
"""

from __future__ import annotations

import json
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent / "router" / "cache"
FIRST_SENSES = 3
FILES = {"noun": "n", "verb": "v", "adj": "a", "adv": "r"}
SENSE_KINDS = {"1": "n", "2": "v", "3": "a", "5": "a", "4": "r"}
WORD = re.compile(r"[a-z]{2,}")

Sense = tuple[str, str, str]


@dataclass(frozen=True, slots=True)
class Synset:
    kind: str
    offset: str
    words: list[str]
    pointers: list[str]


def synsets(folder: Path) -> Iterator[Synset]:
    """Every line of the data files: https://wordnet.princeton.edu/documentation/wndb5wn."""
    for name, kind in FILES.items():
        for line in (folder / f"data.{name}").read_text(encoding="utf-8").splitlines():
            if line.startswith("  "):
                continue
            fields = line.partition("|")[0].split()
            count = int(fields[3], 16)
            words = [re.sub(r"\(.*\)", "", fields[4 + 2 * n]) for n in range(count)]
            yield Synset(kind, fields[0], words, fields[4 + 2 * count :])


def senses(folder: Path) -> tuple[dict[Sense, int], dict[str, Counter[str]]]:
    """The rank of each sense of a word, and how often each word was met as each part of speech."""
    rank: dict[Sense, int] = {}
    met: dict[str, Counter[str]] = defaultdict(Counter)
    for line in (folder / "index.sense").read_text(encoding="utf-8").splitlines():
        key, offset, number, count = line.split()
        word, _, rest = key.partition("%")
        kind = SENSE_KINDS[rest[0]]
        rank[word, kind, offset] = int(number)
        met[word][kind] += int(count)
    return rank, met


def pairs(all_synsets: list[Synset], sign: str) -> set[tuple[str, str]]:
    """Words joined by a pointer from word to word."""
    by_place = {(each.kind, each.offset): each.words for each in all_synsets}
    found = set()
    for each in all_synsets:
        for n in range(int(each.pointers[0])):
            symbol, offset, kind, ends = each.pointers[1 + 4 * n : 5 + 4 * n]
            if symbol == sign and ends != "0000":
                other = by_place["a" if kind == "s" else kind, offset][int(ends[2:], 16) - 1]
                one = each.words[int(ends[:2], 16) - 1]
                if one != other:
                    found.add((min(one, other), max(one, other)))
    return found


def main(folder: Path) -> None:
    rank, met = senses(folder)
    tokens = json.loads((ROOT / "minilm" / "tokenizer.json").read_text(encoding="utf-8"))["model"]["vocab"]
    words = {word for word in met if WORD.fullmatch(word) and (word in tokens or met[word].total())}
    found = list(synsets(folder))
    same = {
        tuple(sorted(w for w in each.words if w in words and rank[w, each.kind, each.offset] <= FIRST_SENSES))
        for each in found
    }
    write("synonyms", (group for group in same if len(group) > 1))
    write("antonyms", (pair for pair in pairs(found, "!") if words.issuperset(pair)))
    # Of one root (+), and an adverb with its adjective (\\).
    of_one_root = pairs(found, "+") | pairs(found, "\\")
    write("related", (pair for pair in of_one_root if words.issuperset(pair)))
    write("words", ((word, "".join(kinds(met[word]))) for word in words))
    write("irregular", (pair for pair in irregular(folder) if pair[1] in words))


def kinds(counts: Counter[str]) -> Iterator[str]:
    """The parts of speech that make up a quarter of a word's uses, most frequent first."""
    total = counts.total()
    for kind, count in counts.most_common():
        if count >= total / 4:
            yield kind


def irregular(folder: Path) -> Iterator[tuple[str, str]]:
    for name in ("noun", "verb"):
        for line in (folder / f"{name}.exc").read_text(encoding="utf-8").splitlines():
            form, lemma, *_ = line.split()
            if WORD.fullmatch(form) and WORD.fullmatch(lemma):
                yield form, lemma


def write(name: str, rows: Iterable[Iterable[str]]) -> None:
    text = "".join(f"{line}\n" for line in sorted({" ".join(row) for row in rows}))
    (ROOT / "guard" / "wordnet" / f"{name}.txt").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
