"""Documents: they read back to what was written, and a mistake is shown with its line."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from blowfishdb.errors import DocumentError
from blowfishdb.model.calendar import dates, timestamps
from blowfishdb.model.distance import stretch
from blowfishdb.model.document import (
    Document,
    Format,
    json_lines,
    line_of,
    read_content,
    read_document,
    schema,
    toml_lines,
    write_document,
)
from blowfishdb.model.domain import bins, categorical, domain, integers
from blowfishdb.model.policy import Joint, Policy, custom, full, grid, line, partition, person, public, threshold
from tests.effort import effort
from tests.model import cases

WHOLE = Document(
    domain(
        {
            "age": integers(0, 99, null=0),
            "sex": ["M", "F"],
            "size": categorical([1, 2, 3], ordered=True, outside=3, null_public=True),
            "flag": categorical([False, True]),
            "income": bins(0, 1000, width="0.1", outside="cell", outside_public=True, null_public=True),
            "lat": bins(edges=[0, 0.5, 2]),
            "lon": integers(0, 5),
            "day": dates("2020-01-01", "2020-12-31"),
            "month": dates("2020-01-01", "2020-12-31", "month"),
            "at": timestamps("2020-01-01", "2020-02-01T12:30", "minute"),
            'odd "name".x': ["é", "a'b", "[c]"],
        }
    ),
    Policy(
        {
            "age": threshold(5),
            "income": partition(cuts=[100, "200.5"]),
            "sex": custom([("M", "F")]),
            "size": partition([[1, 3], [2]]),
            "flag": public(),
            "day": threshold("7 days"),
            "month": line(),
            "at": full(),
        },
        composition="attribute",
        presence="secret",
        unit=person("patient", at_most=5, order_by="visit"),
        joint=[grid(["lat", "lon"], "1/3", "l1")],
    ),
)
FORMS: list[Format] = ["toml", "json"]


@pytest.mark.parametrize("form", FORMS)
def test_a_document_of_everything_reads_back(form: Format) -> None:
    text = write_document(WHOLE, form)
    again = read_document(text, form)
    assert again == WHOLE
    assert write_document(again, form) == text


@effort(40)
@given(st.data())
def test_any_domain_and_policy_read_back(data: st.DataObject) -> None:
    table, policy = data.draw(cases.settings_of())
    form = data.draw(st.sampled_from(FORMS))
    text = write_document(Document(table, policy), form)
    again = read_document(text, form)
    assert write_document(again, form) == text
    assert again.domain.names == table.names and again.domain.size == table.size
    assert (again.policy.composition, again.policy.presence) == (policy.composition, policy.presence)
    for graph, other in zip(policy.joint, again.policy.joint, strict=True):
        assert graph.attributes == other.attributes
        if isinstance(graph, Joint):
            covers = [policy.cover(table, graph), again.policy.cover(table, other)]
            assert np.array_equal(covers[0].codes, covers[1].codes) and np.array_equal(*(c.groups for c in covers))
        else:
            assert graph == other
    for name, family in policy.attributes.items():
        assert stretch(table[name], family, again.policy.family(name)) in (0, 1)
        assert stretch(table[name], again.policy.family(name), family) in (0, 1)


def test_the_schema_is_a_valid_schema_and_describes_what_is_written() -> None:
    # Takes seconds to load, for the syntax of addresses in every alphabet.
    from jsonschema import Draft202012Validator

    Draft202012Validator.check_schema(dict(schema()))
    Draft202012Validator(dict(schema())).validate(json.loads(write_document(WHOLE, "json")))


def test_a_document_may_leave_out_what_has_a_default() -> None:
    read = read_document('[domain.age]\nkind = "integers"\nlow = 0\nhigh = 9\n')
    assert read == Document(domain({"age": integers(0, 9)}), Policy())
    toml_dates = '[domain.d]\nkind = "dates"\nstart = 2020-01-01\nend = 2020-02-01\n'
    assert read_document(toml_dates).domain["d"] == dates("2020-01-01", "2020-02-01")
    floats = '{"domain": {"x": {"kind": "bins", "low": 0, "high": 0.3, "width": 0.1}}}'
    assert read_document(floats, "json").domain["x"] == bins(0, "0.3", width="0.1")


TOML = """# people
[domain.age]
kind = "integers"
low = 0
high = 99

[domain."home state"]
kind = "categorical"
values = [
  "NC",  # a comment with ] in it
  "VA",
]

[policy]
composition = "record"

[policy.attributes.age]
kind = "threshold"
theta = 5

[[policy.joint]]
attributes = ["lat", "lon"]
theta = 1

[[policy.joint]]
attributes = ["a", "b"]
theta = 2

[domain]
lat = { kind = "integers", low = 0, high = 9 }
lon = { kind = "integers", low = 0, high = 9 }
a.kind = "integers"
a.low = 0
a.high = 9
b = { kind = "integers", low = 0, high = 9 }
"""


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("high = 99", "hihg = 99", "did you mean 'high'"),
        ("high = 99", "high = -1", "low"),
        ("high = 99", 'high = "x"', "type integer"),
        ("[domain.age]", "[domian.age]", "did you mean 'domain'"),
        ('kind = "integers"\nlow = 0\nhigh = 99', 'kind = "integer"', "did you mean 'integers'"),
        ('"VA",', '"NC",', "twice"),
        ('composition = "record"', 'composition = "recrod"', "did you mean 'record'"),
        ("theta = 5", "theta = 0", "positive"),
        ("theta = 5", 'theta = "7 days"', "fits dates only"),
        ("theta = 5", 'theta = "2.5"', "does not fit"),
        ("[policy.attributes.age]", "[policy.attributes.agee]", "did you mean 'age'"),
        ("theta = 2", "theta = 0", "positive"),
        ("theta = 2", 'metrik = "l1"', "metric"),
        ('attributes = ["a", "b"]', 'attributes = ["a", "c"]', "no attribute 'c'"),
        ('attributes = ["a", "b"]', 'attributes = ["a"]', "less than 2 items"),
        ("low = 0, high = 9 }\nlon", "low = 0, high = -9 }\nlon", "low"),
        ("theta = 5", "theta = 5 5", "valid TOML"),
    ],
)
def test_a_mistake_in_toml_is_shown_with_its_line(old: str, new: str, says: str) -> None:
    assert read_document(TOML).domain.size > 0
    bad = TOML.replace(old, new, 1)
    assert bad != TOML
    with pytest.raises(DocumentError, match=says) as caught:
        read_document(bad)
    wanted = bad[: bad.index(new)].count("\n") + 1
    # An entry that is wrong as a whole is shown at its first line.
    table_start = bad.rfind("\n[", 0, bad.index(new))
    entry = bad[: table_start + 1].count("\n") + 1
    listed = 9 if new == '"NC",' else wanted
    assert caught.value.line in (listed, entry), caught.value
    assert f"line {caught.value.line}" in str(caught.value)


def test_the_line_is_the_line_of_the_key_itself() -> None:
    lines = toml_lines(TOML)
    assert lines[("domain", "age", "high")] == 5
    assert lines[("domain", "home state", "values")] == 9
    assert lines[("policy", "attributes", "age", "theta")] == 19
    assert lines[("policy", "joint", 1, "theta")] == 27
    assert line_of(lines, ("domain", "lat", "high")) == 30
    assert lines[("domain", "a", "low")] == 33
    assert line_of(lines, ("nothing",)) == 1
    tricky = "a = '''\n[x]\nb = 1\n'''\nc = \"[\"\nd = [1,\n 2]\ne = 1\n"
    assert {key: toml_lines(tricky)[(key,)] for key in "acde"} == {"a": 1, "c": 5, "d": 6, "e": 8}


def test_a_mistake_in_json_is_shown_with_its_line() -> None:
    text = write_document(WHOLE, "json")
    lines = json_lines(text)
    rows = text.split("\n")
    assert '"at_most"' in rows[lines[("policy", "unit", "at_most")] - 1]
    assert '"l1"' in rows[lines[("policy", "joint", 0, "metric")] - 1]
    assert '"F"' in rows[lines[("domain", "sex", "values", 1)] - 1]
    cases_: list[tuple[str, str, str]] = [
        ('"at_most": 5', '"at_most": 0', "minimum"),
        ('"at_most": 5', '"at_mots": 5', "did you mean 'at_most'"),
        ('"low": 0', '"low": 100', "low"),
        ('"theta": 5', '"theta": "5 hours"', "fits dates only"),
        ('"theta": 5', '"theta": 5,, ', "valid JSON"),
        ('"theta": 5', '"theta": 5, "theta": 6', "twice"),
        ('"1/3"', '"one third"', "not valid under"),
    ]
    for old, new, says in cases_:
        bad = text.replace(old, new, 1)
        with pytest.raises(DocumentError, match=says) as caught:
            read_document(bad, "json")
        wanted = bad[: bad.index(new)].count("\n") + 1
        # The integers' low end is wrong together with the high one: their entry is shown.
        assert caught.value.line == (wanted - 2 if new == '"low": 100' else wanted), (new, caught.value)


@pytest.mark.parametrize(
    "text", ["", "[]", "5", '{"domain": {}}', '{"domain": {"a": 5}}', '{"domain": {"a": {}}}', "{", "NaN"]
)
def test_texts_that_are_no_documents_are_refused(text: str) -> None:
    with pytest.raises(DocumentError):
        read_document(text, "json")


def test_a_protected_order_of_rows_is_refused() -> None:
    text = '{"domain": {"a": {"kind": "integers", "low": 0, "high": 1}},\n "policy": {\n  "unit": %s}}'
    unit: dict[str, Any] = {"person": "p", "at_most": 2, "order_by": "a"}
    with pytest.raises(DocumentError, match="protected") as caught:
        read_document(text % json.dumps(unit), "json")
    assert caught.value.line == 3 and caught.value.path == "policy.unit"


def test_the_examples_of_the_guide_work() -> None:
    guide = (Path(__file__).resolve().parents[2] / "docs" / "policies.md").read_text(encoding="utf-8")
    blocks = dict(reversed(re.findall(r"```(python|toml)\n(.*?)```", guide, re.DOTALL)))
    assert read_document(blocks["toml"]).policy.unit == person("patient", at_most=5, order_by="visit_id")
    scope: dict[str, Any] = {}
    exec(blocks["python"], scope)
    scope["policy"].check(scope["people"])


WRONG_EDGES = [["a"], ["a", "b", "c"], "ab", ["a", None], ["a", ["b"]], [{}, "a"], 5]


@pytest.mark.parametrize("wrong", WRONG_EDGES)
@pytest.mark.parametrize("place", [0, 7, 900])
def test_one_wrong_edge_among_many_is_found_where_it_stands(wrong: object, place: int) -> None:
    edges: list[object] = [["a", "b"]] * 1000
    edges[place] = wrong
    policy = {"attributes": {"x": {"kind": "custom", "edges": edges}}}
    content = {"version": 1, "domain": {"x": {"kind": "categorical", "values": ["a", "b"]}}, "policy": policy}
    with pytest.raises(DocumentError) as refused:
        read_document(json.dumps(content), "json")
    assert refused.value.path.startswith(f"policy.attributes.x.edges[{place}]")
    with pytest.raises(DocumentError, match="edges"):
        read_content(content)
