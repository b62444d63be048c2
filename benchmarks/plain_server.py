"""The floor of every comparison: a FastAPI app that reads a question and returns a file's bytes, nothing else."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import uvicorn
from fastapi import FastAPI, Header, Response
from pydantic import BaseModel


class Question(BaseModel):
    """A body like that of a real question."""

    question: dict[str, Any] | None = None
    accuracy_target: dict[str, Any] = {}


def plain_app(answer: bytes) -> FastAPI:
    """The app; its route is a plain function, so it runs in a worker thread as the real routes do."""
    app = FastAPI()

    @app.post("/answers")
    def answered(sent: Question, authorization: str = Header()) -> Response:
        del sent, authorization
        return Response(answer, media_type="application/json")

    return app


def main() -> None:
    """Serves until it is told to stop."""
    parser = argparse.ArgumentParser()
    parser.add_argument("file", type=Path)
    parser.add_argument("--port", type=int, required=True)
    options = parser.parse_args()
    app = plain_app(options.file.read_bytes())
    uvicorn.run(app, host="127.0.0.1", port=options.port, access_log=False, log_level="warning")


if __name__ == "__main__":
    main()
