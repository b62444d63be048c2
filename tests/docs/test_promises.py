"""Sentences that promise without exception name the tests that would fail if they were false, or why none can.

The pages below are read by whoever decides. Each of their sentences with *never*, *every*, *only* and the like must be
in the table, so that a new one is not written without somebody asking what holds it.
"""

from __future__ import annotations

import re

import pytest

from tests.docs.blocks import ROOT
from tests.ground.test_docs import missing

ABSOLUTE = re.compile(r"\b(never|nobody|none|always|cannot|nothing|no|every|each|all|only)\b", re.IGNORECASE)
DEFINITION = "what a word means, or what is asked for"
NOT_OURS = "about people, or about what is outside the project"
LIMIT = "says what does not hold"

HELD: dict[str, dict[str, tuple[str, ...] | str]] = {
    "README.md": {
        "Differential privacy hides every value of a record": DEFINITION,
        "Often less is needed: an age must only be hidden": DEFINITION,
        "Each release is a plan of integer measurements and private selections": (
            "tests/engine/test_charge.py::test_no_noise_is_drawn_for_a_plan_that_was_not_charged",
            "tests/plan/test_certificate.py::test_equals_brute_force_over_all_neighbouring_tables",
        ),
        "A release that cannot be proven is refused": (
            "tests/plan/test_edge_noise.py::test_a_missing_edge_is_refused",
            "tests/plan/test_certificate.py::test_overflow_is_refused_not_wrapped",
        ),
        "Exact arithmetic decides every draw, and rounding none": (
            "tests/noise/test_sampler_exact.py::test_draws_equal_a_plain_reference_on_the_same_bits",
            "tests/noise/test_sampler_exact.py::test_a_tie_is_settled_by_the_rest_of_the_expansion",
        ),
        "what an engine cannot group exactly or fast": LIMIT,
        "Each is one release, with one charge and an interval for every number": (
            "tests/engine/test_joint_release.py::test_columns_of_one_table_are_measured_once",
            "tests/statements/test_statements.py::test_intervals_and_expected_errors_hold_over_many_draws",
        ),
        "to sharpen an earlier answer costs only the difference": (
            "tests/session/test_sharing.py::test_levels_are_drawn_given_their_neighbours",
            "tests/session/test_sharing.py::test_what_was_released_answers_what_it_can",
        ),
        "[k-means](docs/kmeans.md) under every policy": ("tests/analysis/test_kmeans.py::test_every_policy_is_served",),
        "runs them again, each with a verdict": (
            "tests/cli/test_reproduce.py::test_a_run_prints_verdicts_and_writes_a_page",
        ),
        "each proposes a plan, none touches data": (
            "tests/ground/test_import_contracts.py::test_the_project_keeps_its_contracts",
        ),
        "the only package that brings data and noise together": (
            "tests/ground/test_import_contracts.py::test_the_project_keeps_its_contracts",
        ),
        "the audit of every mechanism and policy family": ("tests/audit/test_planted_faults.py::test_replay_catches",),
        "every mechanism that exists only for comparison": (
            "tests/packaging/test_packages.py::test_the_wheel_is_whole",
        ),
        "`--help` lists all of them": ("tests/ground/test_benchmarks.py::test_names_and_descriptions_are_listed",),
        "Imports run downward only": ("tests/ground/test_import_contracts.py::test_the_project_keeps_its_contracts",),
        "Nobody outside the project has reviewed it": NOT_OURS,
    },
    "docs/index.md": {
        "It refuses any release whose privacy it cannot prove": (
            "tests/plan/test_edge_noise.py::test_a_missing_edge_is_refused",
        ),
        "each answer states [what is not protected]": (
            "tests/present/test_words.py::test_the_note_says_what_a_reader_must_know",
        ),
        "what they cannot promise": LIMIT,
        "and the tests of each claim": ("tests/ground/test_docs.py::test_every_claim_names_a_test",),
        "which breaks of processes, servers, disks and ledgers lose nothing": (
            "tests/docs/test_claims.py::test_every_row_of_results_of_the_faults_lost_nothing",
        ),
        "each with its counterexample as a test": (
            "tests/errata/test_composition.py::test_k_rows_per_person_multiply_the_loss",
        ),
        "Proof notes, one page each": (
            "tests/docs/test_nothing_is_missing.py::test_every_mechanism_is_described_and_proven",
        ),
    },
    "docs/security-whitepaper.md": {
        "Each section says what holds": DEFINITION,
        "names the tests of every claim": ("tests/ground/test_docs.py::test_every_claim_names_a_test",),
        "whether single rows or all rows of a person are protected": DEFINITION,
        "No row is given to an analyst": (
            "tests/browser/test_analyst.py::test_no_true_count_or_row_in_any_traffic",
            "tests/session/test_manners.py::test_no_attribute_leads_to_the_data",
        ),
        "The promise, for every pair of values u and v": (
            "tests/plan/test_certificate.py::test_equals_brute_force_over_all_neighbouring_tables",
            "tests/plan/test_from_records.py::test_every_mechanism_costs_what_tables_of_records_can_show",
        ),
        "It is proven for each mechanism": (
            "tests/docs/test_nothing_is_missing.py::test_every_mechanism_is_described_and_proven",
            "tests/audit/test_planted_faults.py::test_replay_catches",
        ),
        "a login that may only read is enough": (
            "tests/sources/test_failures.py::test_what_an_account_of_postgres_may_not_select_is_not_there",
        ),
        "no core files (`deploy/blowfish.service`)": (
            "tests/server/test_deployment.py::test_systemd_understands_the_units",
        ),
        "no secret is stored in the clear": ("tests/server/test_accounts.py::test_no_secret_is_stored",),
        "no rows, no mark, no secrets of the environment": (
            "tests/ledger/test_backup.py::test_a_copy_moves_books_and_users_to_another_kind_of_store_and_back",
        ),
        "a SHA-256 of each part": ("tests/ledger/test_backup.py::test_a_copy_that_was_changed_is_not_put_back",),
        "Nothing is sent anywhere but to the addresses": (
            "tests/ground/test_no_network.py::test_a_day_of_work_sends_nothing_out",
            "tests/sources/test_files.py::test_no_engine_fetches_or_loads_extensions",
        ),
        "have scopes no wider than the role": (
            "tests/server/test_roles.py::test_tokens_do_no_more_than_their_scopes",
            "tests/server/test_roles.py::test_a_token_makes_no_token",
        ),
        "Every change needs a CSRF token": (
            "tests/server/test_hostile.py::test_pages_of_other_sites_change_nothing",
            "tests/server/test_serving.py::test_a_server_over_tls_from_its_first_curator_to_its_end",
        ),
        "without TLS says so at every start": (
            "tests/server/test_settings.py::test_a_server_that_others_reach_without_tls_is_exposed",
        ),
        "each is charged before data is read": (
            "tests/engine/test_charge.py::test_the_charge_is_on_record_when_the_data_is_read",
        ),
        "over all analysts together": (
            "tests/ledger/test_many_processes.py::test_sixteen_processes_spend_exactly_what_there_is",
        ),
        "the stored answer is replayed, for nothing": (
            "tests/engine/test_charge.py::test_the_same_question_replays_for_free",
        ),
        "fresh noise is charged each time": (
            "tests/engine/test_retries.py::test_fresh_noise_is_drawn_and_charged_each_time_and_once_for_a_key",
        ),
        "a repeated key never pays twice and never draws twice": (
            "tests/engine/test_retries.py::test_no_order_of_events_gives_noise_away_or_the_same_noise_twice",
            "tests/engine/test_killed.py::test_the_charge_or_nothing_and_a_free_retry",
        ),
        "never executed as text": (
            "tests/fuzz/test_sql.py::test_statements_that_were_meant_to_harm",
            "tests/server/wire/test_clients.py::test_what_does_not_work_is_said_in_a_typed_error",
        ),
        "nobody outside the project has reviewed it": NOT_OURS,
        "a test refuses one that nobody approved": (
            "tests/ground/test_supply_chain.py::test_no_unapproved_licence_is_needed_at_run_time",
        ),
    },
    "docs/assistants.md": {
        "by every mechanism": ("tests/statements/test_ports_and_files.py::test_what_an_assistant_is_told_is_so",),
        "charged each time, but once for each `key`": (
            "tests/cli/test_mcp.py::test_fresh_noise_is_charged_each_time_and_once_for_a_key",
        ),
        "Each result tells what is left of the cap": (
            "tests/cli/test_mcp.py::test_a_conversation_over_stdin_and_stdout",
        ),
        "in all conversations together": ("tests/cli/test_mcp.py::test_a_conversation_over_stdin_and_stdout",),
        "without the option nothing at all": (
            "tests/docs/test_claims.py::test_an_assistant_has_the_tools_on_its_page_and_spends_nothing_unasked",
            "tests/cli/test_mcp.py::test_refusals_are_typed_and_charge_nothing",
        ),
        "nothing is charged": ("tests/cli/test_mcp.py::test_refusals_are_typed_and_charge_nothing",),
        "There are no rows, no counts without noise": ("tests/leaks/test_faces.py::test_the_tools_of_an_assistant",),
        "Curators' actions have no tools": (
            "tests/docs/test_claims.py::test_an_assistant_has_the_tools_on_its_page_and_spends_nothing_unasked",
        ),
        "a secret that every request sends": ("tests/cli/test_mcp.py::test_http_wants_the_secret_and_this_machine",),
        "a web page cannot reach it": ("tests/cli/test_mcp.py::test_http_wants_the_secret_and_this_machine",),
    },
}
"""By page: what a sentence says, as it is written, with the tests that hold it or the reason why none can."""


def sentences(text: str) -> list[str]:
    """The sentences of a page, without its code and its headings."""
    text = re.sub(r"^( *)```.*?^\1```", "", text, flags=re.DOTALL | re.MULTILINE)
    text = re.sub(r"^(    |#).*$", "", text, flags=re.MULTILINE)
    parts = [part for cell in re.split(r"\n\s*\n|\n(?=\s*[-|])", text) for part in cell.split("|")]
    return [one for part in parts for one in re.split(r"(?<=[.!?;])\s+", " ".join(part.split())) if one]


def unheld(text: str, held: dict[str, tuple[str, ...] | str]) -> list[str]:
    """The sentences that promise without exception and are not in the table."""
    return [one for one in sentences(text) if ABSOLUTE.search(one) and not any(words in one for words in held)]


@pytest.mark.parametrize("page", HELD)
def test_every_promise_without_exception_is_held_by_a_test(page: str) -> None:
    assert unheld((ROOT / page).read_text(encoding="utf-8"), HELD[page]) == []


@pytest.mark.parametrize("page", HELD)
def test_the_table_of_promises_is_of_sentences_and_tests_that_there_are(page: str) -> None:
    text = " ".join((ROOT / page).read_text(encoding="utf-8").split())
    assert [words for words in HELD[page] if words not in text] == []
    tests = [test for held in HELD[page].values() if isinstance(held, tuple) for test in held]
    assert missing(" ".join(f"`{test}`" for test in tests)) == []


def test_a_promise_that_nobody_holds_is_noticed() -> None:
    text = "It is fast.\n\n- Keys never leave the machine. Others may.\n\n    no code\n\n| a | nothing is lost |\n"
    assert unheld(text, {"nothing is lost": DEFINITION}) == ["- Keys never leave the machine."]
