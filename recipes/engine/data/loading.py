"""From a source to corpora: rows, documents, tokens, a part held out, all of it kept for next time."""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING

from recipes.engine.data.cache import cached
from recipes.engine.data.chat import ChatTemplate
from recipes.engine.data.corpora import Corpora, Facts
from recipes.engine.data.corpus import CorpusBuilder
from recipes.engine.data.encoding import Encoder, Sample
from recipes.engine.data.formats import FORMATS, Document, document_of, names, recognized
from recipes.engine.data.inspection import TOLD_AT_ONCE, Inspection
from recipes.engine.data.plan import packs_in_all
from recipes.engine.data.rows import Corrupt, Row, Source
from recipes.engine.data.settings import Data
from recipes.engine.data.sources import open_source
from recipes.errors import RecipeError

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

Tell = Callable[[str], None]
CODE = Path(__file__).parent  # what makes the tokens; whoever changes how wants new ones
ROWS_AT_ONCE = 1000
ROWS_TO_RECOGNIZE = 20
TELL_EVERY_S = 10.0
VOCABULARY_CHARACTERS = 50_000_000  # more of them make no better vocabulary


def load_corpora(data: Data, tokenizer: PreTrainedTokenizerBase, tell: Tell) -> Corpora:
    """The documents to learn from and those to evaluate on, and what became of the rest.

    Raises:
        RecipeError: there is no such source, or rows in it are refused.
    """
    if data.eval_source is None:
        corpora = load(data, tokenizer, tell, eval_share=data.eval_share)
    else:
        learned = load(data, tokenizer, tell, eval_share=0)
        apart = replace(data, source=data.eval_source, split=data.eval_split, limit=None)
        evaluated = load(apart, tokenizer, tell, eval_share=0)
        tell(f"To evaluate on, {evaluated.facts}")
        facts = replace(learned.facts, evaluation_documents=evaluated.facts.documents)
        corpora = Corpora(learned.train, evaluated.train, facts)
    tell(str(corpora.facts))
    for remark in remarks(corpora, data):
        tell(remark)
    return corpora


def remarks(corpora: Corpora, data: Data) -> Iterator[str]:
    """What few documents lead to, and may not be meant."""
    if corpora.evaluation is None and data.eval_share > 0:
        yield (
            f"Nothing is evaluated: data.eval_share={data.eval_share} of so few documents is none. "
            "Take a larger share, or data.eval_source"
        )
    packs = packs_in_all(corpora.train, data)
    if packs < data.packs:
        yield (
            f"All documents fit into {packs:,} pack{'s' * (packs != 1)}, and each step takes data.packs={data.packs}: "
            f"it learns the same ones again. Take data.packs={packs}, or smaller packs"
        )


def load(data: Data, tokenizer: PreTrainedTokenizerBase, tell: Tell, *, eval_share: float) -> Corpora:
    """The corpora of one source, from the cache if it has them."""
    source = open_source(data)
    template = None if data.format == "text" else ChatTemplate(tokenizer, data.chat_template)
    made_of = {
        "code": digest_of_code(CODE),
        "source": source.digest(),
        "tokenizer": digest_of_tokenizer(tokenizer),
        "template": template and template.text,
        "eval_share": float(eval_share),
        **{name: getattr(data, name) for name in ("format", "learn", "max_tokens", "too_long", "corrupt", "limit")},
    }
    key = hashlib.sha256(json.dumps(made_of, sort_keys=True).encode()).hexdigest()[:32]
    corpora = cached(
        cache_folder(data),
        key,
        lambda: build(source, data, tokenizer, template, tell, eval_share=eval_share),
        tell,
    )
    # The same files may have been found by another name.
    return replace(corpora, facts=replace(corpora.facts, source=data.source))


def cache_folder(data: Data) -> Path:
    """Where caches are kept.

    Raises:
        RecipeError: nothing says where.
    """
    home = os.environ.get("XDG_CACHE_HOME")
    try:
        if data.cache_dir:
            return Path(data.cache_dir).expanduser()
        return (Path(home) if home else Path.home() / ".cache") / "airlane-recipes"
    except RuntimeError as error:
        raise RecipeError(
            [f"There is no folder for the cache of the tokens: {error}"], "Say where: data.cache_dir=FOLDER"
        ) from error


def digest_of_code(folder: Path) -> str:
    whole = hashlib.sha256()
    for path in sorted(folder.glob("*.py")):
        whole.update(path.name.encode() + b"\0" + path.read_bytes())
    return whole.hexdigest()


def digest_of_tokenizer(tokenizer: PreTrainedTokenizerBase) -> str:
    """Changes when the same text gets other tokens."""
    backend = getattr(tokenizer, "backend_tokenizer", None)
    vocabulary = backend.to_str() if backend else json.dumps(tokenizer.get_vocab(), sort_keys=True)
    special = json.dumps(tokenizer.special_tokens_map, sort_keys=True, default=str)
    return hashlib.sha256(f"{type(tokenizer).__name__}\n{special}\n{vocabulary}".encode()).hexdigest()


def build(
    source: Source,
    data: Data,
    tokenizer: PreTrainedTokenizerBase,
    template: ChatTemplate | None,
    tell: Tell,
    *,
    eval_share: float,
) -> Corpora:
    """Read, encode and share out every row."""
    inspection = Inspection(data)
    kind, rows = of_format(islice(source.rows(), data.limit), data)
    encoder = Encoder(tokenizer, template, learn_all=data.learn == "all")
    learned, held_out = CorpusBuilder(), CorpusBuilder()
    told_at = time.monotonic()
    for samples in portions(inspection.readable(documents(rows, kind))):
        for encoded in inspection.admitted(encoder.encode(samples)):
            builder = held_out if is_held_out(encoded.sample.document, eval_share) else learned
            for part in inspection.fitted(encoded):
                builder.add(part.sample.place.origin, part.sample.place.number, part.ids, part.learn_T)
        if time.monotonic() - told_at > TELL_EVERY_S:
            tell(f"{len(learned) + len(held_out):,} documents, {learned.tokens + held_out.tokens:,} tokens so far")
            told_at = time.monotonic()
    inspection.close()
    if not len(learned):
        raise nothing_left(inspection, data, len(held_out))
    train = learned.build()
    facts = Facts(
        source=data.source,
        format=kind,
        documents=len(train),
        tokens=len(train.ids_N),
        learned_tokens=int(train.learned_D.sum()),
        longest_tokens=int(train.lengths_D.max()),
        evaluation_documents=len(held_out),
        **inspection.counts,
    )
    return Corpora(train, held_out.build() if len(held_out) else None, facts)


def nothing_left(inspection: Inspection, data: Data, held_out: int) -> RecipeError:
    """Why nothing is left, and what would leave something."""
    longest, larger = f"data.max_tokens={data.max_tokens}", "Take a larger data.max_tokens"
    reasons = [
        (inspection.counts["corrupt"], "corrupt", "Mend the rows"),
        (inspection.counts["too_long"], f"longer than {longest}", f"{larger}, or data.too_long=cut"),
        (inspection.counts["nothing_learned"], f"with nothing to learn within {longest}", larger),
        (held_out, f"held out by data.eval_share={data.eval_share}", "Take a smaller data.eval_share, or more rows"),
    ]
    given = [(f"{count:,} {reason}", hint) for count, reason, hint in reasons if count]
    told = ", ".join(reason for reason, _ in given) or "it has no rows"
    hints = "; ".join(hint for _, hint in given)
    return RecipeError([f"{data.source} leaves no document to learn from: {told}"], hints)


def of_format(rows: Iterator[Row | Corrupt], data: Data) -> tuple[str, Iterator[Row | Corrupt]]:
    """The format that is asked for, or whose columns the first rows have; and all the rows.

    Raises:
        RecipeError: they have those of none.
    """
    if data.format != "auto":
        return data.format, rows
    first = list(islice(rows, ROWS_TO_RECOGNIZE))
    sound = [row for row in first if isinstance(row, Row)]
    kind = next(filter(None, map(recognized, sound)), None)
    if kind is None and sound:
        known = [f"  data.format={name}: {form.columns}" for name, form in FORMATS.items()]
        raise RecipeError(
            [f"{sound[0].place}: its columns fit no format; it has {names(sound[0].columns)}"],
            "\n".join(["Rows need these columns:", *known]),
        )
    if kind is None and first:
        corrupt = [str(row) for row in first[:TOLD_AT_ONCE]]
        raise RecipeError(
            corrupt, "The first rows cannot be read: say with data.format what the others are, or mend them"
        )
    if kind is None:
        raise RecipeError([f"{data.source} has no rows"])
    return kind, chain(first, rows)


def documents(rows: Iterable[Row | Corrupt], kind: str) -> Iterator[Sample | Corrupt]:
    """What the rows say, and where."""
    for row in rows:
        read = row if isinstance(row, Corrupt) else document_of(row, FORMATS[kind])
        yield read if isinstance(read, Corrupt) else Sample(row.place, read)


def portions(samples: Iterator[Sample]) -> Iterator[list[Sample]]:
    while portion := list(islice(samples, ROWS_AT_ONCE)):
        yield portion


def is_held_out(document: Document, share: float) -> bool:
    """By its words alone, so that the same are never both learned and evaluated on."""
    words = hashlib.blake2b("\0".join(document.texts).encode(), digest_size=8).digest()
    return int.from_bytes(words, "big") < share * 2**64


def texts_of(data: Data) -> Iterator[str]:
    """Every text of the source, as much as a vocabulary is made of; corrupt rows are left out."""
    kind, rows = of_format(islice(open_source(data).rows(), data.limit), data)
    characters = 0
    for sample in documents(rows, kind):
        if isinstance(sample, Sample):
            yield from sample.document.texts
            characters += sum(map(len, sample.document.texts))
        if characters > VOCABULARY_CHARACTERS:
            return
