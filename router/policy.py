"""Which route answers a request, and why: rules in order, the first that has something to say decides.

Pure: values in, a Decision out. Owns the order of the rules and their words; does not know how difficulty,
estimates, privacy or expenses come about. What must not leave this machine never does, whatever the mode.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from router.budget import Budget, dollars
from router.decision import Alternative, Decision, Estimate, Mode, Route


@dataclass(frozen=True, slots=True)
class Side:
    """One route as it stands now.

    ``prompt_tokens`` of the templated conversation and ``window_tokens`` are None where nobody knows.
    ``worst_cost_usd`` is what the longest answer would cost, None without a known price.
    ``unavailable`` says in a sentence why it cannot answer now, "" where it can: offline, no key, resting
    after failures, not enough memory.
    """

    estimate: Estimate
    prompt_tokens: int | None = None
    window_tokens: int | None = None
    worst_cost_usd: float | None = 0.0
    unavailable: str = ""


@dataclass(frozen=True, slots=True)
class Asked:
    """What is known of a request. ``difficulty`` is P(the cloud's answer is better).

    ``reserved_tokens`` are kept for the answer. ``private``: why it must not leave, in a sentence, "" where
    it may. ``pinned``: its conversation is kept on this machine. ``last_route`` answered the turn before.
    """

    difficulty: float = 0.0
    reserved_tokens: int = 0
    private: str = ""
    pinned: bool = False
    last_route: Route | None = None


@dataclass(frozen=True, slots=True)
class Limits:
    """What a person bears. Times are of this machine's forecast, None bears any.

    A request of difficulty ``hard`` goes; a conversation that went comes back only below ``easy``, so that a
    short "go on" does not change the model. ``better_answer_usd`` is what a better answer is worth: the
    figure of a wrong one's cost in docs/routing.md. ``margin_tokens`` for what another tokenizer counts.
    """

    ttft_s: float | None = None
    total_s: float | None = None
    hard: float = 0.5
    easy: float = 0.25
    better_answer_usd: float = 0.05
    margin_tokens: int = 64


@dataclass(frozen=True, slots=True)
class Case:
    """All that a rule may look at; ``cloud`` is None where none is configured."""

    asked: Asked
    local: Side
    cloud: Side | None
    budget: Budget = field(default_factory=Budget)
    mode: Mode = "auto"
    limits: Limits = field(default_factory=Limits)


@dataclass(frozen=True, slots=True)
class Choice:
    """What a rule says. With ``refusal`` nothing is sent; ``why_not`` is said of the other route."""

    route: Route
    reason: str
    why_not: str = ""
    refusal: str = ""


Rule = Callable[[Case], Choice | None]


def decide(
    asked: Asked,
    local: Side,
    cloud: Side | None,
    budget: Budget | None = None,
    mode: Mode = "auto",
    limits: Limits | None = None,
) -> Decision:
    """The first rule that has something to say. ``budget`` None: no limit of money."""
    case = Case(asked, local, cloud, budget or Budget(), mode, limits or Limits())
    choice = next(choice for rule in RULES if (choice := rule(case)))
    return _decision(case, choice)


def may_hand_off(
    asked: Asked,
    local: Side,
    cloud: Side | None,
    budget: Budget | None = None,
    mode: Mode = "auto",
    limits: Limits | None = None,
) -> bool:
    """Whether a local answer is worth being judged before it is shown: only where the cloud may go on
    instead, and only where the question is not clearly easy, since the judging is waited for."""
    case = Case(asked, local, cloud, budget or Budget(), mode, limits or Limits())
    stays = asked.pinned or bool(asked.private) or mode != "auto"
    return not stays and asked.difficulty >= case.limits.easy and not _hindrance(case)


# -- the rules


def kept_here(case: Case) -> Choice | None:
    """A pinned conversation and private content stay, whatever the mode."""
    if case.asked.pinned:
        return _only_here(case, "This conversation is pinned to this machine.", "Unpin it to ask the cloud.")
    if case.asked.private:
        return _only_here(case, case.asked.private, "Remove it from the conversation to ask the cloud.")
    return None


def wanted_here(case: Case) -> Choice | None:
    if case.mode != "local":
        return None
    return _only_here(case, "The mode is local.", "Switch to auto or cloud.")


def wanted_there(case: Case) -> Choice | None:
    """Mode cloud: the cloud or nothing, but a reason."""
    if case.mode != "cloud":
        return None
    hindrance = _hindrance(case, by_choice=True)
    if hindrance:
        refusal = f"{hindrance} Switch to auto or local."
        return Choice("cloud", "The mode is cloud.", "The mode is cloud.", refusal)
    return Choice("cloud", "The mode is cloud.", "The mode is cloud.")


def does_not_fit_here(case: Case) -> Choice | None:
    """Too large for this machine, or its model cannot run: the cloud, or a refusal with both reasons."""
    trouble = _trouble(case.local, case)
    if not trouble:
        return None
    hindrance = _hindrance(case)
    if hindrance:
        next_step = "Shorten the conversation, or raise --ctx where memory allows."
        return Choice("local", trouble, hindrance, f"{trouble} {hindrance} {next_step}")
    return Choice("cloud", trouble, trouble)


def cloud_is_out(case: Case) -> Choice | None:
    """Absent, offline, resting, too small or too dear: this machine answers."""
    hindrance = _hindrance(case)
    return Choice("local", hindrance, hindrance) if hindrance else None


def too_slow_here(case: Case) -> Choice | None:
    """Beyond a time limit here, and not beyond it there as far as is known."""
    if case.cloud is None:
        return None
    slow = _over_time(case.local.estimate, case.limits)
    if not slow or _over_time(case.cloud.estimate, case.limits):
        return None
    return Choice("cloud", slow, slow)


def hard(case: Case) -> Choice | None:
    """Difficulty against the threshold of where the conversation is, and the cost against its worth."""
    if case.cloud is None:
        return None
    difficulty, stays = case.asked.difficulty, case.asked.last_route == "cloud"
    threshold = case.limits.easy if stays else case.limits.hard
    chance = f"The cloud's answer is better with a probability of {difficulty:.0%}"
    if difficulty < threshold:
        return None
    cost = case.cloud.estimate.cost_usd
    worth = difficulty * case.limits.better_answer_usd
    if cost is not None and cost > worth:
        reason = f"{chance}, which is worth {dollars(worth)} and would cost {dollars(cost)}."
        return Choice("local", reason, reason)
    if stays and difficulty < case.limits.hard:
        return Choice("cloud", f"The conversation is in the cloud. {chance}.", "It would change the model.")
    return Choice("cloud", f"Hard: {_small(chance)}.", f"From {threshold:.0%} on the cloud is asked.")


def easy(case: Case) -> Choice:
    difficulty = case.asked.difficulty
    reason = f"Easy enough: the cloud's answer is better with a probability of {difficulty:.0%} only."
    return Choice("local", reason, "It is not needed for this.")


RULES: tuple[Rule, ...] = (
    kept_here,
    wanted_here,
    wanted_there,
    does_not_fit_here,
    cloud_is_out,
    too_slow_here,
    hard,
    easy,
)


# -- what rules share


def _only_here(case: Case, reason: str, next_step: str) -> Choice:
    trouble = _trouble(case.local, case)
    return Choice("local", reason, reason, f"{trouble} {reason} {next_step}" if trouble else "")


def _trouble(side: Side, case: Case) -> str:
    """Why this side cannot answer: unavailable, or its window is too small; "" where it can."""
    if side.unavailable:
        return side.unavailable
    if side.prompt_tokens is None or side.window_tokens is None:
        return ""
    needed = side.prompt_tokens + case.asked.reserved_tokens + case.limits.margin_tokens
    if needed <= side.window_tokens:
        return ""
    where = "here" if side.estimate.route == "local" else "in the cloud"
    return (
        f"Too large {where}: {side.prompt_tokens:,} tokens, {case.asked.reserved_tokens:,} for the answer "
        f"and {case.limits.margin_tokens:,} to be safe exceed the window of {side.window_tokens:,}."
    )


def _hindrance(case: Case, by_choice: bool = False) -> str:
    """Why nothing may be sent to the cloud; "" where it may.

    Without a known price only a person's own ``by_choice`` sends, and only where no budget could be broken.
    """
    if case.cloud is None:
        return "No cloud is configured."
    if trouble := _trouble(case.cloud, case):
        return trouble
    worst = case.cloud.worst_cost_usd
    if worst is not None:
        return case.budget.objection(worst)
    if case.budget.unknown_price_allowed or (by_choice and not case.budget.is_limited):
        return ""
    return (
        f"The price of {case.cloud.estimate.model} is not known: set input_usd_per_mtok and "
        "output_usd_per_mtok in [cloud], or unpriced = true in [routing]."
    )


def _over_time(estimate: Estimate, limits: Limits) -> str:
    where = "here" if estimate.route == "local" else "in the cloud"
    for what, value, limit in (
        ("first word", estimate.ttft_s, limits.ttft_s),
        ("whole answer", estimate.total_s, limits.total_s),
    ):
        if value is not None and limit is not None and value > limit:
            return f"Too slow {where}: {value:.1f} s to the {what}, your limit is {limit:g} s."
    return ""


def _decision(case: Case, choice: Choice) -> Decision:
    here, there = case.local.estimate, case.cloud.estimate if case.cloud else None
    if choice.route == "local":
        taken, other = here, there
    else:
        taken, other = there or Estimate("cloud", ""), here
    return Decision(
        choice.route,
        taken.model,
        (choice.reason,),
        (Alternative(other, choice.why_not),) if other else (),
        case.asked.difficulty,
        taken,
        choice.refusal,
    )


def _small(sentence: str) -> str:
    return sentence[:1].lower() + sentence[1:]
