"""Studies as files: what comes with Whence, and what is refused."""

from __future__ import annotations

import re
import sys
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from whence.cli import main
from whence.errors import InputError
from whence_studies.cache import StudyCache
from whence_studies.charts.study_tables import study_tables
from whence_studies.checking import check_study
from whence_studies.results import StudyResults, check_records
from whence_studies.runner import run_study
from whence_studies.study import Cell, find_study, read_study, study_files


@pytest.mark.parametrize("name", study_files())
def test_every_study_can_be_run(name: str) -> None:
    study = find_study(name)
    assert (study.id, study.name) == (name, name)
    check_study(study)


def test_capitals_do_not_matter() -> None:
    assert find_study("Sequential-Accuracy").id == "sequential-accuracy"


def test_published_values_of_table_3_2() -> None:
    """Transcribed a second time, in the order of the page."""
    study = find_study("sequential-accuracy")
    page = """
    SASRec ML-1M .81 .82 .82 .82   SASRec Steam .70 .70 .69 .70
    SASRec Beauty .44 .43 .44 .44  SASRec Games .61 .60 .60 .61
    BERT4Rec ML-1M .77 .79 .80 .79  BERT4Rec Steam .68 .69 .70 .69
    BERT4Rec Beauty .42 .44 .45 .44 BERT4Rec Games .62 .63 .62 .62
    """.split()
    assert list(study.published) == ["recall@10 of 101"]
    for start in range(0, len(page), 6):
        model, dataset, *values = page[start : start + 6]
        for variant, value in zip(
            ("b=1 h=1", "b=2 h=1", "b=3 h=1", "b=2 h=2"), values, strict=True
        ):
            printed = study.published_text("recall@10 of 101", Cell(dataset, model, variant))
            assert printed == f"0{value}"
    assert study.published_text("MRR", Cell("ML-1M", "SASRec", "b=1 h=1")) is None


def test_the_trainings_of_table_3_2() -> None:
    study = find_study("sequential-accuracy")
    assert len(study.cells()) == 32
    for dataset, length, epoch, mask in (
        ("ML-1M", 50, 236, 0.2),
        ("Steam", 25, 523, 0.4),
        ("Beauty", 25, 408, 0.6),
        ("Games", 25, 242, 0.6),
    ):
        settings, training = study.settings_of(Cell(dataset, "SASRec", "b=3 h=1"))
        assert settings == {"max_len": length, "loss": "bce", "n_blocks": 3, "n_heads": 1}
        assert training == {"batch_size": 128, "steps": 10 * epoch, "average_every": epoch}
        other, same = study.settings_of(Cell(dataset, "BERT4Rec", "b=3 h=1"))
        assert other == {"max_len": length - 1, "mask_prob": mask, "n_blocks": 3, "n_heads": 1}
        assert same == training


def test_the_most_specific_settings_win(tiny: Callable[..., Path]) -> None:
    path = tiny(
        ('{ name = "sasrec" }', '{ name = "sasrec", settings = { dim = 4 }, '
         'on = { World = { dropout = 0.5, n_blocks = 9 } }, '
         'training = { batch_size = 8, steps = 7 } }')
    )  # fmt: skip
    study = read_study(path, "tiny")
    one, two = (study.settings_of(cell) for cell in study.cells())
    assert one[0] == {"max_len": 8, "dim": 4, "dropout": 0.5, "n_blocks": 1}
    assert one[1] == {"batch_size": 8, "steps": 7}
    assert two[1] == {"batch_size": 8, "steps": 8}


def test_a_variant_for_some_models(tiny: Callable[..., Path]) -> None:
    """It has no cell with the others, no claim is judged there, and tables are blank there."""
    path = tiny(
        ('SASRec = { name = "sasrec" }',
         'SASRec = { name = "sasrec" }\nBERT4Rec = { name = "bert4rec" }'),
        ("training = { steps = 8 } }", 'training = { steps = 8 }, models = ["SASRec"] }'),
    )  # fmt: skip
    study = read_study(path, "tiny")
    check_study(study)
    cells = [(cell.model, cell.variant) for cell in study.cells()]
    assert cells == [("SASRec", "one"), ("SASRec", "two"), ("BERT4Rec", "one")]
    assert study.claim_places(study.claims[0]) == [("World", "SASRec")]
    records = StudyResults(study, "m", "c", {cell: {} for cell in study.cells()}).records()
    check_records(study, records)
    tables = {table.title: table for table in study_tables(study, records)}
    assert tables["MRR"].rows == (("SASRec", "World", "–", "–"), ("BERT4Rec", "World", "–", ""))
    assert [row[1] for row in tables["Claims"].rows] == ["SASRec"]
    grouped = replace(study, groups={"Both": ("MRR",)})
    rows = {table.title: table.rows for table in study_tables(grouped, records)}
    assert rows["Both, one"] == (("SASRec", "World", "–"), ("BERT4Rec", "World", "–"))
    assert rows["Both, two"] == (("SASRec", "World", "–"),)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (('models = ["SASRec"]', 'models = ["SASRek"]'), "There is no model 'SASRek'"),
        (('source = "nobody"', 'source = "nobody"\nmodels = ["BERT4Rec"]'), "is not trained"),
        (('of = { variant = "two" }', 'of = { variant = "two", model = "BERT4Rec" }'),
         "variants that no model is trained with"),
    ],
)  # fmt: skip
def test_a_claim_about_an_untrained_cell_is_refused(
    change: tuple[str, str], sentence: str, tiny: Callable[..., Path]
) -> None:
    path = tiny(
        ('SASRec = { name = "sasrec" }',
         'SASRec = { name = "sasrec" }\nBERT4Rec = { name = "bert4rec" }'),
        ("training = { steps = 8 } }", 'training = { steps = 8 }, models = ["SASRec"] }'),
        change,
    )  # fmt: skip
    with pytest.raises(InputError, match=sentence):
        check_study(read_study(path, "tiny"))


MISTAKES = [
    (('title = "A tiny study"', ""), "StudyFile needs the setting 'title'"),
    (("seeds", "seed"), "StudyFile has no setting 'seed': did you mean 'seeds'"),
    (("data =", "date ="), "Dataset has no setting 'date'"),
    (("expect =", "expects ="), "Claim has no setting 'expects'"),
    (('"not higher"', '"more"'), "expect cannot be 'more': known: "),
    (('held = "validation"', 'held = "train"'), "held cannot be 'train': known: test, validation"),
    (("seeds = 3", "seeds ="), "is not a TOML file"),
    (("seeds = 3", "seeds = 0"), "needs at least one dataset, model, variant and seed"),
    (('"accuracy"', '"acuracy"'), "no measurement 'acuracy': did you mean 'accuracy'"),
    (('"accuracy"', '"counts", "accuracy"'), "no measurement 'counts'"),
    (('"sasrec"', '"sasrek"'), "There is no model 'sasrek'"),
    (("n_blocks = 1", "n_bloks = 1"), "has no setting 'n_bloks': did you mean 'n_blocks'"),
    (("steps = 8", "step = 8"), "has no setting 'step'"),
    (('of = { variant = "two" }', 'of = { variant = "too" }'), "There is no variant 'too'"),
    (('"recall@10 of 101"', '"recall"'), "There is no column 'recall'"),
    (('name = "sasrec"', 'name = "sasrec", on = { Word = {} }'), "There is no dataset 'Word'"),
    (('held = "validation"', 'split = "half"'), "There is no split 'half'"),
]


@pytest.mark.parametrize(("change", "sentence"), MISTAKES)
def test_a_mistake_is_one_error_that_names_the_file(
    change: tuple[str, str], sentence: str, tiny: Callable[..., Path], tmp_path: Path
) -> None:
    path = tiny(change)
    with pytest.raises(InputError, match=sentence) as caught:
        run_study(find_study(str(path)), cache=StudyCache(tmp_path / "cache"), show_progress=False)
    assert "tiny.toml" in str(caught.value)
    assert not (tmp_path / "cache").exists()


@pytest.mark.parametrize("printed", ['"0.8 or so"', '{"x": "0.8"}'])
def test_published_values_must_be_numbers(
    printed: str, tiny: Callable[..., Path], tmp_path: Path
) -> None:
    (tmp_path / "published").mkdir()
    text = f'{{"MRR": {{"SASRec": {{"World": {{"one": {printed}}}}}}}}}'
    for wrong in (text, '{"MRR": "0.8"}'):
        (tmp_path / "published" / "tiny.json").write_text(wrong)
        with pytest.raises(InputError, match="must hold numbers as texts, by column, model"):
            check_study(read_study(tiny(), "tiny"))


def test_duplicate_names_are_refused(tiny: Callable[..., Path], data_folder: Path) -> None:
    again = f'[datasets]\nOther = {{ data = "{data_folder}" }}'
    with pytest.raises(InputError, match="occurs twice among the datasets"):
        check_study(read_study(tiny(("[datasets]", again)), "tiny"))


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (("seeds", "seed"), "StudyFile has no setting 'seed'"),
        (("World = { data = ", "World = { data = 'ml-1m-sasrek' } #"), "did you mean 'ml-1m-sas"),
    ],
)
def test_a_mistake_exits_with_code_2(
    change: tuple[str, str],
    sentence: str,
    tiny: Callable[..., Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = tiny(change)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WHENCE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(warnings, "showwarning", warnings.showwarning)
    monkeypatch.setattr(sys, "argv", ["whence", "study", "run", path.name])
    with pytest.raises(SystemExit) as left:
        main()
    said = capsys.readouterr()
    assert left.value.code == 2
    assert sentence in " ".join(said.err.split())
    assert "Traceback" not in said.err
    assert said.out == ""
    assert list(tmp_path.iterdir()) == [path]


def test_the_study_in_the_guide_can_be_run(tmp_path: Path) -> None:
    guide = (Path(__file__).parents[2] / "docs" / "studies.md").read_text()
    (example,) = re.findall(r"```toml\n(.*?)```", guide, re.DOTALL)
    (tmp_path / "blocks.toml").write_text(example)
    check_study(find_study(str(tmp_path / "blocks.toml")))
    assert all(f"`{name}`" in guide for name in study_files())


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read: No such file"):
        find_study(str(tmp_path / "none.toml"))
    with pytest.raises(InputError, match="did you mean 'sequential-accuracy'"):
        find_study("sequential-acuracy")
