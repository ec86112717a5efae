"""Citations of the three papers that regard implements refer to existing equations, sections and tables.

The tables below hold the numbers as printed in the papers: "Sparse and Constrained Attention for Neural
Machine Translation" (Malaviya et al., ACL 2018), "Posterior Attention Models for Sequence to Sequence
Learning" (Shankar & Sarawagi, ICLR 2019), "Look Harder: A Neural Machine Translation Model with Hard
Attention" (Indurthi et al., ACL 2019).
"""

import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
DIRECTORIES = ("src", "tests", "docs", "recipes", "benchmarks")


def numbered(kind: str, count: int) -> set[str]:
    """Return the names of the parts 1 to `count` of a kind."""
    return {f"{kind} {number}" for number in range(1, count + 1)}


def sections(numbers: str) -> set[str]:
    return {f"Section {number}" for number in numbers.split()}


PAPERS = {
    r"Malaviya\s+et\s+al\.": numbered("Eq", 22)
    | sections("1 2 3 4 5 6")
    | numbered("Table", 2)
    | numbered("Figure", 2)
    | {"Proposition 1", "Appendix A", "Appendix A.1", "Appendix A.2", "Appendix A.3", "Appendix B"}
    | {"Algorithm 1", "footnote 5"},
    r"Shankar\s+&\s+Sarawagi": numbered("Eq", 15)
    | sections("1 2 2.1 2.2 2.3 2.3.1 2.4 2.5 3 4 4.1 4.2 4.3 5")
    | numbered("Table", 3)
    | numbered("Figure", 5)
    | {"footnote 1"},
    r"Indurthi\s+et\s+al\.": numbered("Eq", 9)
    | sections("1 2 3 3.1 3.2 4 4.1 4.2 4.3 5 6")
    | numbered("Table", 2)
    | numbered("Figure", 2)
    | {"Algorithm 1"},
}
"""The parts of each paper, by a pattern of its authors."""

KINDS = r"Eqs?|Sections?|Sec|Tables?|Figures?|Propositions?|Prop|Appendix|Algorithm|[Ff]ootnote"
NUMBER = r"[A-Z]?\.?\d+(?:\.\d+)*|[A-Z](?:\.\d+)?\b"
PLACES = re.compile(rf"\b({KINDS})\.?\s+((?:{NUMBER})(?:\s*(?:,|and|to)\s+(?:{NUMBER})(?![\w(]))*)")
AGAIN = rf"\b(?:{KINDS})\.?\s+(?:{NUMBER})(?:\s*(?:,|and|to)\s+(?:{NUMBER})(?![\w(]))*"


def parts(text: str) -> Iterator[str]:
    """Yield the name of each part; a range such as "Eq. 3 to 5" yields all of its numbers."""
    names = {"Eqs": "Eq", "Sec": "Section", "Prop": "Proposition", "Footnote": "footnote"}
    for kind, numbers in PLACES.findall(text):
        cited = re.findall(NUMBER, numbers)
        for low, high in re.findall(r"(\d+) to (\d+)", numbers):
            cited += map(str, range(int(low), int(high) + 1))
        yield from (f"{names.get(kind, kind.removesuffix('s'))} {number}" for number in cited)


def test_citations_by_author_exist() -> None:
    wrong, seen = [], 0
    paths = [path for name in DIRECTORIES for path in (ROOT / name).rglob("*") if path != Path(__file__)]
    texts = [path for path in paths if path.suffix in (".py", ".md", ".toml") and path.is_file()]
    for path in (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *texts):
        for authors, existing in PAPERS.items():
            citation = (
                rf"{authors},?\s+\(?(?:2018|2019)\)?,\s+(?:whose\s+)?({AGAIN}(?:,?\s+(?:and\s+)?{AGAIN})*)"
            )
            for match in re.finditer(citation, path.read_text(encoding="utf-8")):
                seen += 1
                if not existing.issuperset(parts(match[1])):
                    wrong.append(f"{path.relative_to(ROOT)}: {match[0]}")
    assert not wrong
    assert seen > 50  # guards against a pattern that no longer matches
