"""Citations of the three papers that regard implements refer to existing equations, sections and tables.

The tables below hold the numbers as printed in the papers: "Sparse and Constrained Attention for Neural
Machine Translation" (Malaviya et al., ACL 2018), "Posterior Attention Models for Sequence to Sequence
Learning" (Shankar & Sarawagi, ICLR 2019), "Look Harder: A Neural Machine Translation Model with Hard
Attention" (Indurthi et al., ACL 2019).
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent
DIRECTORIES = ("src", "tests", "docs", "recipes", "benchmarks")


@dataclass(frozen=True)
class Paper:
    """The numbered parts of a paper."""

    name: str
    equations: int
    sections: frozenset[str]
    tables: int
    figures: int
    others: frozenset[str] = frozenset()

    def has(self, kind: str, number: str) -> bool:
        """Return whether the paper has the given equation, section, table, figure or other numbered part."""
        if kind in ("Section", "Sec"):
            return number in self.sections
        count = {"Eq": self.equations, "Table": self.tables, "Figure": self.figures}.get(kind)
        if count is not None:
            return number.isdigit() and 1 <= int(number) <= count
        return f"{kind} {number}" in self.others


MALAVIYA = Paper(
    r"Malaviya\s+et\s+al\.",
    equations=22,
    sections=frozenset("1 2 3 4 5 6".split()),
    tables=2,
    figures=2,
    others=frozenset(
        {"Proposition 1", "Appendix A", "Appendix A.1", "Appendix A.2", "Appendix A.3", "Appendix B"}
        | {"Algorithm 1", "footnote 5"}
    ),
)
SHANKAR = Paper(
    r"Shankar\s+&\s+Sarawagi",
    equations=15,
    sections=frozenset("1 2 2.1 2.2 2.3 2.3.1 2.4 2.5 3 4 4.1 4.2 4.3 5".split()),
    tables=3,
    figures=5,
    others=frozenset({"footnote 1"}),
)
INDURTHI = Paper(
    r"Indurthi\s+et\s+al\.",
    equations=9,
    sections=frozenset("1 2 3 3.1 3.2 4 4.1 4.2 4.3 5 6".split()),
    tables=2,
    figures=2,
    others=frozenset({"Algorithm 1"}),
)
PAPERS = (MALAVIYA, SHANKAR, INDURTHI)

KINDS = r"Eqs?|Sections?|Sec|Tables?|Figures?|Propositions?|Prop|Appendix|Algorithm|[Ff]ootnote"
NUMBER = r"[A-Z]?\.?\d+(?:\.\d+)*|[A-Z](?:\.\d+)?\b"
PLACES = re.compile(rf"\b({KINDS})\.?\s+((?:{NUMBER})(?:\s*(?:,|and|to)\s+(?:{NUMBER})(?![\w(]))*)")
AGAIN = rf"\b(?:{KINDS})\.?\s+(?:{NUMBER})(?:\s*(?:,|and|to)\s+(?:{NUMBER})(?![\w(]))*"


def named(paper: Paper) -> re.Pattern[str]:
    """Return a pattern for a citation by author name, with all locators that follow."""
    return re.compile(
        rf"{paper.name},?\s+\(?(?:2018|2019)\)?,\s+(?:whose\s+)?((?:{AGAIN})(?:,?\s+(?:and\s+)?{AGAIN})*)"
    )


def locators(text: str) -> Iterator[tuple[str, str]]:
    """Yield the kind and the number of each locator; a range such as "3 to 5" yields all its numbers."""
    for kind, numbers in PLACES.findall(text):
        kind = {"Eqs": "Eq", "Prop": "Proposition", "Footnote": "footnote"}.get(kind, kind.removesuffix("s"))
        found = re.findall(NUMBER, numbers)
        for low, high in re.findall(r"(\d+) to (\d+)", numbers):
            found += [str(number) for number in range(int(low), int(high) + 1)]
        yield from ((kind, number) for number in found)


def test_citations_by_author_exist() -> None:
    wrong, seen = [], 0
    paths = [path for name in DIRECTORIES for path in (ROOT / name).rglob("*") if path != Path(__file__)]
    texts = [path for path in paths if path.suffix in (".py", ".md", ".toml") and path.is_file()]
    for path in (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *texts):
        text = path.read_text(encoding="utf-8")
        for paper in PAPERS:
            for match in named(paper).finditer(text):
                seen += 1
                cited = locators(match.group(1))
                wrong += [
                    f"{path.relative_to(ROOT)}: {match.group(0)}" for one in cited if not paper.has(*one)
                ]
    assert not wrong
    assert seen > 50  # guards against a pattern that no longer matches
