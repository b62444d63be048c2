"""The planted faults: each makes answers, charges or histories unsound in one place, and names tests that find it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

PACKAGE = Path("src/blowfishdb")


class StaleFault(Exception):
    """A fault whose text is no longer in its file exactly once."""


@dataclass(frozen=True)
class Fault:
    """One text of one file of the package, and what is put in its place; `tests` are tried before all others."""

    kind: str
    name: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]

    @property
    def path(self) -> Path:
        """The file, in a working copy."""
        return PACKAGE / self.file

    def planted(self, text: str) -> str:
        """The text of the file with the fault; StaleFault where it does not fit."""
        if text.count(self.old) != 1 or self.old == self.new:
            raise StaleFault(f"{self.kind}, {self.name}: {self.file} holds {self.old!r} {text.count(self.old)} times")
        return text.replace(self.old, self.new)


def faults() -> Iterator[Fault]:
    """All faults, kind by kind."""
    yield from certificates()
    yield from noise()
    yield from charging()
    yield from sharing()
    yield from selections()
    yield from changes_and_risk()
    yield from around_the_noise()
    yield from policies_and_persons()
    yield from books_of_several()


def certificates() -> Iterator[Fault]:
    """Losses that are too small: an edge, a row of a person, a constraint or a class of edges is forgotten."""
    loss, certificate, constraints = "plan/loss.py", "plan/certificate.py", "model/constraint_graph.py"
    edges = ("tests/plan/test_certificate.py", "tests/plan")
    known = ("tests/constraints/test_what_moves.py", "tests/constraints")

    def fault(name: str, file: str, old: str, new: str, *tests: str) -> Fault:
        return Fault("certificate", name, file, old, new, tests)

    yield fault(
        "the last edge of every window",
        loss,
        "last = graph.size if is_universal[cell] else int(graph.reach[cell]) + 1",
        "last = graph.size if is_universal[cell] else int(graph.reach[cell])",
        *edges,
    )
    yield fault(
        "NULL as a neighbour",
        loss,
        "graph.universal[graph.universal >= max(last, cell + 1)]",
        "graph.universal[:0]",
        *edges,
    )
    yield fault(
        "leaving what is counted",
        certificate,
        "leaving = worst_to_zero(norms, np.flatnonzero(graph.to_zero))",
        "leaving = worst_to_zero(norms, np.flatnonzero(graph.to_zero)[:0])",
        *edges,
    )
    yield fault(
        "all rows of a person but one",
        certificate,
        "return replace(single, loss=single.loss * graph.rows_per_person)",
        "return replace(single, loss=single.loss * max(1, graph.rows_per_person - 1))",
        *edges,
    )
    yield fault(
        "records that constraints move together",
        certificate,
        "taken = min(left, times[group])",
        "taken = min(left, times[group], 1)",
        *known,
    )
    yield fault(
        "a marginal is untouched though NULL is hidden",
        constraints,
        "if policy.joint_of(name) is not None or attribute.has_hidden_cell:",
        "if policy.joint_of(name) is not None:",
        *known,
    )
    yield fault(
        "absence is no vertex under constraints",
        constraints,
        "return int(sum(atoms.times.tolist())) - alone",
        "return int(sum(atoms.times.tolist())) - alone - (atoms.absent is not None)",
        *known,
    )
    yield fault(
        "quantiles that records enter",
        "plan/program.py",
        "enters = 2 * (1 - min(self.shares)) / self.unit",
        "enters = (1 - min(self.shares)) / self.unit",
        "tests/plan/test_quantiles.py",
    )
    yield fault(
        "weights on points of one row of a person",
        "plan/points.py",
        "    loss = point_loss(plan, graph) * graph.rows_per_person\n    if plan.unit is None",
        "    loss = point_loss(plan, graph)\n    if plan.unit is None",
        "tests/plan/test_point_loss.py",
        "tests/engine/test_points.py",
    )
    yield fault(
        "classes of edges of moves to absence",
        "engine/charge.py",
        'losses = {} if policy.presence == "public" else {PRESENCE: loss(replace(policy, presence="only"))}',
        "losses: dict[str, Fraction] = {}",
        "tests/engine/test_edge_accounting.py",
    )


def noise() -> Iterator[Fault]:
    """Noise of another scale, one-sided, cut off, used twice, or left out."""
    measure, drawn = "engine/measure.py", "tests/engine/test_certified_noise.py"

    def fault(name: str, file: str, old: str, new: str, *tests: str) -> Fault:
        return Fault("noise", name, file, old, new, (drawn, *tests))

    yield fault(
        "one-sided noise of a list above a count",
        measure,
        "    return plan.choose(checked_counts(counts, graph.cells), _drawn(plan.noise, charged.epsilon))",
        "    noise = sample_geometric(plan.unit, 1, plan.noise[0].size)\n"
        "    return plan.choose(checked_counts(counts, graph.cells), noise)",
        "tests/engine/test_group_selection.py",
    )
    yield fault(
        "a list above a count is certified for one-sided noise",
        "plan/program.py",
        'return (Noise("laplace", self.unit, 1, self.groups),)',
        'return (Noise("geometric", self.unit, 1, self.groups),)',
        "tests/plan/test_group_selection.py",
    )
    yield fault(
        "quantiles at nine tenths of their scale",
        measure,
        "plan.gaps(records.total + more), plan.unit) // POSITIONS",
        "plan.gaps(records.total + more), plan.unit * Fraction(9, 10)) // POSITIONS",
        "tests/engine/test_quantiles.py",
    )
    yield fault(
        "quantiles of the true number of records",
        measure,
        "plan.gaps(records.total + more), plan.unit)",
        "plan.gaps(records.total), plan.unit)",
        "tests/engine/test_forced_noise.py",
    )
    yield fault(
        "the same noise for all rows",
        measure,
        "    return draw(noise.unit, noise.weights, noise.size)",
        "    return np.full(noise.size, draw(noise.unit, noise.weights, noise.size)[:1].sum())",
        "tests/engine/test_forced_noise.py",
    )
    yield fault(
        "half of the noise",
        measure,
        "return Measured(rows + noise, exact)",
        "return Measured(rows + noise // 2, exact)",
        "tests/engine/test_forced_noise.py",
    )
    yield fault(
        "noise that is cut off",
        measure,
        "    return draw(noise.unit, noise.weights, noise.size)",
        "    most = int(3 * noise.unit) + 1\n"
        "    return np.clip(draw(noise.unit, noise.weights, noise.size), -most, most)",
        "tests/engine/test_forced_noise.py",
    )
    yield fault(
        "weights on points a tenth short",
        measure,
        "sums + _drawn(plan.noise, charged.epsilon), blocks",
        "sums + sample(plan.unit * Fraction(9, 10), 1, plan.grid_points), blocks",
        "tests/engine/test_points.py",
    )
    yield fault(
        "digits of another scale",
        "noise/sampler.py",
        "probability = power / (1.0 + power)",
        "probability = power**1.05 / (1.0 + power**1.05)",
        "tests/noise",
    )
    yield fault(
        "a number stays at the next level too often",
        "noise/coupling.py",
        "return of.decay(step.fall) * share * share",
        "return of.decay(step.fall) * share",
        "tests/noise/test_coupling.py",
    )
    yield fault(
        "a proposal of quantiles is accepted too easily",
        "noise/quantile_sampler.py",
        "exponent = penalty(proposal.records, positions, proposal.wanted) / proposal.unit + proposal.log_bound",
        "exponent = penalty(proposal.records, positions, proposal.wanted) / proposal.unit / 2 + proposal.log_bound",
        "tests/noise/test_quantile_sampler.py",
    )


def charging() -> Iterator[Fault]:
    """Charges beyond a limit, too small, too late, or paid by nobody."""
    charges, limits = "ledger/charges.py", "tests/engine/test_limits.py"

    def fault(name: str, file: str, old: str, new: str, *tests: str) -> Fault:
        return Fault("charging", name, file, old, new, tests)

    yield fault(
        "the analyst's limit where the data pays nothing",
        charges,
        "is_analyst_over = charge.received > 0 and analyst.limit",
        "is_analyst_over = charge.epsilon > 0 and analyst.limit",
        limits,
        "tests/ledger",
    )
    yield fault(
        "the analyst's limit where the data pays nothing, when verified",
        "ledger/state.py",
        "if is_over or (is_analyst_over and received > 0):",
        "if is_over or (is_analyst_over and epsilon > 0):",
        limits,
        "tests/ledger",
    )
    yield fault(
        "the limit of the data, while the analyst has room",
        charges,
        "if as_asked.value > account.limit or is_analyst_over:",
        "if (as_asked.value > account.limit and analyst.limit is None) or is_analyst_over:",
        limits,
        "tests/ledger",
    )
    yield fault(
        "amounts rounded down",
        "ledger/amounts.py",
        "        grid = math.lcm(self.grid, amount.denominator)\n",
        "        amount = Fraction(int(1000 * amount), 1000)\n        grid = math.lcm(self.grid, amount.denominator)\n",
        "tests/ledger/test_amounts.py",
        "tests/ledger",
    )
    yield fault(
        "rows are counted before the charge",
        "engine/charge.py",
        "            counting = _prepared_count(handle, release)\n",
        "            counting = _prepared_count(handle, release)\n            counting.run(None)\n",
        limits,
        "tests/engine/test_charge.py",
    )
    yield fault(
        "a price that the token did not hear",
        "engine/charge.py",
        "self.run.before_charge(price - self.price, charges)",
        "self.run.before_charge((price - self.price) / 2, charges)",
        limits,
        "tests/engine/test_charge.py",
    )
    yield fault(
        "the answer of another analyst is replayed",
        charges,
        "condition, values = f\"{condition} AND analyst || '' = ?\", (*values, analyst)",
        "pass",
        limits,
        "tests/ledger/test_answers.py",
        "tests/session/test_sharing.py",
    )
    yield fault(
        "a failed draw is drawn again",
        "engine/charge.py",
        'return FAILED + json.dumps(incident).encode() + b"}", broken',
        "raise ReleaseFailed(incident, self.receipt.charge.received, self.receipt.charge.key, can_retry=True)",
        "tests/engine/test_certified_noise.py",
        "tests/engine/test_charge.py",
    )


def sharing() -> Iterator[Fault]:
    """Differences, chains and combinations that pay for less than they tell."""
    sharing_tests = (
        "tests/ledger/test_chains.py",
        "tests/session/test_sharing.py",
        "tests/session/test_sharing_faults.py",
    )

    def fault(name: str, file: str, old: str, new: str, *tests: str) -> Fault:
        return Fault("sharing", name, file, old, new, (*tests, *sharing_tests))

    yield fault(
        "an analyst pays only what the data owes",
        "ledger/values.py",
        "paid = [past.link for past in chain if analyst in (None, past.analyst)]",
        "paid = [past.link for past in chain]",
        "tests/engine/test_limits.py",
    )
    yield fault(
        "a part of a level after its chain has ended",
        "engine/sharing.py",
        "if is_unpaid or is_barred or",
        "if is_barred or",
    )
    yield fault(
        "rows that changed are built on",
        "engine/sharing.py",
        "if coarser is not None and {before, after} != {sharing.mark}:",
        "if coarser is not None and sharing.mark == UNPROVEN:",
    )
    yield fault(
        "the finest level of others, whatever was paid",
        "engine/measure.py",
        "    if finer is not None and finer.unit == plan.unit:",
        "    if finer is not None:",
        "tests/engine/test_certified_noise.py",
    )
    yield fault(
        "chains of one analyst alone are found by all",
        "engine/sharing.py",
        "whose = plain(analyst if handle.sharing == OWN else None), plain(handle.versions())",
        "whose = plain(None), plain(handle.versions())",
        "tests/engine/test_rows_digest.py",
    )
    yield Fault(
        "sharing",
        "own answers that vary more than the fresh ones of a price",
        "accuracy/closeness.py",
        "    return bool(np.all(is_within | _vary_less(most, least, rates)))",
        "    return True",
        ("tests/session/test_owned_for_a_price.py",),
    )
    yield Fault(
        "intervals",
        "values lie nearer to the middle of their bin than they may",
        "model/cells.py",
        "    return low + high, high - low, Fraction(1, 2 * attribute.denominator)",
        "    return low + high, (high - low) // 2, Fraction(1, 2 * attribute.denominator)",
        ("tests/session/test_true_values.py",),
    )


def selections() -> Iterator[Fault]:
    """Sensitivities and shares of budgets that are too small."""
    program = "plan/program.py"

    def fault(name: str, file: str, old: str, new: str, *tests: str) -> Fault:
        return Fault("selection", name, file, old, new, tests)

    yield fault(
        "an item's own sensitivity",
        program,
        "int(weight) * (largest + int(sensitivity))",
        "int(weight) * largest",
        "tests/plan/test_stages.py",
        "tests/mechanisms/test_dawa.py",
        "tests/mechanisms",
    )
    yield fault(
        "a record that moves changes two items",
        program,
        "        touched = 2 if graph.has_value_edges else 1\n        return Fraction(worst * touched",
        "        touched = 1\n        return Fraction(worst * touched",
        "tests/plan/test_stages.py",
        "tests/mechanisms/test_dawa.py",
        "tests/mechanisms",
    )
    yield fault(
        "rounds of the largest groups but the last",
        program,
        "return Fraction(changes * (self.most or 1) * graph.rows_per_person) / self.unit",
        "return Fraction(changes * max(1, (self.most or 1) - 1) * graph.rows_per_person) / self.unit",
        "tests/plan/test_group_selection.py",
    )
    yield fault(
        "the first stage is not part of the budget",
        "mechanisms/data_aware/gated.py",
        "rest = _inner(problem).program(problem, epsilon * (1 - self.share)).allowances",
        "rest = _inner(problem).program(problem, epsilon).allowances",
        "tests/mechanisms/test_gated.py",
    )
    yield fault(
        "stages beyond their allowance",
        program,
        "        if needed > allowed:\n",
        "        if needed > 2 * allowed:\n",
        "tests/engine/test_run_program.py",
        "tests/plan/test_stages.py",
    )
    yield fault(
        "levels of a refinement below the first",
        program,
        "gaps = [level * self.spacing - self.clip for level in range(1, self.levels.size)]",
        "gaps = [level * self.spacing - self.clip for level in range(2, self.levels.size)]",
        "tests/plan/test_refinement.py",
    )


def changes_and_risk() -> Iterator[Fault]:
    """Past loss that is not carried over, and risk that is said to be less than it is."""

    def fault(kind: str, name: str, file: str, old: str, new: str, *tests: str) -> Fault:
        return Fault(kind, name, file, old, new, tests)

    change, catalog = "catalog/policy_change.py", "tests/catalog/test_policy_change.py"
    yield fault(
        "policy change",
        "attributes that move at once took their steps one after the other",
        change,
        'return int(max(costs, default=0) if old.composition == "record" else sum(costs))',
        "return int(max(costs, default=0))",
        catalog,
    )
    yield fault(
        "policy change",
        "the steps of attributes that a joint threshold tied",
        change,
        "    return one_by_one if together is None else min(one_by_one, together)",
        "    return one_by_one if together is None else min(one_by_one, max(1, together - 1))",
        catalog,
    )
    yield fault(
        "policy change",
        "a large grid is walked along one axis",
        "model/distance.py",
        "else len(axes) * reach",
        "else reach",
        "tests/model/test_joint_stretch.py",
        catalog,
    )
    yield fault(
        "policy change",
        "rows that make way for others of the same person",
        change,
        "return max(Fraction(old.unit.at_most + 1, old.unit.at_most), Fraction(2))",
        "return Fraction(1)",
        catalog,
    )
    yield fault(
        "risk",
        "steps between two values count once",
        "analysis/risk.py",
        "float(self.epsilon) * self.steps * self.records",
        "float(self.epsilon) * min(self.steps, 1) * self.records",
        "tests/analysis/test_risk.py",
    )
    yield fault(
        "risk",
        "records of one person that change together",
        "analysis/risk.py",
        "float(self.epsilon) * self.steps * self.records",
        "float(self.epsilon) * self.steps",
        "tests/analysis/test_risk.py",
    )


def around_the_noise() -> Iterator[Fault]:
    """Raw counts after the noise, caches that take one thing for another, and what others did."""

    def fault(kind: str, name: str, file: str, old: str, new: str, *tests: str) -> Fault:
        return Fault(kind, name, file, old, new, tests)

    secret = "counts_people(compiled.query) or np.any(compiled.problem.graph.components() == ZERO)"
    yield fault(
        "raw counts",
        "the total of records that may leave",
        "engine/release.py",
        secret,
        "counts_people(compiled.query)",
        "tests/engine/test_charge.py",
        "tests/engine",
    )
    yield fault(
        "raw counts",
        "the total of persons over groups",
        "engine/release.py",
        secret,
        "np.any(compiled.problem.graph.components() == ZERO)",
        "tests/engine/test_people.py",
        "tests/engine",
    )
    yield fault(
        "raw counts",
        "noise on the order of groups alone",
        "plan/program.py",
        "best = int(place[np.argmax((counts + draws)[place])])",
        "best = int(place[np.argmax((counts + draws // 4)[place])])",
        "tests/plan/test_group_selection.py",
    )
    yield fault(
        "caches",
        "plans of one shape share a certificate",
        "plan/certificate.py",
        "        digest = plan.digest()\n        certified = self._recent.get(digest)",
        "        digest = str(plan.cells)\n        certified = self._recent.get(digest)",
        "tests/engine/test_measure.py",
        "tests/engine/test_charge.py",
        "tests/session",
    )
    yield fault(
        "caches",
        "digit tables of one size are shared",
        "noise/sampler.py",
        "    return _known_table(unit, weights.tobytes())",
        "    return _known_table(unit.limit_denominator(2), weights.tobytes())",
        "tests/engine/test_certified_noise.py",
        "tests/noise",
    )
    yield fault(
        "history",
        "entries that others paid for",
        "session/local.py",
        "earlier = [] if is_new else [number for number in alike if number < receipt.sequence]",
        'earlier = list(certificate.get("rests_on", ()))',
        "tests/session/test_history.py",
        "tests/session",
    )
    yield fault(
        "history",
        "charges of others",
        "ledger/charges.py",
        'condition = f"account = ? AND analyst = ? AND {CHARGED}"',
        "condition = f\"account = ? AND ? <> '' AND {CHARGED}\"",
        "tests/session/test_history.py",
        "tests/session",
    )
    yield fault(
        "history",
        "the first of a family, whoever asked it",
        "session/local.py",
        "if past_link.analyst == analyst and past_link.link.chain in chains:",
        "if past_link.link.chain in chains:",
        "tests/session/test_history.py",
        "tests/session",
    )


def policies_and_persons() -> Iterator[Fault]:
    """Families of policies that hide too little, rows taken for persons, and plans that another policy made."""

    def fault(kind: str, name: str, file: str, old: str, new: str, *tests: str) -> Fault:
        return Fault(kind, name, file, old, new, tests)

    policy, graphs = "model/policy.py", "model/graphs.py"
    yield fault(
        "policy family",
        "bins as far apart as their left edges",
        policy,
        "return StepWindow(attribute.size, 1 + theta // attribute.width)",
        "return StepWindow(attribute.size, max(1, theta // attribute.width))",
        "tests/model/test_policy.py",
        "tests/model",
    )
    yield fault(
        "policy family",
        "periods of a clock one step too short",
        policy,
        "    step = 1 + within // unit\n",
        "    step = max(1, within // unit)\n",
        "tests/model/test_clock.py",
        "tests/model",
    )
    yield fault(
        "policy family",
        "pairs at just the joint threshold",
        graphs,
        "            near = total <= limit\n",
        "            near = total < max(1, limit)\n",
        "tests/model/test_graphs.py",
        "tests/model",
    )
    yield fault(
        "policy family",
        "values at just the declared distance",
        policy,
        "            if apart <= radius:\n",
        "            if apart < radius:\n",
        "tests/catalog/test_dataset.py",
        "tests/catalog",
    )
    yield fault(
        "persons",
        "the rows of persons where persons are counted",
        "engine/release.py",
        "if table is not None and table.counts_people and isinstance(unit, Person):",
        "if table is not None and table.counts_people and isinstance(unit, Person) and unit.at_most < 2:",
        "tests/engine/test_people.py",
    )
    yield fault(
        "persons",
        "one row more of each person than declared",
        "sources/statement.py",
        'ranked.filter((ranked["rank"] <= unit.at_most)',
        'ranked.filter((ranked["rank"] <= unit.at_most + 1)',
        "tests/sources/test_conformance.py",
        "tests/sources",
    )
    yield fault(
        "caches",
        "a plan of the same question under another policy",
        "engine/compile.py",
        "if known is domain and hidden is policy and text == shown",
        "if known is domain and text == shown",
        "tests/session/test_quote_cache.py",
        "tests/session",
        "tests/engine",
    )
    yield fault(
        "caches",
        "an answer from before the policy changed",
        "ledger/charges.py",
        "                if _versions(receipt.charge) == _versions(known):\n",
        "                if _versions(receipt.charge)[1:] == _versions(known)[1:]:\n",
        "tests/ledger/test_answers.py",
        "tests/ledger",
        "tests/session",
    )
    yield fault(
        "plan by data",
        "a secret number of records, for the choice of a mechanism",
        "session/local.py",
        "        if release.epsilon:\n            return None\n",
        "        if release.epsilon > 1:\n            return None\n",
        "tests/session/test_table.py",
        "tests/engine/test_automatic.py",
        "tests/session",
    )
    yield fault(
        "message",
        "the words of a failure after the noise",
        "engine/charge.py",
        '            incident = new_incident(error, f"a release of {handle.name}")\n            broken =',
        "            incident = str(error)\n            broken =",
        "tests/engine/test_charge.py",
        "tests/engine",
    )


def books_of_several() -> Iterator[Fault]:
    """Keys, answers and noise of others, past loss that is forgotten, and a verification that looks away."""

    def fault(kind: str, name: str, file: str, old: str, new: str, *tests: str) -> Fault:
        return Fault(kind, name, file, old, new, tests)

    charges = "ledger/charges.py"
    yield fault(
        "charging",
        "a key that somebody else has used",
        charges,
        'cursor.entries("account = ? AND analyst = ? AND charge_key = ?", account, analyst, key)',
        "cursor.entries(\"account = ? AND ? <> '' AND charge_key = ?\", account, analyst, key)",
        "tests/ledger/test_charges.py",
        "tests/ledger",
    )
    yield fault(
        "charging",
        "the analyst's limit on PostgreSQL",
        "ledger/postgres.py",
        "AND (top = 0 OR a.limit_top IS NULL OR",
        "AND (top <> 0 OR a.limit_top IS NULL OR",
        "tests/ledger/test_postgres_store.py",
        "tests/ledger",
    )
    yield fault(
        "sharing",
        "a digest of rows is remembered without its analyst",
        "engine/sharing.py",
        "    whose = plain(analyst if handle.sharing == OWN else None), plain(handle.versions())\n",
        "    whose = plain(analyst if handle.sharing == OWN else None), plain(handle.versions())\n"
        "    whose = next((known for known in compiled.row_digests if known[1] == whose[1]), whose)\n",
        "tests/engine/test_rows_digest.py",
    )
    yield fault(
        "sharing",
        "the finest of the finer levels in place of the next",
        "engine/release.py",
        "return min((past for past in self.published if past.link.parts >= self.link.parts)",
        "return max((past for past in self.published if past.link.parts >= self.link.parts)",
        "tests/session/test_sharing.py",
        "tests/session/test_sharing_faults.py",
    )
    yield fault(
        "sharing",
        "a supplement from the chain that it supplements",
        "engine/sharing.py",
        "without = offers.mine - continued if supplement.beside else ()",
        "without = ()",
        "tests/engine/test_combination.py",
        "tests/session/test_sharing.py",
    )
    yield fault(
        "policy change",
        "losses of analysts and of classes of edges",
        "ledger/ledger.py",
        "cursor.save_losses(losses.times(stretch), account, analyst)",
        "cursor.save_losses(losses, account, analyst)",
        "tests/ledger/test_class_losses.py",
        "tests/ledger",
    )
    yield fault(
        "history",
        "an answer of somebody else is opened by its number",
        "session/local.py",
        "lambda charge: charge.analyst == analyst",
        "lambda charge: charge.analyst != ''",
        "tests/session/test_history.py",
        "tests/session/test_own_book.py",
        "tests/session",
    )
    yield fault(
        "history",
        "dashboards of whoever has the link",
        "server/dashboards.py",
        'return (self.access != "private" and identity.may("ask"))',
        'return identity.may("ask")',
        "tests/server/test_dashboards.py",
    )
    yield fault(
        "verification",
        "charges under versions that are not in force",
        "ledger/state.py",
        "    if versions != account.in_force:\n",
        "    if versions[2] != account.in_force[2]:\n",
        "tests/ledger/test_verification.py",
        "tests/ledger",
    )
    yield fault(
        "verification",
        "past loss of a new policy beyond the limit",
        "ledger/state.py",
        '    if account.losses.is_over(account.limit):\n        raise RuleBroken("past loss',
        '    if account.losses.is_over(None):\n        raise RuleBroken("past loss',
        "tests/ledger/test_verification.py",
        "tests/ledger",
    )
    yield fault(
        "verification",
        "what two branches both went on from",
        "ledger/histories.py",
        "_lost_by(state, account) + 2 * shared.get(account, Fraction(0))",
        "_lost_by(state, account) + shared.get(account, Fraction(0))",
        "tests/ledger/test_histories.py",
    )
