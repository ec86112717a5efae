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

import pytest

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


def sections(text: str) -> frozenset[str]:
    """Return the section numbers of a text."""
    return frozenset(text.split())


MALAVIYA = Paper(
    r"Malaviya\s+et\s+al\.",
    equations=22,
    sections=sections("1 2 3 4 5 6"),
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
    sections=sections("1 2 2.1 2.2 2.3 2.3.1 2.4 2.5 3 4 4.1 4.2 4.3 5"),
    tables=3,
    figures=5,
    others=frozenset({"footnote 1"}),
)
INDURTHI = Paper(
    r"Indurthi\s+et\s+al\.",
    equations=9,
    sections=sections("1 2 3 3.1 3.2 4 4.1 4.2 4.3 5 6"),
    tables=2,
    figures=2,
    others=frozenset({"Algorithm 1"}),
)
PAPERS = (MALAVIYA, SHANKAR, INDURTHI)

ABOUT = {
    "src/regard/functional/constrained.py": MALAVIYA,
    "src/regard/functional/scans.py": MALAVIYA,
    "src/regard/attention/constrained.py": MALAVIYA,
    "src/regard/functional/latent.py": SHANKAR,
    "src/regard/attention/posterior.py": SHANKAR,
    "src/regard/attention/hard.py": INDURTHI,
    "src/regard/training/losses/objectives.py": INDURTHI,
}
"""Files in which a locator without an author name refers to the given paper."""

STATED = [
    # (file, part of a line, citation on that line)
    ("src/regard/functional/constrained.py", "min(u, exp(z) / Z)", "Malaviya et al. (2018), Eq. 4"),
    ("src/regard/functional/constrained.py", "of |p - z|^2", "Malaviya et al. (2018), Eq. 6"),
    ("src/regard/functional/constrained.py", "tau = (sum_A z_i", "Eq. 11"),
    ("src/regard/functional/constrained.py", "Gradient (", "Eq. 7 and 8"),
    ("src/regard/attention/soft.py", "c_t = sum_j a_tj h_j", "Malaviya et al. (2018), Eq. 2"),
    ("src/regard/attention/posterior.py", "Prior_t(a) = ", "Eq. 14"),
    ("src/regard/attention/posterior.py", "sum over the top K", "Eq. 7"),
    ("src/regard/attention/posterior.py", "Postr_t(a) proportional", "Eq. 13"),
    ("src/regard/functional/latent.py", "Postr_t(i) = Prior_t(i)", "Eq. 13"),
    ("docs/tour.md", "Postr_t(a) = Prior_t(a)", "Eq. 13"),
    ("src/regard/attention/hard.py", "Z^ likewise", "Eq. 5"),
    ("src/regard/alignment/word_aligner.py", "al., 2018, ", "Section 4"),
    ("src/regard/generation/hypothesis.py", "The floor eps", "Malaviya et al. (2018), footnote 5"),
]

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


def files() -> list[Path]:
    """Return the files in which citations are checked."""
    found = [path for name in DIRECTORIES for path in (ROOT / name).rglob("*") if path.is_file()]
    own = Path(__file__)
    kinds = (".py", ".md", ".toml")
    return [
        ROOT / "README.md",
        ROOT / "CONTRIBUTING.md",
        *(p for p in found if p.suffix in kinds and p != own),
    ]


def test_citations_by_author_exist() -> None:
    wrong, seen = [], 0
    for path in files():
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


@pytest.mark.parametrize("name", ABOUT)
def test_citations_without_author_exist(name: str) -> None:
    text = (ROOT / name).read_text(encoding="utf-8")
    others = re.compile(rf"[A-Z]\w+(?:\s+(?:&\s+\w+|et\s+al\.))?,?\s+\(?\d{{4}}\)?,\s+(?:{AGAIN})")
    ours = [match.group(1) for match in named(ABOUT[name]).finditer(text)]
    bare = others.sub("", text)  # citations by author name of any paper are removed
    found = [one for part in (*ours, bare) for one in locators(part)]
    assert found
    assert [one for one in found if not ABOUT[name].has(*one)] == []


@pytest.mark.parametrize(("name", "part", "cited"), STATED)
def test_equation_is_cited_on_its_line(name: str, part: str, cited: str) -> None:
    lines = [line for line in (ROOT / name).read_text(encoding="utf-8").splitlines() if part in line]
    assert lines
    assert any(cited in line for line in lines)


@pytest.mark.parametrize(
    "text",
    [
        "Malaviya et al. (2018), Sec. 3.2",
        "Malaviya et al. 2018, Prop. 2",
        "Malaviya et al. (2018), Table 1 and 3",
        "Shankar & Sarawagi (2019), Eq. 14 to 16",
        "Indurthi et al. (2019), Figure 3",
    ],
)
def test_nonexistent_citations_are_detected(text: str) -> None:
    cited = [(paper, match) for paper in PAPERS for match in named(paper).finditer(text)]
    (paper, match) = cited[0]
    assert not all(paper.has(*one) for one in locators(match.group(1)))
