"""Rows of the standard library."""

from __future__ import annotations

from pathlib import Path

from recipes.engine.data.docstrings import Docstrings

MODULE = '''
"""What the module is good for.

And more.
"""

class Thing:
    """What a thing is for."""

    def act(self, n: int = 3) -> None:
        """Do it so many
        times over."""

    def _act(self):
        """Not for the users of it."""

def undocumented(): ...

async def wait(): "Too short."
'''


def test_public_docstrings_become_questions_and_answers(tmp_path: Path) -> None:
    for name in ("json/__init__.py", "test/x.py", "_secret.py", "json/_hidden.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(MODULE, encoding="utf-8")
    rows = list(Docstrings(tmp_path).rows())
    assert [(str(row.place), row.columns["prompt"], row.columns["completion"]) for row in rows] == [
        ("json/__init__.py:1", "What is the module json for?", "What the module is good for."),
        ("json/__init__.py:7", "What is the class json.Thing?", "What a thing is for."),
        (
            "json/__init__.py:10",
            "What does json.Thing.act(self, n: int=3) do?",
            "Do it so many times over.",
        ),
    ]
    assert rows[0].columns["text"] == "json\n\nWhat the module is good for.\n\nAnd more."


def test_a_change_in_a_module_changes_the_digest(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(MODULE, encoding="utf-8")
    before = Docstrings(tmp_path).digest()
    (tmp_path / "a.py").write_text(MODULE + "\n", encoding="utf-8")
    assert Docstrings(tmp_path).digest() != before
