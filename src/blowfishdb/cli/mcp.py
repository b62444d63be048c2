"""blowfish mcp: a Model Context Protocol server, so that an assistant asks questions and spends no more than a cap."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import partial, wraps
from threading import Event
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from blowfishdb.cli.options import AnalystOptions, AsJson, spread
from blowfishdb.cli.output import print_result
from blowfishdb.errors import QueryError, UnknownAnswer

if TYPE_CHECKING:
    from mcp.server import MCPServer
    from starlette.types import ASGIApp, Receive, Scope, Send

    from blowfishdb.engine.answer import Answer
    from blowfishdb.session import Session
    from blowfishdb.session.session import SpendingCap

INSTRUCTIONS = """BlowfishDB answers counting questions about sensitive tables with differential privacy.
Every number has an interval: quote both, with their confidence. Call `datasets` first. `preview` is free and tells the
price; `release` charges it, within the cap that the person set. The same question again is free."""
ARGUMENTS = """`sql` is one SELECT, such as SELECT ward, COUNT(*) FROM visits WHERE age >= 18 GROUP BY ward.
bin(age, 10) groups numbers; CDF(cost), QUANTILES(cost, 0.25, 0.5), SUM(cost) and AVG(cost) ask for running counts,
quantiles, a sum and a mean. Give `within`, such as 50: every answer is this near the truth with probability
`confidence`; or give `epsilon`, the price to pay, such as 0.1."""
Amount: TypeAlias = str | float
MOST_ROWS = 1000
MOST_LISTED = 100
MOST_VALUES = 100
ROW_COLUMNS_LEFT_OUT = ("raw", "pointwise_low", "pointwise_high")
TOKEN = "BLOWFISH_TOKEN"
SECRET = "BLOWFISH_MCP_SECRET"
HOST = "127.0.0.1"
PATH = "/mcp"


@dataclass(eq=False)
class Conversation:
    """What an assistant may ask in the name of one analyst, and the epsilon that it may still spend.

    The cap holds for as long as the process runs, whoever connects: a new connection gets no new cap.
    """

    session: Session
    cap: SpendingCap

    def datasets(self) -> dict[str, Any]:
        """The datasets: columns with their public values, what is hidden and what is not, and the budget left."""
        return self._answered(lambda: {"datasets": [self._dataset(name) for name in self.session.datasets()]})

    def preview(
        self, sql: str, within: Amount | None = None, confidence: Amount = 0.95, epsilon: Amount | None = None
    ) -> dict[str, Any]:
        """The price of a question and the accuracy of its answer. Reads no data and costs nothing."""

        def work() -> dict[str, Any]:
            from blowfishdb.engine.preview import Preview
            from blowfishdb.session.backend import expect
            from blowfishdb.sql import parse

            text = sql if parse(sql).explain else f"EXPLAIN {sql}"
            preview = expect(self.session.sql(text, alpha=within, confidence=confidence, epsilon=epsilon), Preview)
            return {"epsilon": str(preview.epsilon), "mechanism": preview.mechanism, "text": str(preview)}

        return self._answered(work)

    def release(
        self,
        sql: str,
        within: Amount | None = None,
        confidence: Amount = 0.95,
        epsilon: Amount | None = None,
        key: str | None = None,
    ) -> dict[str, Any]:
        """The answer with intervals, and the note to quote with it. Charged, within the cap; asked again it is free.

        A statement with OPTIONS (fresh = TRUE) is drawn and charged anew each time, but once for each `key`.
        """

        def work() -> dict[str, Any]:
            from blowfishdb.engine.answer import Answer
            from blowfishdb.session.backend import expect

            statement = self.session.statement(sql)
            if statement.explain:
                raise QueryError("an EXPLAIN is for preview; release takes the SELECT alone")

            def ask(left: Fraction) -> object:
                return self.session.sql(sql, alpha=within, confidence=confidence, epsilon=epsilon, spend=left, key=key)

            outcome, charged = self.cap.charged(self.session, statement.table, ask)
            return {**answer_content(expect(outcome, Answer)), "charged": str(charged)}

        return self._answered(work)

    def history(self, dataset: str, before: int | None = None) -> dict[str, Any]:
        """Earlier answers about a dataset, newest first; `before` the last number gives the next ones. Free.

        `answer` opens one again, free too.
        """

        def entries() -> list[dict[str, Any]]:
            return [
                {"number": past.number, "at": past.at, "question": past.question, "epsilon": str(past.epsilon)}
                for past in self.session.history(dataset, most=MOST_LISTED, before=before)
            ]

        return self._answered(lambda: {"answers": entries()})

    def answer(self, dataset: str, number: int) -> dict[str, Any]:
        """A past answer again, free: its numbers, how they were made, what they protect and what they do not."""

        def work() -> dict[str, Any]:
            from blowfishdb.engine.answer import Answer

            released = self.session.reopen(dataset, number)
            if not isinstance(released, Answer):
                raise UnknownAnswer(number)
            return answer_content(released)

        return self._answered(work)

    def _dataset(self, name: str) -> dict[str, Any]:
        from blowfishdb.catalog.dataset import attribute_words
        from blowfishdb.model.domain import Categorical

        table, budget = self.session[name], self.session.budget(name)
        columns: dict[str, Any] = {}
        for column in table.domain:
            attribute = table.domain[column]
            columns[column] = {"domain": attribute_words(attribute, table.policy.family(column), table.policy.presence)}
            if isinstance(attribute, Categorical) and len(attribute.values) <= MOST_VALUES:
                columns[column]["values"] = list(attribute.values)
        return {
            "name": name,
            "columns": columns,
            "policy": list(table.policy_words()),
            "budget_spent": str(budget.spent),
            "budget_left": None if budget.remaining is None else str(budget.remaining),
        }

    def _answered(self, work: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """The reply with the rest of the cap."""
        from mcp.server.mcpserver.exceptions import ToolError

        from blowfishdb.incidents import public_error

        try:
            return {**work(), "cap_left": str(self.cap.left)}
        except Exception as error:  # noqa: BLE001  # whatever it is, it may quote a row
            problem = public_error(error)
        raise ToolError(f"{problem.message} ({problem.code})")


def answer_content(answer: Answer) -> dict[str, Any]:
    """An answer as plain data: the note, then rows with value and interval."""
    rows = [{name: cell for name, cell in row.items() if name not in ROW_COLUMNS_LEFT_OUT} for row in answer.rows()]
    content: dict[str, Any] = {"note": answer.note(), "epsilon": str(answer.epsilon), "rows": rows[:MOST_ROWS]}
    return content | ({"rows_left_out": len(rows) - MOST_ROWS} if len(rows) > MOST_ROWS else {})


def mcp_server(conversation: Conversation) -> MCPServer:
    """The tools of one conversation under the protocol."""
    from blowfishdb.present.answer_values import software_version
    from blowfishdb.present.export import needed

    make = needed("mcp.server", "mcp").MCPServer
    server: MCPServer = make("blowfishdb", instructions=INSTRUCTIONS, version=software_version(), log_level="WARNING")
    server.add_tool(cancellable(conversation.datasets))
    for question in (conversation.preview, conversation.release):
        server.add_tool(cancellable(question), description=f"{question.__doc__}\n{ARGUMENTS}")
    server.add_tool(cancellable(conversation.history))
    server.add_tool(cancellable(conversation.answer))
    return server


def cancellable(tool: Callable[..., dict[str, Any]]) -> Callable[..., Awaitable[dict[str, Any]]]:
    """A tool in a thread, whose count ends when the assistant cancels the call or goes away."""

    @wraps(tool)
    async def called(*values: Any, **named: Any) -> dict[str, Any]:
        from anyio import get_cancelled_exc_class, to_thread

        from blowfishdb.sources.calls import is_cancelled

        gone = Event()
        is_cancelled.set(gone.is_set)
        try:
            return await to_thread.run_sync(partial(tool, *values, **named), abandon_on_cancel=True)
        except get_cancelled_exc_class():
            gone.set()
            raise

    return called


@dataclass(frozen=True)
class BearerSecret:
    """An app that answers only requests with the secret."""

    app: ASGIApp
    secret: str

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        from hmac import compare_digest

        from starlette.datastructures import Headers
        from starlette.responses import PlainTextResponse

        sent = Headers(scope=scope).get("authorization", "") if scope["type"] == "http" else None
        if sent is not None and not compare_digest(sent.encode(), f"Bearer {self.secret}".encode()):
            refusal = PlainTextResponse("send the secret as a bearer token", 401, {"WWW-Authenticate": "Bearer"})
            await refusal(scope, receive, send)
            return
        await self.app(scope, receive, send)


def serve_http(server: MCPServer, port: int, *, as_json: bool) -> None:
    """Serves the tools over HTTP on this machine alone, behind a secret, until Ctrl-C."""
    import uvicorn

    secret = os.environ.get(SECRET) or os.urandom(32).hex()
    url = f"http://{HOST}:{port}{PATH}"
    told = () if SECRET in os.environ else (f"Every request sends: Authorization: Bearer {secret}",)
    print_result({"url": url, "secret": secret}, f"MCP server at {url} (Ctrl-C stops it)", *told, as_json=as_json)
    app = BearerSecret(server.streamable_http_app(streamable_http_path=PATH, host=HOST), secret)
    uvicorn.run(app, host=HOST, port=port, log_level="warning")


@spread
def mcp(
    analyst: AnalystOptions,
    spend: Annotated[
        str, typer.Option(metavar="NUMBER", help="The most epsilon the assistant may spend until it is stopped.")
    ] = "0",
    server: Annotated[
        str | None, typer.Option(metavar="ADDRESS", help=f"Ask this server instead; the token is in ${TOKEN}.")
    ] = None,
    http: Annotated[
        int | None, typer.Option(metavar="PORT", help="Serve HTTP on this port of this machine, not stdin and stdout.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Serves an assistant, which spends no more than a cap.

    Over the Model Context Protocol it sees the datasets, previews questions, releases answers and opens past
    ones. Without --spend nothing is charged.

    \b
    Examples
      blowfish mcp --analyst ana --spend 0.2
      BLOWFISH_TOKEN=bfdb_... blowfish mcp --server https://blowfish.example --spend 0.2
      blowfish mcp --analyst ana --http 8002
    """
    from blowfishdb.engine.request import short_number
    from blowfishdb.session import connect
    from blowfishdb.session.session import SpendingCap

    cap = short_number(spend, "--spend")
    with analyst.session() if server is None else connect(server, token=os.environ.get(TOKEN)) as session:
        tools = mcp_server(Conversation(session, SpendingCap(cap)))
        if http is None:
            tools.run()
        else:
            serve_http(tools, http, as_json=as_json)
