"""Errors in the form that OpenAI's clients read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fastapi import Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse

from ...common.errors import RequestError, ServerError


def described(
    message: str, code: str | None = None, kind: str = "invalid_request_error"
) -> dict[str, Any]:
    """An error as OpenAI's API describes it, to be put below the key `error`."""
    return {"message": message, "type": kind, "param": None, "code": code}


def response(request: Request, error: Exception) -> JSONResponse:
    """An error in the form that OpenAI's clients read."""
    if isinstance(error, RequestError):
        return JSONResponse({"error": described(error.message)}, 400)
    if isinstance(error, RequestValidationError):
        return JSONResponse({"error": described("; ".join(map(_complaint, error.errors())))}, 400)
    if isinstance(error, ServerError):
        return JSONResponse({"error": described(str(error), "unavailable", "server_error")}, 503)
    return JSONResponse({"error": described(str(error), "model_not_found")}, 404)


def _complaint(error: Mapping[str, Any]) -> str:
    """One mistake in a request's body, as a sentence that begins with the field."""
    field = ".".join(map(str, error["loc"][1:]))
    if error["type"] == "extra_forbidden":
        return f"{field}: not supported here; leave it out"
    return f"{field}: {error['msg']}"
