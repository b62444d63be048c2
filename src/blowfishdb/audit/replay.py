"""Replay: the real release of a question on neighbouring tables with the same noise, charged to a scratch ledger.

For every hidden change of the records three things are compared: how far the noised quantities moved, over the scales
that were really drawn, with what was charged; everything that became public, once the noisy outputs are forced to be
the same; and the charge with the certificate, the ledger's entry and the account.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from blowfishdb.audit.all_changes import Moved, moved_by_all, moved_by_stages
from blowfishdb.audit.cases import Case, Ready, certified_as, made_ready
from blowfishdb.audit.counts import placing_troubles, source_troubles
from blowfishdb.audit.neighbours import MOST_RECORDS, Change, Setting, changes, sample_records
from blowfishdb.audit.one_release import (
    Outcome,
    charge_troubles,
    counted_and_measured,
    public_troubles,
    released,
    repeat_troubles,
)
from blowfishdb.audit.scratch import READ, Scratch, scratch
from blowfishdb.audit.selection_loss import SLACK
from blowfishdb.audit.stages import Looked, Recorder, watched_stages
from blowfishdb.audit.tables import Pair, crowd, table_pair
from blowfishdb.audit.verdicts import Line, amount, clean, judged, not_tested, violation
from blowfishdb.engine.node_release import PreparedNodes
from blowfishdb.engine.program_request import PreparedProgram
from blowfishdb.engine.synopsis.request import PreparedSynopsis
from blowfishdb.errors import Declined, InvalidInput
from blowfishdb.model.policy import Person
from blowfishdb.sources.base import Counting


@dataclass(frozen=True)
class Effort:
    """How much a replay tries: real releases on so many changes, from so many different records."""

    releases: int
    records: int = MOST_RECORDS

    @classmethod
    def of(cls, *, quick: bool) -> Effort:
        return cls(3) if quick else cls(30, 2 * MOST_RECORDS)


def replay(case: Case, effort: Effort, seed: int) -> list[Line]:
    """The lines of one case."""
    random = np.random.default_rng([seed, len(case.name), *case.name.encode()])
    with scratch(case.domain, case.policy, case.accounting) as world, watched_stages() as recorder, certified_as(case):
        # Whoever looks at a count on the way from the source to the noise finds it sealed.
        world.source.seals = True
        try:
            ready = made_ready(case, world.holding, case.asked)
            price = ready.payable.epsilon
            read = READ in world.watch.events
        except (Declined, InvalidInput) as refusal:
            return [not_tested("replay", case.name, "release", f"refused: {refusal.message[:160]}")]
        found = _Replay(case, effort, world, recorder, ready, price, random).lines()
        early = [violation("replay", case.name, "charge", "rows were read before anything was charged")] if read else []
        return [*early, *found]


@dataclass
class _Replay:
    case: Case
    effort: Effort
    world: Scratch
    recorder: Recorder
    ready: Ready
    price: Fraction
    random: np.random.Generator

    def lines(self) -> list[Line]:
        setting = self.case.setting
        everyone = sample_records(setting, self.random, self.effort.records)
        listed = changes(setting, everyone)
        payable, price = self.ready.payable, self.price
        moved = moved_by_all(self.recorder, payable, listed, setting)
        found: list[Line] = []
        if moved is not None:
            found.append(self._all_changes(moved, price, complete=setting.is_complete(everyone)))
        chosen = self._chosen(listed, moved)
        if not chosen:
            return [*found, clean("replay", self.case.name, "release", "no record can change anything that is counted")]
        stages = payable.document().get("stages")
        if isinstance(stages, dict):
            self.recorder.allowed = {name: float(Fraction(spent)) for name, spent in stages.items()}
        moving, public, charging, counting = list[str](), list[str](), list[str](), list[str]()
        counting += placing_troubles(setting, payable, everyone)
        worst: Fraction | float = Fraction(0)
        runs: list[list[Looked]] = []
        base = [everyone[int(i)] for i in self.random.integers(len(everyone), size=self.case.rows)]
        for number, change in enumerate(chosen):
            others = crowd(setting, base, change, number, len(self.case.name))
            pair = table_pair(setting, others, change, self.random)
            if number == 0:
                first, second = self._both_charged(pair)
                charging += [*charge_troubles(self.ready, self.case, first), *first.troubles]
            else:
                first, second = self._both_counted(pair, self._statement())
            public += public_troubles(first, second)
            runs.append(first.looked)
            if number < 3:
                counting += source_troubles(self.world, setting, payable, self._statement(), pair)
            loss: Fraction | float = Fraction(0)
            for step in self.recorder.replayed:
                public += step.troubles
                loss = loss + step.loss
            if len(self.recorder.replayed) != len(first.accesses):
                public.append("neighbours make different numbers of accesses to the data")
            worst = max(worst, loss)
            if loss > float(price) + SLACK if isinstance(loss, float) else loss > price:
                moving.append(f"loss {amount(loss)} on {_said(change)}, charged {amount(price)}")
        name, tried = self.case.name, len(chosen)
        return [
            *found,
            *self._every_stage(runs, listed, setting),
            judged("replay", name, "movement", moving, f"loss {amount(worst)} of {amount(price)} charged", tried),
            judged("replay", name, "public outputs", public, "the same once noisy outputs are", tried),
            judged("replay", name, "charge", charging, f"{amount(price)}: certificate, entry, account agree", tried),
            judged("replay", name, "counting", counting, "rows count where the definitions say", min(tried, 3)),
        ]

    def _statement(self) -> Counting:
        """The statement that the last release ran; weights on nodes have one of their own kind."""
        payable, last = self.ready.payable, self.world.source.last
        return payable.counting(self.world.holding) if last is None or isinstance(payable, PreparedNodes) else last

    def _both_charged(self, pair: Pair) -> tuple[Outcome, Outcome]:
        """The whole release on a table, then on its neighbour with outputs forced equal."""
        self.recorder.record()
        self.world.fill(pair.before)
        first = released(self.world, self.ready, "before")
        first.accesses, first.looked = list(self.recorder.accesses), list(self.recorder.looked)
        first.troubles = repeat_troubles(self.world, self.ready, "before", first)
        self.recorder.repeat(first.accesses)
        self.world.fill(pair.after)
        return first, released(self.world, self.ready, "after")

    def _both_counted(self, pair: Pair, counting: Counting) -> tuple[Outcome, Outcome]:
        """The same without a charge, which needs no second look for every change."""
        self.recorder.record()
        self.world.fill(pair.before)
        first = counted_and_measured(self.world, self.ready.payable, counting)
        first.accesses, first.looked = list(self.recorder.accesses), list(self.recorder.looked)
        self.recorder.repeat(first.accesses)
        self.world.fill(pair.after)
        return first, counted_and_measured(self.world, self.ready.payable, counting)

    def _all_changes(self, moved: Moved, price: Fraction, *, complete: bool) -> Line:
        worst = max(moved.losses, default=Fraction(0))
        name, tried, check = self.case.name, len(moved.losses), "every edge"
        if worst > price:
            change = moved.changes[moved.losses.index(worst)]
            return violation(
                "replay", name, check, f"loss {amount(worst)} on {_said(change)}, charged {amount(price)}", tried
            )
        if moved.certified != price:
            said = f"certified again the plan costs {amount(moved.certified)}, charged {amount(price)}"
            return violation("replay", name, check, said, tried)
        if moved.claims_tight and complete and worst != price:
            said = f"certified as tight at {amount(price)}, but no change loses more than {amount(worst)}"
            return violation("replay", name, check, said, tried)
        exact = ", attained" if worst == price else ""
        return clean("replay", name, check, f"loss {amount(worst)} of {amount(price)} charged{exact}", tried)

    def _every_stage(self, runs: list[list[Looked]], listed: list[Change], setting: Setting) -> list[Line]:
        """What all changes lose in the rows of every stage, and what selections may cost beside, for each run."""
        inner = self.ready.payable.inner if isinstance(self.ready.payable, PreparedSynopsis) else self.ready.payable
        if not isinstance(inner, PreparedProgram):
            return []
        allowed = {each.stage: each.epsilon for each in inner.program.allowances}
        worst, troubles = Fraction(0), list[str]()
        for looked in runs:
            chosen = sum((allowed[stage.name] for stage in looked if stage.plan is None), Fraction(0))
            losses = moved_by_stages(
                self.recorder, looked, inner.compiled.cells, listed, setting.policy.rows_per_person
            )
            most = max(losses, default=Fraction(0))
            worst = max(worst, most + chosen)
            if most + chosen > self.price:
                said = _said(listed[losses.index(most)])
                troubles.append(f"loss {amount(most)} and {amount(chosen)} for selections on {said}")
        said = f"loss {amount(worst)} of {amount(self.price)} charged"
        return [judged("replay", self.case.name, "every edge", troubles, said, len(runs) * len(listed))]

    def _chosen(self, listed: list[Change], moved: Moved | None) -> list[Change]:
        """The dearest changes, and others at random."""
        most = self.effort.releases
        if isinstance(self.case.policy.unit, Person):
            listed = [change for change in listed if len(change.before) == 1]
        fits = [c for c in listed if len(c.before) <= max(1, self.case.rows)]
        if len(fits) <= most:
            return fits
        order = [int(i) for i in self.random.permutation(len(fits))]
        # Changes to absence stand last; where no loss is known beforehand, one of them is tried in any case.
        dear = [len(fits) - 1]
        if moved is not None:
            dear = sorted(range(len(fits)), key=lambda i: -moved.losses[i])[: max(1, most // 2)]
        order = [*dear, *(i for i in order if i not in dear)]
        return [fits[i] for i in order[:most]]


def _said(change: Change) -> str:
    """A change in words."""
    sides = [
        " + ".join("absence" if record is None else str(tuple(record.values())) for record in side)
        for side in (change.before, change.after)
    ]
    return f"{sides[0]} -> {sides[1]}"
