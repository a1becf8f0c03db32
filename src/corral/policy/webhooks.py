"""What webhooks say and how they are signed, by the specification Standard Webhooks.

A delivery has an id that stays the same when it is tried again, the time of the attempt, and a signature over id, time
and body: `webhook-id`, `webhook-timestamp`, `webhook-signature`. Receivers check it with the secret `whsec_…` and any
library of the specification.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from corral.domain.errors import Unprocessable
from corral.domain.run import Run
from corral.domain.task import to_task_run_status
from corral.policy.templates import render_template

SECRET_PREFIX = "whsec_"  # noqa: S105 - a prefix, not a secret
# The specification asks for 24 to 64 bytes.
KEY_BYTES_MIN = 24
# The first attempt, and those after pauses of one and two seconds.
ATTEMPTS_MAX = 3
PAUSES_S = (1.0, 2.0)
TIMEOUT_S = 30.0


def format_secret(key: bytes) -> str:
    """Return a signing key as receivers are given it."""
    return SECRET_PREFIX + base64.b64encode(key).decode()


def parse_secret(text: str) -> bytes:
    """Return the signing key of a stored secret: `whsec_` and base64, or any text that is long enough."""
    value = text.strip()
    if value.startswith(SECRET_PREFIX):
        try:
            key = base64.b64decode(value.removeprefix(SECRET_PREFIX), validate=True)
        except ValueError as error:
            raise Unprocessable(
                "The secret that webhooks are signed with is not valid base64.", code="bad_webhook_secret"
            ) from error
    else:
        key = value.encode()
    if len(key) < KEY_BYTES_MIN:
        raise Unprocessable(
            f"The secret that webhooks are signed with has fewer than {KEY_BYTES_MIN} bytes.",
            hint="`openssl rand -base64 32` makes one; write whsec_ before it.",
            code="bad_webhook_secret",
        )
    return key


def sign_delivery(key: bytes, delivery_id: str, moment: datetime, body: bytes) -> dict[str, str]:
    """Return the headers that identify and sign one attempt."""
    timestamp = str(int(moment.timestamp()))
    signed = b".".join((delivery_id.encode(), timestamp.encode(), body))
    signature = base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
    return {"webhook-id": delivery_id, "webhook-timestamp": timestamp, "webhook-signature": f"v1,{signature}"}


def describe_job(run: Run) -> dict[str, Any]:
    """Return the description of a job that a webhook sends."""
    return {
        "id": run.id,
        "status": str(to_task_run_status(run.state)),
        "triggered_by": str(run.trigger),
        "node": run.node_name,
        "attempt": run.attempt,
        "created_at": run.created_at.isoformat(),
        "started_at": run.started_at.isoformat() if run.started_at else None,
        "finished_at": run.finished_at.isoformat() if run.finished_at else None,
    }


def make_payload(run: Run) -> dict[str, Any]:
    """Return the values that a template of a body may use, which are also the body without a template."""
    job = describe_job(run)
    request = run.request
    return {
        "type": f"job.{job['status']}",
        "timestamp": job["finished_at"],
        "job": job,
        "task": {"id": request.get("task_id"), "name": run.subject, "model": request.get("model")},
        "status": job["status"],
        "result": str((run.result or {}).get("content", "")),
        "error": run.fault.text if run.fault else None,
        "parameters": request.get("parameters", {}),
    }


def render_body(payload: Mapping[str, Any], template: str) -> bytes:
    """Return the body of a webhook. Raises `InvalidRequest` if the template cannot be used with this payload."""
    if not template:
        return json.dumps(payload, ensure_ascii=False).encode()
    # LocalAI's templates write the names with a capital.
    capitals = {name.capitalize(): value for name, value in payload.items()}
    return render_template(template, {**capitals, **payload}).encode()
