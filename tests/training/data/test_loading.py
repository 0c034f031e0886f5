"""From a source to corpora, as a training starts with them."""

from __future__ import annotations

import json
import multiprocessing
import os
import pickle
import signal
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from recipes.engine.data import cache, loading
from recipes.engine.data.corpora import Corpora
from recipes.engine.data.loading import load_corpora, texts_of
from recipes.engine.data.settings import Data
from recipes.errors import RecipeError

from .tokenizers_made import BRACKETS, CHATML, byte_level

TOKENIZER = byte_level(CHATML)


@pytest.fixture
def data(tmp_path: Path) -> Data:
    """A hundred rows of questions, a cache of their own."""
    source = write(tmp_path / "rows.jsonl", questions(100))
    return Data(source=source, cache_dir=str(tmp_path / "cache"), eval_share=0, packs=1)


def questions(rows: int) -> list[dict[str, Any]]:
    return [{"prompt": f"How many are {n} and 1?", "completion": f"They are {n + 1}."} for n in range(rows)]


def write(path: Path, rows: Sequence[Mapping[str, Any] | str]) -> str:
    lines = [row if isinstance(row, str) else json.dumps(row) for row in rows]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return str(path)


def load(data: Data, told: list[str] | None = None) -> Corpora:
    return load_corpora(data, TOKENIZER, ([] if told is None else told).append)


def refused(data: Data) -> RecipeError:
    with pytest.raises(RecipeError) as caught:
        load(data)
    return caught.value


def words(corpora: Corpora) -> list[str]:
    """What is learned of each document."""
    corpus = corpora.train
    packs = [corpus.pack([document]) for document in range(len(corpus))]
    return [TOKENIZER.decode(pack.ids_T[pack.learn_T]) for pack in packs]


def test_a_conversation_cut_before_the_response_leaves_nothing(data: Data) -> None:
    error = refused(replace(data, max_tokens=5))
    assert error.problems == (
        f"{data.source} leaves no document to learn from: 100 with nothing to learn within data.max_tokens=5",
    )
    assert error.hint == "Take a larger data.max_tokens"


def test_documents_are_those_of_the_source_in_its_order_with_their_places(data: Data) -> None:
    corpora = load(data)
    assert words(corpora) == [f"They are {n + 1}.<|im_end|>" for n in range(100)]
    assert corpora.train.place(7) == f"{data.source}:8"
    assert not corpora.train.learn_N[corpora.train.starts_D1[:-1]].any()
    assert corpora.evaluation is None


def test_what_was_found_is_told_in_a_sentence(data: Data) -> None:
    told: list[str] = []
    corpora = load(replace(data, eval_share=0.2), told)
    facts = corpora.facts
    assert (facts.format, facts.documents + facts.evaluation_documents) == ("prompt", 100)
    assert facts.tokens == corpora.train.lengths_D.sum()
    assert facts.learned_tokens == corpora.train.learned_D.sum()
    share = round(100 * facts.learned_tokens / facts.tokens)
    [sentence] = told
    assert sentence == (
        f"{data.source}: {facts.documents} documents (prompt), {facts.tokens:,} tokens, {share} % of them learned, "
        f"the longest {facts.longest_tokens}, {facts.evaluation_documents} to evaluate on"
    )


def test_the_same_words_are_never_both_learned_and_evaluated_on(data: Data, tmp_path: Path) -> None:
    doubled = replace(data, source=write(tmp_path / "doubled.jsonl", questions(200) * 2), eval_share=0.3)
    corpora = load(doubled)
    assert corpora.evaluation is not None
    held_out = [corpora.evaluation.pack([document]) for document in range(len(corpora.evaluation))]
    evaluated = {TOKENIZER.decode(pack.ids_T[pack.learn_T]) for pack in held_out}
    assert 30 < len(evaluated) < 90
    assert len(held_out) == 2 * len(evaluated)
    assert evaluated.isdisjoint(words(corpora))


def test_a_source_of_its_own_can_be_evaluated_on(data: Data, tmp_path: Path) -> None:
    apart = write(tmp_path / "apart.jsonl", [{"text": "Something else"}])
    told: list[str] = []
    corpora = load(replace(data, eval_source=apart, eval_share=0.5), told)
    assert (len(corpora.train), corpora.facts.evaluation_documents) == (100, 1)
    assert corpora.evaluation is not None
    assert corpora.evaluation.place(0) == f"{apart}:1"
    assert told[0].startswith(f"To evaluate on, {apart}: 1 document (text)")


def test_a_limit_takes_the_first_rows(data: Data) -> None:
    assert words(load(replace(data, limit=2))) == ["They are 1.<|im_end|>", "They are 2.<|im_end|>"]


CORRUPT: list[Any] = [
    {"prompt": "a", "completion": "b"},
    '{"prompt": ',
    {"prompt": "a"},
    {"prompt": "c", "completion": "d"},
]


def test_corrupt_rows_are_refused_together_with_their_lines(data: Data, tmp_path: Path) -> None:
    source = write(tmp_path / "corrupt.jsonl", CORRUPT)
    error = refused(replace(data, source=source))
    assert error.problems == (
        f"{source}:2: is no JSON: expecting value at column 11",
        f"{source}:3: needs completion or response or answer; it has prompt",
    )
    assert error.hint == "Mend the rows, or leave them out with data.corrupt=skip"


def test_of_many_corrupt_rows_the_first_ten_are_told(data: Data, tmp_path: Path) -> None:
    source = write(tmp_path / "corrupt.jsonl", [*questions(1500), *("{" for _ in range(1234))])
    problems = refused(replace(data, source=source)).problems
    assert len(problems) == 11
    assert problems[0].startswith(f"{source}:1501: ")
    assert problems[-1] == "and 1,224 more"


def test_corrupt_rows_can_be_left_out_and_are_counted(data: Data, tmp_path: Path) -> None:
    told: list[str] = []
    source = write(tmp_path / "corrupt.jsonl", CORRUPT)
    corpora = load(replace(data, source=source, corrupt="skip"), told)
    assert words(corpora) == ["b<|im_end|>", "d<|im_end|>"]
    assert told[-1].endswith(", 2 corrupt and left out")


def test_a_row_that_the_template_refuses_is_corrupt(data: Data, tmp_path: Path) -> None:
    rows = [{"messages": [{"role": role, "content": "x"} for role in ("user", "user", "assistant")]}]
    with pytest.raises(RecipeError, match=r"double\.jsonl:1: the tokenizer's chat template refuses it: Conversation"):
        load_corpora(replace(data, source=write(tmp_path / "double.jsonl", rows)), byte_level(BRACKETS), print)


def test_a_source_that_leaves_nothing_is_refused(data: Data, tmp_path: Path) -> None:
    source = write(tmp_path / "corrupt.jsonl", CORRUPT[1:3])
    assert refused(replace(data, source=source, corrupt="skip", format="prompt")).problems == (
        f"{source} leaves no document to learn from: 2 corrupt",
    )
    assert refused(replace(data, source=write(tmp_path / "empty.jsonl", []))).problems == (
        f"{tmp_path}/empty.jsonl has no rows",
    )


def test_rows_that_are_all_corrupt_are_refused_before_their_format_is_known(data: Data, tmp_path: Path) -> None:
    error = refused(replace(data, source=write(tmp_path / "corrupt.jsonl", ["{"] * 30), corrupt="skip"))
    assert len(error.problems) == 10
    assert error.hint.startswith("The first rows cannot be read: say with data.format what the others are")


def test_a_source_that_is_held_out_as_a_whole_is_refused(data: Data) -> None:
    assert refused(replace(data, eval_share=1 - 1e-15)).problems == (
        f"{data.source} leaves no document to learn from: 100 held out by data.eval_share=0.999999999999999",
    )


def test_columns_that_fit_no_format_are_told_with_those_that_do(data: Data, tmp_path: Path) -> None:
    error = refused(replace(data, source=write(tmp_path / "odd.jsonl", [{"title": "x", "body": "y"}])))
    assert error.problems == (f"{tmp_path}/odd.jsonl:1: its columns fit no format; it has title, body",)
    assert "  data.format=instruction: instruction, output or response, and perhaps input" in error.hint.splitlines()


LONG: list[Any] = [
    *questions(2),
    {"prompt": "long", "completion": "word " * 60},
    {"prompt": "word " * 60, "completion": "x"},
]


def test_long_conversations_are_cut_and_those_with_nothing_left_to_learn_are_left_out(
    data: Data, tmp_path: Path
) -> None:
    corpora = load(replace(data, source=write(tmp_path / "long.jsonl", LONG), max_tokens=60))
    assert corpora.train.lengths_D.max() == 60
    assert (len(corpora.train), corpora.facts.cut, corpora.facts.nothing_learned) == (3, 2, 1)
    assert corpora.train.learned_D.min() > 0


def test_long_documents_can_be_left_out_or_refused(data: Data, tmp_path: Path) -> None:
    long = replace(data, source=write(tmp_path / "long.jsonl", LONG), max_tokens=60)
    corpora = load(replace(long, too_long="skip"))
    assert (len(corpora.train), corpora.facts.too_long) == (2, 2)
    error = refused(replace(long, too_long="refuse"))
    assert [problem.partition(" tokens")[0].rpartition(" ")[0] for problem in error.problems] == [
        f"{long.source}:3: is",
        f"{long.source}:4: is",
    ]
    assert error.hint == "Take a larger data.max_tokens, or data.too_long=cut or skip"


def test_all_that_is_too_long_is_counted_where_it_is_refused(data: Data, tmp_path: Path) -> None:
    source = write(tmp_path / "long.jsonl", [LONG[2]] * (2 * loading.ROWS_AT_ONCE + 5))
    problems = refused(replace(data, source=source, max_tokens=60, too_long="refuse")).problems
    assert problems[-1] == f"and {2 * loading.ROWS_AT_ONCE - 5:,} more"


def test_a_long_text_goes_on_in_the_next_document(data: Data, tmp_path: Path) -> None:
    text = "No word of it is lost, however long it is. " * 20
    corpora = load(replace(data, source=write(tmp_path / "long.jsonl", [{"text": text}]), max_tokens=50))
    corpus = corpora.train
    assert corpus.lengths_D.max() == 50
    assert TOKENIZER.decode(corpus.ids_N[corpus.learn_N]) == f"{text}<|eos|>"
    assert (corpora.facts.parted, corpora.facts.cut) == (1, 0)
    assert corpus.learned_D.tolist() == (corpus.lengths_D - 1).tolist()


def test_each_token_of_a_text_but_its_first_is_learned_once_however_it_is_parted(data: Data, tmp_path: Path) -> None:
    source = write(tmp_path / "long.jsonl", [{"text": "One two three four five six seven."}])
    [[whole]] = [[load(replace(data, source=source)).train.ids_N]]
    for longest in range(2, len(whole) + 1):
        corpus = load(replace(data, source=source, max_tokens=longest)).train
        assert corpus.ids_N[corpus.learn_N].tolist() == whole[1:].tolist()
        assert corpus.lengths_D.max() == longest


def test_text_files_are_texts(data: Data, tmp_path: Path) -> None:
    (tmp_path / "texts").mkdir()
    (tmp_path / "texts" / "a.md").write_text("# One\n\nTwo.\n", encoding="utf-8")
    corpora = load(replace(data, source=str(tmp_path / "texts")))
    assert TOKENIZER.decode(corpora.train.ids_N) == "<|bos|># One\n\nTwo.<|eos|>"
    assert corpora.train.place(0) == f"{tmp_path}/texts/a.md:1"


def test_parquet_is_read_and_a_damaged_file_refused(data: Data, tmp_path: Path) -> None:
    import pyarrow as pa
    from pyarrow import parquet

    rows = [
        {"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": str(n)}]} for n in range(3)
    ]
    path = tmp_path / "rows.parquet"
    parquet.write_table(pa.Table.from_pylist(rows), path)
    corpora = load(replace(data, source=str(path)))
    assert words(corpora) == [f"{n}<|im_end|>" for n in range(3)]
    assert corpora.train.place(2) == f"{path}, row 2"
    path.write_bytes(path.read_bytes()[:-20])
    assert refused(replace(data, source=str(path))).problems[0].startswith(f"{path}, row 0: cannot be read: ")


def test_a_value_of_parquet_that_cannot_be_read_is_named_and_costs_its_row_alone(data: Data, tmp_path: Path) -> None:
    import pyarrow as pa
    from pyarrow import parquet

    broken = pa.array([b"\xff", b"b", b"c"]).view(pa.string())
    table = pa.table({"text": broken, "day": pa.array([1, 10**7, 3], pa.date32())})
    path = tmp_path / "rows.parquet"
    parquet.write_table(table, path)
    first, second = refused(replace(data, source=str(path))).problems
    assert first.startswith(f"{path}, row 0: text cannot be read: 'utf-8' codec can't decode")
    assert second == f"{path}, row 1: day cannot be read: date value out of range"
    corpora = load(replace(data, source=str(path), corrupt="skip"))
    assert [corpora.train.place(document) for document in range(len(corpora.train))] == [f"{path}, row 2"]
    assert corpora.facts.corrupt == 2


def test_a_data_set_that_was_saved_on_disk_has_the_rows_of_its_split(data: Data, tmp_path: Path) -> None:
    import datasets

    rows = questions(4)
    one = tmp_path / "one"
    datasets.Dataset.from_list(rows).save_to_disk(str(one))
    corpora = load(replace(data, source=str(one)))
    assert words(corpora) == words(load(replace(data, limit=4)))
    assert corpora.train.place(3) == f"{one}, row 3"
    more = tmp_path / "more"
    splits = {"train": datasets.Dataset.from_list(rows), "test": datasets.Dataset.from_list(rows[:1])}
    datasets.DatasetDict(splits).save_to_disk(str(more))
    corpora = load(replace(data, source=str(more), eval_source=str(more)))
    assert (len(corpora.train), corpora.facts.evaluation_documents) == (4, 1)
    error = refused(replace(data, source=str(more), split="dev"))
    assert error.problems == (f"{more}: has no split dev; it has test, train",)


def test_a_data_set_that_was_saved_anew_is_read_anew_and_a_damaged_one_refused(data: Data, tmp_path: Path) -> None:
    import datasets

    home = tmp_path / "saved"
    datasets.Dataset.from_list(questions(4)).save_to_disk(str(home))
    assert len(load(replace(data, source=str(home))).train) == 4
    datasets.Dataset.from_list(questions(3)).save_to_disk(str(home))
    assert len(load(replace(data, source=str(home))).train) == 3
    [arrow] = home.glob("*.arrow")
    arrow.write_bytes(arrow.read_bytes()[:50])
    error = refused(replace(data, source=str(home)))
    assert error.problems[0].startswith(f"{home}: cannot be read as what datasets has saved: ")


def test_a_data_set_that_the_hub_does_not_give_is_told(data: Data, monkeypatch: pytest.MonkeyPatch) -> None:
    import datasets

    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    [problem] = refused(replace(data, source="nobody/nothing")).problems
    assert problem.startswith("nobody/nothing: no file or folder, and not to be had from the hub (split train): ")


def test_a_data_set_of_the_hub_stood_in_for_by_one_on_disk_has_its_rows(
    data: Data, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import datasets

    local = datasets.load_dataset("json", data_files=data.source, split="train", cache_dir=str(tmp_path / "hub"))
    asked: list[tuple[object, ...]] = []

    def load_dataset(name: str, subset: str | None, split: str) -> datasets.Dataset:
        asked.append((name, subset, split))
        return local

    monkeypatch.setattr(datasets, "load_dataset", load_dataset)
    corpora = load(replace(data, source="openai/gsm8k", subset="main"))
    assert asked == [("openai/gsm8k", "main", "train")]
    assert words(corpora) == words(load(data))
    assert corpora.train.place(4) == "openai/gsm8k train, row 4"


def test_the_texts_of_a_source_are_all_its_turns(data: Data, tmp_path: Path) -> None:
    assert list(texts_of(replace(data, source=write(tmp_path / "corrupt.jsonl", CORRUPT)))) == ["a", "b", "c", "d"]


def test_few_documents_that_a_step_learns_again_and_none_to_evaluate_on_are_told(data: Data) -> None:
    told: list[str] = []
    few = replace(data, limit=3, packs=4, eval_share=1e-9)
    load(few, told)
    assert told[1:] == [
        (
            "Nothing is evaluated: data.eval_share=1e-09 of so few documents is none. "
            "Take a larger share, or data.eval_source"
        ),
        (
            "All documents fit into 1 pack, and each step takes data.packs=4: it learns the same ones again. "
            "Take data.packs=1, or smaller packs"
        ),
    ]
    told.clear()
    load(replace(few, eval_share=0, packing="none", pack_documents=1, packs=3), told)
    assert len(told) == 1
    load(replace(few, eval_share=0, packing="none", pack_documents=1), told)
    assert told[-1].startswith("All documents fit into 3 packs, and each step takes data.packs=4: ")


def test_progress_is_told_while_it_lasts(data: Data, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loading, "TELL_EVERY_S", -1.0)
    told: list[str] = []
    corpora = load(data, told)
    assert told[0] == f"100 documents, {corpora.facts.tokens:,} tokens so far"


# The cache


def encoded_again(data: Data, monkeypatch: pytest.MonkeyPatch, told: list[str] | None = None) -> bool:
    """Whether a second load tokenizes, after which it has the same documents."""
    first = load(data)
    made: list[object] = []
    build = loading.build

    def watched(*given: Any, **named: Any) -> Corpora:
        made.append(given)
        return build(*given, **named)

    with monkeypatch.context() as patch:
        patch.setattr(loading, "build", watched)
        second = load(data, told)
    assert second.train.digest == first.train.digest
    assert (second.facts, second.train.place(3)) == (first.facts, first.train.place(3))
    return bool(made)


def test_tokens_are_kept_and_mapped_into_memory(data: Data, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not encoded_again(replace(data, eval_share=0.2), monkeypatch)
    mapped = load(data).train.ids_N
    assert type(mapped) is np.ndarray
    assert isinstance(mapped.base, np.memmap)
    assert len(pickle.dumps(load(data).train, protocol=5, buffer_callback=lambda _: None)) < 2000


@pytest.mark.parametrize(
    "change",
    [
        {"learn": "all"},
        {"max_tokens": 50},
        {"eval_share": 0.5},
        {"limit": 9},
        {"format": "text"},
        {"source": "other.jsonl"},
        {"chat_template": "template.jinja"},
    ],
)
def test_what_changes_the_tokens_makes_another_cache(
    data: Data, change: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "other.jsonl", [{**row, "text": row["prompt"]} for row in questions(50)])
    (tmp_path / "template.jinja").write_text(CHATML.replace("|>", "|> "), encoding="utf-8")
    both = replace(data, source="other.jsonl" if "format" in change else data.source)
    load(both)
    load(replace(both, **change))
    assert len(list((tmp_path / "cache").iterdir())) == 2


def test_a_change_of_the_code_that_makes_the_tokens_makes_another_cache(
    data: Data, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    load(data)
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "formats.py").write_text("...")
    monkeypatch.setattr(loading, "CODE", tmp_path / "code")
    assert encoded_again(data, monkeypatch) is False
    (tmp_path / "code" / "formats.py").write_text("other")
    load(data)
    assert len(list((tmp_path / "cache").iterdir())) == 3


def test_without_a_home_it_is_asked_where_the_cache_is(data: Data, monkeypatch: pytest.MonkeyPatch) -> None:
    def nobody() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", nobody)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    error = refused(replace(data, cache_dir=None))
    assert error.problems == ("There is no folder for the cache of the tokens: Could not determine home directory.",)
    assert error.hint == "Say where: data.cache_dir=FOLDER"


def test_the_source_is_told_by_the_name_that_is_given_now(data: Data) -> None:
    load(data)
    pattern = data.source.replace("rows.jsonl", "row*.jsonl")
    assert load(replace(data, source=pattern)).facts.source == pattern


def test_what_does_not_change_the_tokens_uses_the_cache(data: Data, tmp_path: Path) -> None:
    load(data)
    load(replace(data, packing="none", packs=3, pack_tokens=4096))
    assert len(list((tmp_path / "cache").iterdir())) == 1


@pytest.mark.parametrize("damage", ["cut", "flipped", "missing", "about", "odd", "empty", "zip"])
def test_a_damaged_cache_is_made_anew(data: Data, tmp_path: Path, damage: str, monkeypatch: pytest.MonkeyPatch) -> None:
    load(data)
    [place] = (tmp_path / "cache").iterdir()
    ids = place / "train" / "ids_N.npy"
    content = ids.read_bytes()
    damaged, left = {
        "cut": (ids, content[:-4]),
        "flipped": (ids, content[:-1] + bytes([content[-1] ^ 1])),
        "missing": (ids, None),
        "about": (place / "about.json", b"{"),
        "odd": (place / "about.json", b'{"facts": {}, "corpora": []}'),
        "zip": (ids, b"PK\x03\x04" + content),
        "empty": (place / "train" / "starts_D1.npy", b""),
    }[damage]
    damaged.unlink()
    if left is not None:
        damaged.write_bytes(left)
    told: list[str] = []
    load(data, told)
    assert told[0].startswith(f"The cache {place} is damaged (")
    assert not encoded_again(data, monkeypatch)
    assert [entry.name for entry in (tmp_path / "cache").iterdir()] == [place.name]


def test_a_cache_that_cannot_be_written_is_told_and_costs_nothing_else(data: Data, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    told: list[str] = []
    corpora = load(replace(data, cache_dir=str(tmp_path / "file" / "cache")), told)
    assert len(corpora.train) == 100
    assert told[0].startswith("The tokens are not kept for next time: ")


def test_what_a_killed_process_left_is_removed_after_a_day(data: Data, tmp_path: Path) -> None:
    folder = tmp_path / "cache"
    for name, age_s in (("old", cache.FORGOTTEN_S + 60), ("new", 60.0)):
        (folder / f"{cache.UNFINISHED}{name}" / "train").mkdir(parents=True)
        os.utime(folder / f"{cache.UNFINISHED}{name}", (time.time() - age_s, time.time() - age_s))
    load(data)
    assert [entry.name for entry in folder.glob(f"{cache.UNFINISHED}*")] == [f"{cache.UNFINISHED}new"]


def load_and_die(data: Data) -> None:
    """Killed when all is written, and before it is where the cache should be."""
    cache.put = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
    load(data)


def test_a_process_that_is_killed_while_it_writes_leaves_no_half_cache(data: Data, tmp_path: Path) -> None:
    process = multiprocessing.get_context("fork").Process(target=load_and_die, args=(data,))
    process.start()
    process.join(60)
    assert process.exitcode == -signal.SIGKILL
    [left] = (tmp_path / "cache").iterdir()
    assert left.name.startswith(cache.UNFINISHED)
    told: list[str] = []
    assert len(load(data, told).train) == 100
    assert len(told) == 1


def load_in_a_process(data: Data, barrier: threading.Barrier, results: Any) -> None:
    barrier.wait()
    results.put(load(data).train.digest)


def test_two_processes_can_make_the_same_cache_at_once(data: Data, tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    barrier, results = context.Barrier(3), context.Queue()
    processes = [context.Process(target=load_in_a_process, args=(data, barrier, results)) for _ in range(3)]
    for process in processes:
        process.start()
    digests = {results.get(timeout=60) for _ in processes}
    for process in processes:
        process.join()
    assert digests == {load(data).train.digest}
    assert len(list((tmp_path / "cache").iterdir())) == 1
