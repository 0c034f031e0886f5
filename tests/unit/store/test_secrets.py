from __future__ import annotations

from pathlib import Path

import pytest

from airlane.errors import ArgumentError, NotFoundError, SecretError
from airlane.store.paths import Home
from airlane.store.secrets import delete_secret, get_secret, list_secrets, resolve, set_secret, strip_final_newline


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / 'it\'s "home" é\nnew line')


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


@pytest.mark.parametrize("value", ["hf_abc", "-----BEGIN KEY-----\nabc\n-----END KEY-----\n", "é ü \udcff", " x "])
def test_a_value_comes_back_as_it_was_set(home: Home, value: str) -> None:
    set_secret(home, "hf/token", value)
    assert get_secret(home, "hf/token") == value


def test_files_and_folders_are_private(home: Home) -> None:
    set_secret(home, "hf/token", "v")
    scope = home.secrets / "hf"
    assert [mode(path) for path in (home.root, home.secrets, scope, scope / "token")] == [0o700, 0o700, 0o700, 0o600]


def test_setting_again_replaces_the_value_and_leaves_no_draft(home: Home) -> None:
    set_secret(home, "hf/token", "one")
    set_secret(home, "hf/token", "two")
    assert get_secret(home, "hf/token") == "two"
    assert [path.name for path in (home.secrets / "hf").iterdir()] == ["token"]


@pytest.mark.parametrize("ref", ["../x", "x/..", "./.", "sp ace/kéy", "%41/a%", ".hidden/.too", "a/\nb", "\udcff/x"])
def test_any_name_stays_inside_the_store_and_is_listed_as_given(home: Home, ref: str) -> None:
    set_secret(home, ref, "v")
    files = [path for path in home.root.rglob("*") if path.is_file()]
    assert len(files) == 1
    assert files[0].parent.parent == home.secrets
    assert list_secrets(home) == (ref,)
    assert get_secret(home, ref) == "v"


def test_names_that_differ_do_not_share_a_file(home: Home) -> None:
    set_secret(home, "a/%41", "quoted")
    set_secret(home, "a/A", "plain")
    assert get_secret(home, "a/%41") == "quoted"


@pytest.mark.parametrize("ref", ["token", "/token", "hf/", "a/b/c", "", "/"])
def test_a_name_that_is_not_scope_and_key_is_refused(home: Home, ref: str) -> None:
    with pytest.raises(ArgumentError, match="scope/key"):
        set_secret(home, ref, "v")


def test_a_name_too_long_for_a_file_is_refused(home: Home) -> None:
    with pytest.raises(ArgumentError, match="too long"):
        set_secret(home, "a/" + "é" * 100, "v")


def test_an_empty_value_is_refused(home: Home) -> None:
    with pytest.raises(ArgumentError, match="empty"):
        set_secret(home, "a/b", "")


@pytest.mark.parametrize("shared", [0o640, 0o604, 0o620])
def test_a_file_that_others_can_open_is_refused(home: Home, shared: int) -> None:
    set_secret(home, "hf/token", "hf_value")
    path = home.secrets / "hf" / "token"
    path.chmod(shared)
    with pytest.raises(SecretError, match="Others can open") as caught:
        get_secret(home, "hf/token")
    assert caught.value.hint == f"chmod 600 '{path}'"
    assert "hf_value" not in str(caught.value)


def test_a_store_that_others_can_enter_takes_no_secret(home: Home) -> None:
    home.secrets.mkdir(parents=True, mode=0o755)
    home.secrets.chmod(0o755)
    with pytest.raises(SecretError, match="mode 755"):
        set_secret(home, "hf/token", "v")
    assert list_secrets(home) == ()


def test_deleting_leaves_nothing_and_the_second_time_says_so(home: Home) -> None:
    set_secret(home, "hf/token", "v")
    set_secret(home, "hf/other", "v")
    delete_secret(home, "hf/token")
    assert list_secrets(home) == ("hf/other",)
    with pytest.raises(NotFoundError, match="hf/token"):
        delete_secret(home, "hf/token")
    delete_secret(home, "hf/other")
    assert list(home.secrets.iterdir()) == []


def test_an_empty_home_has_no_secrets(home: Home) -> None:
    assert list_secrets(home) == ()
    assert get_secret(home, "hf/token") is None


def test_resolve_takes_the_profile_s_variable_before_the_store(home: Home) -> None:
    set_secret(home, "hf/token", "stored")
    set_secret(home, "wandb/key", "wandb")
    values = resolve(
        {"HF_TOKEN": "hf/token", "WANDB_API_KEY": "wandb/key"},
        home=home,
        profile_secrets={"hf/token": "MY_TOKEN"},
        env={"MY_TOKEN": "from caller"},
    )
    assert values == {"HF_TOKEN": "from caller", "WANDB_API_KEY": "wandb"}


def test_resolve_falls_back_to_the_store_where_the_variable_is_not_set(home: Home) -> None:
    set_secret(home, "hf/token", "stored")
    assert resolve({"T": "hf/token"}, home=home, profile_secrets={"hf/token": "GONE"}, env={}) == {"T": "stored"}


def test_resolve_names_every_missing_secret_and_what_to_type(home: Home) -> None:
    refs = {"A": "hf/token", "B": "hf/token", "C": "x/y"}
    with pytest.raises(SecretError) as caught:
        resolve(refs, home=home, profile_secrets={"x/y": "XY"}, env={})
    assert caught.value.message == "3 secrets are missing: A (hf/token), B (hf/token), C (x/y, and $XY is not set)."
    assert caught.value.hint == "air secrets set hf/token\nair secrets set x/y"


@pytest.mark.parametrize(("typed", "value"), [("a\n", "a"), ("a\r\n", "a"), ("a\n\n", "a\n"), ("a", "a"), ("\n", "")])
def test_one_final_newline_is_not_part_of_the_value(typed: str, value: str) -> None:
    assert strip_final_newline(typed) == value
