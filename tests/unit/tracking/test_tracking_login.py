from __future__ import annotations

from pathlib import Path

import pytest

from airlane.errors import TrackingError
from airlane.store.disk import make_private_folder
from airlane.store.paths import Home
from airlane.tracking.login import find_login, make_login, variables


@pytest.fixture
def home(tmp_path: Path) -> Home:
    home = Home(tmp_path / "ho me")
    make_private_folder(home.mlflow)
    return home


def test_a_login_is_made_once_in_a_file_of_its_own(home: Home) -> None:
    assert find_login(home) is None
    assert variables(home) == {}
    made = make_login(home)
    assert make_login(home) == made == find_login(home)
    assert made.file == home.mlflow / "login.json"
    assert made.file.stat().st_mode & 0o777 == 0o600
    assert variables(home) == {"MLFLOW_TRACKING_USERNAME": made.username, "MLFLOW_TRACKING_PASSWORD": made.password}


def test_two_homes_have_different_logins(home: Home) -> None:
    other = Home(home.root / "other")
    make_private_folder(other.mlflow)
    one, two = make_login(home), make_login(other)
    assert one.username != two.username
    assert one.password != two.password
    assert len(one.password) >= 32
    assert one.password not in repr(one)


def test_a_login_that_others_can_read_is_refused(home: Home) -> None:
    file = make_login(home).file
    file.chmod(0o640)
    with pytest.raises(TrackingError, match="mode 640; a login needs 600") as refused:
        make_login(home)
    assert "air ui --stop" in (refused.value.hint or "")


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"MLFLOW_TRACKING_USERNAME": "a"}'])
def test_a_damaged_login_says_where_it_is(content: str, home: Home) -> None:
    (home.mlflow / "login.json").write_text(content)
    with pytest.raises(TrackingError, match=r"login\.json holds no login"):
        find_login(home)
