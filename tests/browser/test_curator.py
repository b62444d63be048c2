"""A curator's visit in a real browser: from a table to a saved policy, the trade-off, the ledger, and users."""

from __future__ import annotations

from fractions import Fraction

import duckdb
import pytest
from playwright.sync_api import Browser, Page, expect

import blowfishdb as bf
from blowfishdb.errors import BudgetExceeded, DatasetPaused
from blowfishdb.model.policy import Joint, Person
from tests.browser.fixture import HEARD, PASSWORD, Place, open_page, open_tab, shoot, sign_in

pytestmark = pytest.mark.chromium
KINDS = {"blood": 611, "bone": 1_283, "skin": 907}
"""True counts that no other number of a page looks like."""


@pytest.fixture(scope="module")
def lab(place: Place) -> Place:
    """A table that nobody has connected yet, and the dataset `depot` on another one."""
    parts = " UNION ALL ".join(
        f"SELECT '{name}' AS kind, range % 90 AS age, (range * 7) % 200 AS dose, range % 40 AS donor, range AS row_key"
        f" FROM range({count})"
        for name, count in KINDS.items()
    )
    with duckdb.connect(str(place.folder / "lab.duckdb")) as connection:
        connection.execute(f"CREATE TABLE samples AS {parts}")
        connection.execute("CREATE TABLE stock AS SELECT range % 50 AS age FROM range(700)")
        connection.execute("CREATE TABLE trial AS SELECT range % 9 AS age FROM range(90)")
    place.app_state.curator("cora").add(
        bf.Dataset(
            "depot",
            source="duckdb:///lab.duckdb#stock",
            domain={"age": bf.integers(0, 99, null=0)},
            policy=bf.Policy({"age": bf.threshold(10)}),
            epsilon="1",
        )
    )
    return place


def pick(page: Page, test_id: str, option: str) -> None:
    """Chooses an option of a select."""
    page.get_by_test_id(test_id).click()
    page.get_by_role("option", name=option, exact=True).click()
    expect(page.locator(".q-menu")).to_have_count(0)  # it gives the focus back when it has closed
    page.evaluate(HEARD)


def did(place: Place, action: str) -> list[str]:
    """On what this was done, by the audit log."""
    return [one.target for one in place.app_state.audit_log.last() if one.action == action]


def test_from_a_table_to_a_saved_policy(page: Page, lab: Place) -> None:
    sign_in(page, lab, "cora")
    expect(page.get_by_role("heading", name="Datasets")).to_be_visible()
    shoot(page, "datasets")
    page.get_by_test_id("add").click()
    page.get_by_test_id("address").fill("duckdb:///lab.duckdb")
    page.get_by_test_id("read-columns").click()
    pick(page, "table", "samples")

    pick(page, "use-age", "Whole numbers")
    page.get_by_test_id("low-age").fill("0")
    page.get_by_test_id("high-age").fill("110")
    expect(page.get_by_text("111 values: 0 … 110")).to_be_visible()
    pick(page, "null-age", "counted as a value")
    page.get_by_test_id("null_value-age").fill("0")
    expect(page.get_by_text("NULL counts as 0")).to_be_visible()

    pick(page, "use-kind", "Listed values")
    page.get_by_test_id("look-kind").click()
    expect(page.get_by_text("Bounds and lists of values are public")).to_be_visible()
    assert did(lab, "read a column's bounds") == [], "nothing is read before the warning was answered"
    shoot(page, "dataset-look", whole=False)
    page.get_by_test_id("look-anyway").click()
    expect(page.get_by_text("read from the data")).to_be_visible()
    expect(page.get_by_test_id("values-kind")).to_have_value("blood, bone, skin")
    assert len(did(lab, "read a column's bounds")) == 1

    page.get_by_test_id("finish").click()
    expect(page.get_by_text("Give the dataset a name")).to_be_visible()
    page.get_by_test_id("name").fill("lab")
    page.get_by_test_id("epsilon").fill("2")
    shoot(page, "dataset-add")
    page.get_by_test_id("finish").click()

    page.wait_for_url("**/policies?dataset=lab")
    expect(page.get_by_test_id("save")).to_be_disabled()
    pick(page, "attribute", "age")
    page.get_by_role("radio", name="Within a distance").click()
    page.get_by_test_id("family").fill("0")
    expect(page.get_by_text("Theta must be positive")).to_be_visible()
    expect(page.get_by_test_id("save")).to_be_disabled()
    page.get_by_test_id("family").fill("5")
    expect(page.get_by_text("values at most 5 apart are hidden from each other")).to_be_visible()
    expect(page.get_by_text("Version 2. Nothing was released yet, so no past loss is carried over.")).to_be_visible()
    assert page.locator(".bf-graph svg path").count() > 50, "the moves are drawn"
    shoot(page, "policies")
    page.get_by_test_id("save").click()
    page.get_by_test_id("go").click()
    expect(page.get_by_text("A reason is kept with every change")).to_be_visible()
    page.get_by_test_id("reason").fill("agreed in May")
    page.get_by_test_id("go").click()
    page.wait_for_url("**/policies?dataset=lab&attribute=age")
    curator = lab.app_state.curator("cora")
    assert curator.account("lab").policy_version == 2
    assert curator.dataset("lab").policy.family("age") == bf.threshold(5)

    page.get_by_test_id("together").click()
    page.get_by_test_id("go").click()
    expect(page.get_by_text("Choose two attributes or more")).to_be_visible()
    page.get_by_test_id("names").click()
    for name in ("age", "kind"):
        page.get_by_role("option", name=name, exact=True).click()
    page.keyboard.press("Escape")
    page.get_by_test_id("go").click()
    picture = page.get_by_test_id("question-picture")
    expect(page.get_by_text("kind and age: combinations within each of 2 blocks")).to_be_visible()
    page.get_by_test_id("joint").fill("children, *, 0..17, *")
    expect(page.get_by_text("A line holds the name of a block, then kind and age")).to_be_visible()
    expect(page.get_by_test_id("save")).to_be_disabled()
    blocks = b"block,age,kind\nchildren,0..17,*\nbones,18..110,bone\n"
    page.get_by_test_id("import").locator("input").set_input_files(
        {"name": "blocks.csv", "mimeType": "text/csv", "buffer": blocks}
    )
    expect(page.get_by_text("combinations within each of 3 blocks")).to_be_visible()
    page.get_by_test_id("picture-where").fill("kind = 'bone'")
    expect(picture.locator(".bf-small", has_text="a row that the question does not count")).to_be_visible()
    page.get_by_test_id("picture-where").fill("")
    pick(page, "step-1", "by 20 (6 bins)")
    expect(picture.locator(".bf-small", has_text="All 5 groups of kind by all 6 groups of age")).to_be_visible()
    picture.get_by_text("The picture as a list").click()
    expect(picture.get_by_role("cell", name="blood, 0-19", exact=True)).to_be_visible()
    shoot(page, "policies-together")
    page.get_by_test_id("save").click()
    page.get_by_test_id("reason").fill("children's samples are one secret")
    page.get_by_test_id("go").click()
    page.wait_for_url("**/policies?dataset=lab&attribute=kind%20%2B%20age")
    (graph,) = lab.app_state.curator("cora").dataset("lab").policy.joint
    assert isinstance(graph, Joint) and [len(group) for group in graph.groups] == [54, 93, 186]
    page.get_by_test_id("apart").click()
    expect(page.get_by_role("heading", name="The graph of kind")).to_be_visible()

    expect(page.get_by_text("Nothing was answered yet, so all of this can still change")).to_be_visible()
    pick(page, "declared", "age")
    page.get_by_test_id("high-age").fill("9")
    declared = page.get_by_test_id("declaration")
    expect(declared.get_by_text("is not between 0 and 9")).to_be_visible()
    expect(page.get_by_test_id("save-values")).to_be_disabled()
    page.get_by_test_id("high-age").fill("110")
    pick(page, "null-age", "a public cell")
    expect(declared.get_by_text("Version 2. Nothing was released yet")).to_be_visible()
    page.get_by_test_id("save-values").click()
    page.get_by_test_id("reason").fill("age is missing for whole batches")
    page.get_by_test_id("go").click()
    page.wait_for_url("**/policies?dataset=lab&attribute=age")
    assert lab.app_state.curator("cora").dataset("lab").domain["age"].null_public
    pick(page, "accounting", "By attribute")
    page.get_by_test_id("save-accounting").click()
    page.get_by_test_id("reason").fill("questions differ")
    page.get_by_test_id("go").click()
    expect(page.get_by_test_id("save-accounting")).to_be_disabled()
    assert lab.app_state.curator("cora").account("lab").accounting == "per-edge"

    tied = page.get_by_test_id("constraint-graph")
    expect(tied).to_be_hidden()
    page.get_by_test_id("constraints").fill("count(age < 18)\nrange(age, 65, 110)")
    expect(tied.get_by_role("cell", name="2 times", exact=True)).to_have_count(2)
    expect(tied.locator(".bf-small", has_text="The longest forced chain has 3 records")).to_be_visible()
    expect(tied.locator("svg[role=img]")).to_be_visible()
    page.set_viewport_size({"width": 390, "height": 844})
    picture = tied.get_by_role("region", name="Picture of the constraints")
    picture.press("ArrowRight")
    page.wait_for_function("box => box.scrollLeft > 0", arg=picture.element_handle())
    shoot(page, "policies-constraints-phone")
    page.get_by_test_id("constraints").fill("marginal(age)\nmarginal(kind)")
    expect(page.get_by_text("All together have no price.")).to_be_visible()
    expect(page.locator(".bf-notice, .bf-small", has_text="overlap in too many ways")).to_have_count(1)
    shoot(page, "policies-refusal-phone")
    page.set_viewport_size({"width": 1440, "height": 900})
    page.get_by_test_id("constraints").fill("")
    expect(tied).to_be_hidden()

    page.get_by_role("radio", name="All rows of a person").click()
    for place, text in enumerate(("donor", "3", "row_key")):
        page.get_by_test_id(f"person-{place}").fill(text)
    expect(page.get_by_text("Version 4.")).to_be_visible()
    page.get_by_test_id("save").click()
    page.get_by_test_id("reason").fill("donors come again")
    page.get_by_test_id("go").click()
    page.wait_for_url("**/policies?dataset=lab&attribute=kind%20%2B%20age")
    assert lab.app_state.curator("cora").dataset("lab").policy.unit == Person("donor", 3, "row_key")


@pytest.mark.nightly
def test_a_change_that_stretches_past_loss_says_so_and_an_unbounded_one_is_refused(page: Page, lab: Place) -> None:
    lab.app_state.session("ben")["depot"].histogram("age").release(epsilon="1/10")
    sign_in(page, lab, "cora", then="/policies?dataset=depot")
    page.get_by_test_id("family").fill("20")
    expect(page.get_by_text("Past loss counts 2 times")).to_be_visible()
    expect(page.get_by_test_id("save")).to_be_enabled()
    page.get_by_test_id("family").fill("60")
    expect(page.get_by_text("epsilon 0.1 spent becomes 0.6 of 1")).to_be_visible()
    page.get_by_role("radio", name="Hidden too").click()
    expect(page.get_by_text("past releases may have told who is there")).to_be_visible()
    expect(page.get_by_test_id("save")).to_be_disabled()
    page.get_by_role("radio", name="Public", exact=True).last.click()
    page.get_by_role("radio", name="All rows of a person").click()
    expect(page.get_by_text("Name the column that tells people apart")).to_be_visible()
    for place, text in enumerate(("person", "3", "row_key")):
        page.get_by_test_id(f"person-{place}").fill(text)
    expect(page.get_by_text("past releases counted all rows of a person")).to_be_visible()
    pick(page, "null-age", "a hidden cell")
    expect(page.get_by_text("age is declared in another way")).to_be_visible()
    expect(page.get_by_test_id("save-values")).to_be_disabled()
    assert lab.app_state.curator("cora").account("depot").policy_version == 1


def test_the_trade_off_reads_no_data_until_told_to(page: Page, lab: Place) -> None:
    sign_in(page, lab, "cora", then="/trade-off?dataset=depot")
    before = lab.app_state.curator("cora").ledger.head()
    expect(page.get_by_text("no data was read")).to_be_visible(timeout=30_000)
    shoot(page, "trade-off")
    said = page.get_by_test_id("slider-value").inner_text()
    page.locator(".q-slider [tabindex='0']").press("ArrowRight")
    expect(page.get_by_test_id("slider-value")).not_to_have_text(said)
    page.get_by_role("radio", name="How far off").click()
    expect(page.get_by_text("How far off answers are")).to_be_visible()
    page.get_by_role("radio", name="What it costs").click()
    page.get_by_test_id("thetas").fill("3, 2.5")
    expect(page.get_by_role("alert").filter(has_text="Theta is a number of whole steps")).to_be_visible()
    page.get_by_test_id("thetas").fill("20, 45")
    expect(page.get_by_role("alert").filter(has_text="Theta is a number of whole steps")).to_have_count(0)
    pick(page, "closer", "within 45")
    expect(page.get_by_test_id("point")).to_contain_text("Within 45")

    pick(page, "closer", "within 20")
    expect(page.get_by_test_id("point")).to_contain_text("every count within")
    assert page.get_by_test_id("gauge").count() == 2
    expect(page.get_by_text("made-up data")).to_be_visible()
    shoot(page, "trade-off-point")
    assert did(lab, "looked at true answers") == []
    page.get_by_test_id("truth").click()
    expect(page.get_by_text("True counts are secret")).to_be_visible()
    assert did(lab, "looked at true answers") == []
    page.get_by_test_id("show-truth").click()
    expect(page.get_by_text("for your eyes only")).to_be_visible()
    assert did(lab, "looked at true answers") == ["depot"]
    shoot(page, "trade-off-truth")
    assert lab.app_state.curator("cora").ledger.head() == before, "looking ahead charges nothing"
    page.get_by_test_id("take").click()
    expect(page.get_by_test_id("family")).to_have_value("20")
    expect(page.get_by_test_id("save")).to_be_enabled()


POINT = """([line, place]) => {
  const shown = document.querySelector('[data-testid=curves]');
  const chart = getElement(Number(shown.id.slice(1))).chart;
  const series = chart.getOption().series.findIndex(one => one.name === line);
  const found = chart.getOption().series[series].data[place];
  const [x, y] = chart.convertToPixel({seriesIndex: series}, [place, found.value ?? found]);
  const box = shown.querySelector('canvas').getBoundingClientRect();
  return [box.x + x, box.y + y];
}"""


def test_on_a_phone_no_choice_is_cut_off(page: Page, lab: Place) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    sign_in(page, lab, "cora", then="/datasets/add")
    page.get_by_test_id("address").fill("duckdb:///lab.duckdb")
    page.get_by_test_id("read-columns").click()
    pick(page, "table", "samples")
    expect(page.get_by_role("radio", name="Anything else")).to_be_visible()
    cut = "boxes => boxes.filter(box => box.scrollWidth > box.clientWidth + 1).map(box => box.innerText)"
    assert page.locator(".bf-choice").evaluate_all(cut) == []
    open_page(page, lab, "/datasets/add")
    afresh = page.get_by_test_id("afresh")
    assert afresh.evaluate("button => button.scrollWidth <= button.clientWidth && button.clientWidth > 90")
    afresh.click()
    page.set_viewport_size({"width": 1440, "height": 900})


@pytest.mark.nightly
def test_a_click_on_a_curve_shows_that_point(page: Page, lab: Place) -> None:
    sign_in(page, lab, "cora", then="/trade-off?dataset=depot")
    expect(page.get_by_text("no data was read")).to_be_visible(timeout=30_000)
    x, y = page.evaluate(POINT, ["blocks of θ", 3])
    page.mouse.click(x, y)
    expect(page.get_by_test_id("point")).to_contain_text("Blocks of 10")


def test_pause_revoke_and_the_ledger(page: Page, lab: Place) -> None:
    lab.app_state.session("ana")["depot"].histogram("age").release(epsilon="1/20")
    sign_in(page, lab, "cora", then="/ledger?dataset=depot")
    expect(page.get_by_role("cell", name="Histogram of age").first).to_be_visible()
    page.get_by_test_id("verify").click()
    expect(page.get_by_text("Sound:")).to_be_visible()
    shoot(page, "ledger")
    with page.expect_download() as download:
        page.get_by_test_id("export").click()
    assert download.value.suggested_filename.endswith(".jsonl")
    with page.expect_download() as download:
        page.get_by_test_id("record").click()
    assert "Record of processing: depot" in download.value.path().read_text(encoding="utf-8")

    page.get_by_test_id("pause").click()
    page.get_by_test_id("reason").fill("stocktaking")
    page.get_by_test_id("go").click()
    expect(page.get_by_text("Paused by cora: stocktaking")).to_be_visible()
    with pytest.raises(DatasetPaused, match="stocktaking"):
        lab.app_state.session("ana")["depot"].cdf("age").preview(epsilon="1/20")
    page.get_by_test_id("resume").click()
    expect(page.get_by_text("Paused by cora")).not_to_be_visible()

    page.get_by_test_id("revoke-ana").click()
    page.get_by_test_id("reason").fill("left the project")
    page.get_by_test_id("go").click()
    expect(page.get_by_text("of their own")).to_be_visible()
    with pytest.raises(BudgetExceeded):
        lab.app_state.session("ana")["depot"].cdf("age").release(epsilon="1/20")
    open_tab(page, "What users did")
    expect(page.get_by_role("cell", name="revoked an analyst").first).to_be_visible()


def test_a_file_becomes_a_dataset(page: Page, lab: Place) -> None:
    sign_in(page, lab, "cora", then="/datasets/add")
    page.get_by_role("radio", name="Send a file").click()
    rows = "size\n" + "\n".join(str(number % 40) for number in range(200))
    page.locator("input[type=file]").set_input_files(
        {"name": "../../odd name.csv", "mimeType": "text/csv", "buffer": rows.encode()}
    )
    pick(page, "use-size", "Whole numbers")
    page.get_by_test_id("low-size").fill("0")
    page.get_by_test_id("high-size").fill("49")
    page.get_by_test_id("name").fill("sizes")
    page.get_by_test_id("finish").click()
    page.wait_for_url("**/policies?dataset=sizes")
    (kept,) = (lab.folder / "uploads").iterdir()
    assert kept.name.startswith("odd-name-")
    assert kept.stat().st_mode & 0o077 == 0, "nobody else on the machine reads it"


@pytest.mark.nightly
def test_joined_tables_are_declared_in_the_form(page: Page, lab: Place) -> None:
    (lab.folder / "stays.csv").write_text(
        "ward,days\n" + "\n".join(f"W{number % 3},{number % 9}" for number in range(90))
    )
    (lab.folder / "wards.csv").write_text("code,floor\nW0,low\nW1,high\nW2,high\n")
    sign_in(page, lab, "cora", then="/datasets/add")
    page.get_by_test_id("address").fill("stays.csv")
    page.get_by_test_id("joins").fill("wards.csv by ward")
    page.get_by_test_id("read-columns").click()
    expect(page.get_by_text("is not a join; write TABLE on FOREIGN_KEY = KEY gives COLUMN")).to_be_visible()
    page.get_by_test_id("joins").fill("wards.csv on ward = code gives floor")
    page.get_by_test_id("read-columns").click()
    expect(page.get_by_role("group", name="floor").get_by_text("varchar, joined")).to_be_visible()
    pick(page, "use-floor", "Listed values")
    page.get_by_test_id("values-floor").fill("low, high")
    expect(page.get_by_test_id("look-floor")).to_have_count(0)
    shoot(page, "dataset-add-joined")
    page.get_by_test_id("name").fill("stays")
    page.get_by_test_id("finish").click()
    page.wait_for_url("**/policies?dataset=stays")
    (join,) = lab.app_state.curator("cora").dataset("stays").joins
    assert join == bf.Join("wards.csv", "ward", "code", ["floor"])
    answer = lab.app_state.session("ana").sql(
        "SELECT floor, COUNT(*) FROM stays JOIN wards ON ward = code GROUP BY floor", epsilon="1"
    )
    assert [row["floor"] for row in answer.rows()] == ["low", "high", "NULL", "outside"]


@pytest.mark.nightly
def test_what_a_table_is_about_fills_the_form(page: Page, lab: Place) -> None:
    header, rows = "stay_id,patient,age,ward", [f"{row},P{row % 30},{row % 90},W{row % 3}" for row in range(90)]
    (lab.folder / "nights.csv").write_text("\n".join([header, *rows]))
    sign_in(page, lab, "cora", then="/datasets/add")
    page.get_by_test_id("address").fill("nights.csv")
    page.get_by_test_id("read-columns").click()
    page.get_by_role("radio", name="Patients and visits").click()
    expect(page.get_by_test_id("high-age")).to_have_value("110")
    guidance = page.get_by_test_id("guidance")
    expect(guidance.get_by_text("Not declared yet: ward.")).to_be_visible()
    page.get_by_test_id("values-ward").fill("W0, W1, W2")
    pick(page, "policy-age", "within 10")
    expect(page.get_by_text("No longer hidden: whether somebody is young or old.")).to_be_visible()
    expect(guidance.get_by_role("cell", name="Histogram of ward × age")).to_be_visible()
    expect(guidance.get_by_text("at most 5 rows of each count")).to_be_visible()
    expect(guidance.get_by_role("columnheader", name="By one analyst")).to_be_visible()
    shoot(page, "dataset-add-profile")
    page.get_by_test_id("caps").click()
    page.get_by_test_id("caps-anyway").click()
    expect(page.get_by_text("90 rows of 30 people.")).to_be_visible()
    page.keyboard.press("Escape")
    page.get_by_test_id("name").fill("nights")
    page.get_by_test_id("finish").click()
    page.wait_for_url("**/policies?dataset=nights")
    expect(page.get_by_text("Nobody may ask about nights yet.")).to_be_visible()
    added = lab.app_state.curator("cora").dataset("nights")
    assert (added.policy.presence, added.per_analyst) == ("secret", Fraction(1, 4))
    assert added.policy.unit == Person("patient", 5, "stay_id")
    assert added.policy.attributes == {"age": bf.threshold(10)}


def test_a_dataset_can_go(page: Page, lab: Place) -> None:
    source, domain = "duckdb:///lab.duckdb#trial", {"age": bf.integers(0, 99, null=0)}
    lab.app_state.curator("cora").add(bf.Dataset("<b>trial<b>", source=source, domain=domain, epsilon="1"))
    sign_in(page, lab, "cora")
    page.get_by_test_id("more-<b>trial<b>").click()
    page.get_by_test_id("remove").click()
    page.get_by_test_id("reason").fill("was a trial")
    page.get_by_test_id("go").click()
    expect(page.get_by_text("<b>trial<b>")).to_have_count(0)
    assert "<b>trial<b>" not in lab.app_state.curator("cora").datasets()


def test_users_get_a_password_that_they_must_change(page: Page, chromium: Browser, lab: Place) -> None:
    sign_in(page, lab, "cora", then="/users")
    shoot(page, "users")
    page.get_by_test_id("new-name").fill("nia")
    page.get_by_test_id("add-user").click()
    password = page.get_by_test_id("password").inner_text()
    page.get_by_test_id("done").click()
    expect(page.get_by_text("first password")).to_be_visible()
    window = chromium.new_context()
    other = window.new_page()
    other.goto(f"{lab.url}/sign-in")
    other.fill("#name", "nia")
    other.fill("#password", password)
    other.click("button[type=submit]")
    other.wait_for_url("**/password")
    window.close()
    shut_out = page.get_by_text("shut out", exact=True)
    before = shut_out.count()
    page.get_by_test_id("disable-nia").click()
    expect(shut_out).to_have_count(before + 1)
    assert lab.app_state.users.find("nia").is_disabled


CURATORS = ("/datasets", "/datasets/add", "/policies", "/trade-off", "/ledger", "/users")


def test_analysts_find_no_curators_pages(page: Page, lab: Place) -> None:
    sign_in(page, lab, "ana")
    for path in CURATORS:
        answer = page.goto(f"{lab.url}{path}")
        assert answer is not None
        assert answer.status == 403
        assert "depot" not in page.content()
    for path in ("/api/v1/ledger/entries", "/api/v1/users", "/api/v1/audit-log"):
        answer = page.goto(f"{lab.url}{path}")
        assert answer is not None
        assert answer.status == 403


def test_auditors_read_and_change_nothing(page: Page, lab: Place) -> None:
    sign_in(page, lab, "aude")
    expect(page.get_by_role("heading", name="Budget and log")).to_be_visible()
    for test_id in ("pause", "revoke-ben"):
        assert page.get_by_test_id(test_id).count() == 0
    open_page(page, lab, "/policies?dataset=depot")
    expect(page.get_by_text("values at most 10 apart")).to_be_visible()
    assert page.get_by_test_id("save").count() == page.get_by_test_id("family").count() == 0
    for path in ("/datasets/add", "/trade-off", "/users"):
        answer = page.goto(f"{lab.url}{path}")
        assert answer is not None
        assert answer.status == 403


def test_a_page_left_open_does_nothing_for_somebody_who_was_shut_out(page: Page, lab: Place) -> None:
    lab.app_state.users.add("carl", "curator", PASSWORD, must_change=False)
    sign_in(page, lab, "carl", then="/ledger?dataset=depot")
    page.get_by_test_id("pause").click()
    page.get_by_test_id("reason").fill("mischief")
    lab.app_state.users.disable("carl")
    page.get_by_test_id("go").click()
    expect(page.get_by_text("Your session has ended")).to_be_visible()
    assert lab.app_state.pauses.of("depot") is None


RELEASE = """async ([name, csrfToken, epsilon]) => {
  const response = await fetch('/api/v1/datasets/rare/answers', {
    method: 'POST', credentials: 'same-origin',
    headers: {'Content-Type': 'application/json', 'X-CSRF-Token': csrfToken, 'Idempotency-Key': name},
    body: JSON.stringify({query: {kind: 'histogram', axes: [{attribute: 'age'}]}, accuracy_target: {epsilon}}),
  });
  return response.status;
}"""


@pytest.mark.nightly
def test_two_analysts_race_for_the_last_budget(chromium: Browser, lab: Place) -> None:
    with duckdb.connect(str(lab.folder / "rare.duckdb")) as connection:
        connection.execute("CREATE TABLE rare AS SELECT range % 9 AS age FROM range(90)")
    domain = {"age": bf.integers(0, 9, null=0)}
    lab.app_state.curator("cora").add(
        bf.Dataset("rare", source="duckdb:///rare.duckdb#rare", domain=domain, epsilon="1")
    )
    windows = {name: chromium.new_context() for name in ("ana", "ben")}
    pages = {name: window.new_page() for name, window in windows.items()}
    for name, own in pages.items():
        sign_in(own, lab, name)
        csrf_token = own.evaluate("async () => (await (await fetch('/api/v1/sessions/current')).json()).csrf_token")
        own.evaluate(
            "([code, sent]) => { window.race = () => { window.ran = eval(code)(sent); } }",
            [RELEASE, [name, csrf_token, "3/5"]],
        )
    for own in pages.values():
        own.evaluate("() => { window.race(); }")
    found = sorted(own.evaluate("async () => await window.ran") for own in pages.values())
    assert found == [200, 402], "one is answered, one is told that the budget does not suffice"
    assert lab.app_state.curator("cora").account("rare").charges == 1
    for window in windows.values():
        window.close()
