"""Errors in the form that OpenAI's clients read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fastapi import Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from ...common.errors import RequestError, ServerError, WorkbookError


def described(
    message: str, code: str | None = None, kind: str = "invalid_request_error"
) -> dict[str, Any]:
    """An error as OpenAI's API describes it, to be put below the key `error`."""
    return {"message": message, "type": kind, "param": None, "code": code}


def of(error: WorkbookError) -> dict[str, Any]:
    """An error of this package as OpenAI's API describes it."""
    if isinstance(error, RequestError):
        return described(error.message, kind=_kind(_status(error)))
    if isinstance(error, ServerError):
        return described(str(error), "unavailable", "server_error")
    return described(str(error), "model_not_found")


def response(request: Request, error: Exception) -> JSONResponse:
    """An error in the form that OpenAI's clients read.

    An error of Triton's keeps its HTTP status, because clients retry only requests that got a 5xx.
    """
    if isinstance(error, WorkbookError):
        return JSONResponse({"error": of(error)}, _status(error))
    if isinstance(error, RequestValidationError):
        return JSONResponse({"error": described("; ".join(map(_complaint, error.errors())))}, 400)
    if isinstance(error, HTTPException):
        what, code = str(error.detail), None
        if error.status_code in (404, 405):
            what, code = f"{request.method} {request.url.path} is not known here", "unknown_url"
        content = described(what, code, _kind(error.status_code))
        return JSONResponse({"error": content}, error.status_code, headers=error.headers)
    return JSONResponse({"error": described(repr(error), kind="server_error")}, 500)


def _status(error: WorkbookError) -> int:
    """The HTTP status of an error. An error with 200 came after the answer began: 500."""
    if isinstance(error, RequestError):
        began = error.status is not None and error.status < 400
        return 500 if began else error.status or 400
    return 503 if isinstance(error, ServerError) else 404


def _kind(status: int) -> str:
    return "server_error" if status >= 500 else "invalid_request_error"


def _complaint(error: Mapping[str, Any]) -> str:
    """One mistake in a request's body, as a sentence that begins with the field."""
    if error["type"] == "json_invalid":
        return f"the body is not JSON: {error['ctx']['error']}, at character {error['loc'][1]}"
    field = ".".join(map(str, error["loc"][1:])) or "the body"
    if error["type"] == "extra_forbidden":
        return f"{field}: not supported here; leave it out"
    return f"{field}: {error['msg']}"
