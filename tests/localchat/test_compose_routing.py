"""What is built to leave this machine: nothing when offline, nothing before it is needed."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from localchat.compose.clouds import cloud_target
from localchat.compose.routing import Routing
from localchat.errors import UsageError
from localchat.paths import Paths
from localchat.settings import CloudSettings, RoutingSettings, Settings
from router.budget import Budget
from router.call import Call
from router.consent import Departure
from router.decision import Decision, Turn
from router.errors import Refused
from router.ledger import Ledger
from router.request import ChatRequest, Finished, Message, Usage
from router.scripted import ScriptedBackend

WATCHED = """
import socket, sys

def watch(event, arguments):
    if event == "socket.__new__" and arguments[1] in (socket.AF_INET, socket.AF_INET6):
        raise SystemExit("a socket")
    if event.startswith(("socket.getaddrinfo", "socket.gethostby", "socket.connect", "socket.sendto")):
        if event != "socket.connect" or not isinstance(arguments[1], (str, bytes)):
            raise SystemExit(event)

sys.addaudithook(watch)
from localchat import cli, compose
from router.scripted import ScriptedBackend

class Engine(ScriptedBackend):
    def start(self):
        pass

compose.build_engine = lambda *_: Engine(["Here."])
code = cli.main(sys.argv[1:])
loaded = [name for name in sys.modules if name.startswith(("httpx", "httpcore", "router.cloud.client"))]
sys.exit(code or (f"it was imported: {loaded}" if loaded else 0))
"""
HARD = "Explain the mathematical basis of quantum entanglement."


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    return Paths(tmp_path / "config", tmp_path / "data", tmp_path / "cache")


def ended(text: str) -> Call:
    request = ChatRequest((Message("user", "Where is the Louvre?"),))
    finished = Finished("stop", Usage(10, 0, 5), model="small")
    return Call(request, Turn("local", "7"), Decision("local", "small"), text, finished=finished)


def watched(home: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """One question, in a program that ends when it turns to a network."""
    variables = {"LOCALCHAT_HOME": str(home), "LOCALCHAT_CLOUD_PRESET": "openai"}
    variables["OPENAI_API_KEY"] = "sk-nobody"
    command = [sys.executable, "-c", WATCHED, "ask", *words, HARD]
    return subprocess.run(command, capture_output=True, text=True, env=variables, stdin=subprocess.DEVNULL)


@pytest.mark.parametrize("mode", ["local", "auto", "cloud"])
def test_offline_no_socket_is_made_and_no_name_looked_up(tmp_path: Path, mode: str) -> None:
    done = watched(tmp_path, "--offline", "--route", mode)
    told = "" if mode == "local" else "localchat: offline: answered on this machine\n"
    assert (done.returncode, done.stdout, done.stderr) == (0, "Here.\n", told)


def test_the_watch_sees_what_leaves(tmp_path: Path) -> None:
    assert "socket" in watched(tmp_path, "--route", "cloud").stderr


async def test_out_of_the_box_the_cloud_is_simulated_and_says_so(paths: Paths) -> None:
    remote = Routing(Settings(), paths).remote
    assert remote is not None
    assert (remote.simulated, remote.name) == (True, "the simulated cloud")
    real = Routing(Settings(cloud=CloudSettings("openai")), paths).remote
    assert real is not None
    assert (real.simulated, real.name) == (False, "openai: gpt-4.1-mini")
    assert Routing(Settings(routing=RoutingSettings(offline=True)), paths).remote is None


async def test_answers_are_recorded_with_what_the_cloud_would_have_cost(paths: Paths) -> None:
    routing = Routing(Settings(cloud=CloudSettings("openai")), paths)
    number = routing.keep(ended("In Paris."))
    await routing.close()
    with Ledger(paths.ledger) as ledger:
        entry = ledger.entry(number)
    assert (entry.answered_by, entry.conversation_id, entry.cost_usd, entry.answer) == ("local", 7, 0.0, "")
    assert entry.avoided_usd is not None
    assert entry.avoided_usd > 0
    assert paths.ledger.stat().st_mode & 0o777 == 0o600


async def test_texts_are_recorded_only_by_choice_and_nothing_incognito(paths: Paths) -> None:
    routing = Routing(Settings(routing=RoutingSettings(keep_text=True)), paths)
    number = routing.keep(ended("In Paris."))
    await routing.close()
    with Ledger(paths.ledger) as ledger:
        assert ledger.entry(number).answer == "In Paris."
    paths.ledger.unlink()
    silent = Routing(Settings(), paths, keeps=False)
    assert silent.keep(ended("In Paris.")) == ""
    await silent.close()
    assert not paths.ledger.exists()


async def test_a_persons_own_facts_are_checked_and_a_wrong_file_is_told_at_once(
    paths: Paths, tmp_path: Path
) -> None:
    rules = tmp_path / "facts.toml"
    rules.write_text('[[rule]]\nname = "Louvre"\nquestion = ["Louvre"]\nanswer = ["Paris"]\n')
    routing = Routing(Settings(routing=RoutingSettings(rules=str(rules))), paths)
    assert [v.passed for v in routing.check(ended("In Rome.")) if "Louvre" in v.validator] == [False]
    rules.write_text("[[rule]]\nnam = 3\n")
    with pytest.raises(UsageError):
        Routing(Settings(routing=RoutingSettings(rules=str(rules))), paths)
    with pytest.raises(UsageError, match="cannot be read"):
        Routing(Settings(routing=RoutingSettings(rules=str(tmp_path / "none"))), paths)


async def test_without_a_screen_asking_refuses_and_names_the_flag(paths: Paths) -> None:
    with pytest.raises(Refused, match="--privacy redact"):
        await Routing(Settings(), paths).ask_person(Departure("openai: m", "1 card number", "", ""))


async def test_what_was_spent_before_counts(paths: Paths) -> None:
    settings = Settings(cloud=CloudSettings("openai"), routing=RoutingSettings(daily_usd=1.0))
    with Ledger(paths.ledger) as ledger:
        first = Routing(settings, paths)
        entry = replace(first._recorder.entry(ended("x")), cost_usd=0.4) if first._recorder else None
        assert entry
        ledger.record(entry)
    routing = Routing(settings, paths)
    assert routing._spent("7") == (0.4, 0.4)
    assert routing._spent("8") == (0.4, 0.0)
    assert routing._purse.budget("7") == Budget(1.0, 0.25)
    assert "$0.40 of $1.00" in routing._spent_text()
    await routing.close()


async def test_a_record_that_cannot_be_read_is_no_licence_to_spend(paths: Paths) -> None:
    paths.data.mkdir(parents=True)
    paths.ledger.write_bytes(b"Dear diary, " * 400)
    routing = Routing(Settings(cloud=CloudSettings("openai")), paths)
    chooser = routing.elsewhere(ScriptedBackend(loaded=True), None).chooser
    request = ChatRequest((Message("user", HARD),))
    with pytest.raises(Refused, match="What was spent is not known"):
        await chooser.choose(request, Turn("cloud", "1"))
    assert (await chooser.choose(request, Turn("auto", "1"))).route == "local"
    assert routing._spent_text() == "spent: unknown"
    await routing.close()


async def test_incognito_spends_of_the_same_purse_and_leaves_no_record(paths: Paths) -> None:
    settings = Settings(cloud=CloudSettings("openai"))
    open_routing = Routing(settings, paths)
    assert open_routing._recorder
    with Ledger(paths.ledger) as ledger:
        ledger.record(replace(open_routing._recorder.entry(ended("x")), cost_usd=0.4))
    silent = Routing(settings, paths, keeps=False)
    assert silent._spent("7") == (0.4, 0.0)
    await silent.close()
    await open_routing.close()


async def test_a_simulated_cloud_of_ones_own_costs_nothing_and_is_called_simulated(paths: Paths) -> None:
    remote = Routing(Settings(cloud=CloudSettings("localchat")), paths).remote
    assert remote is not None
    assert (remote.simulated, remote.name) == (True, "the simulated cloud")
    price = cloud_target(CloudSettings("localchat", base_url="http://127.0.0.1:8377/v1"))
    assert price is not None
    assert price.price is not None
    assert price.price.cost_usd(Usage(10, 0, 10)) == 0.0
