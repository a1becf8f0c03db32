"""Webhooks of jobs: signed, for every end, tried again on failures of the receiver only, and recorded."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import json
from datetime import UTC, datetime

import pytest

from corral.domain.access import Owner
from corral.domain.errors import Unprocessable
from corral.domain.task import TaskRun, TaskWebhook, WebhookState
from corral.policy.webhooks import ATTEMPTS_MAX, format_secret, parse_secret, sign_delivery
from corral.store import webhooks as store
from corral.store.webhooks import ClaimLimits
from corral.tasks.webhook_sender import SENDING_OF_OWNER_MAX, UNSENT_LIMIT_S
from tests.operations.fake_bus import Hub
from tests.operations.scene import sql
from tests.runs.scene import RunWorker, put_owner
from tests.support.polling import eventually
from tests.support.ports import find_free_port
from tests.tasks.scene import ReceivedWebhook, TaskFrontend, WebhookReceiver, slow_source


def check_signature(key: bytes, received: ReceivedWebhook) -> bool:
    """Verify a delivery as a receiver does, by the text of the specification."""
    headers = received.headers
    content = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + received.body
    expected = base64.b64encode(hmac.new(key, content, hashlib.sha256).digest()).decode()
    return headers["webhook-signature"] == f"v1,{expected}"


async def start(frontend: TaskFrontend, owner: Owner, *webhooks: TaskWebhook, **fields: str) -> TaskRun:
    """Start a job of a task with these webhooks."""
    await frontend.create(owner, prompt="Hello {{ name }}", webhooks=webhooks, **fields)
    job = await frontend.execute(owner, parameters={"name": "Ann"})
    await frontend.run()
    return job


async def finish(frontend: TaskFrontend, worker: RunWorker, **outcome: str) -> None:
    await worker.end(frontend, **outcome)
    await frontend.run()


async def reread(frontend: TaskFrontend, job: TaskRun) -> TaskRun:
    return await frontend.tasks.get_run(job.run.id, None)


@pytest.mark.behaviour("TASK-14")
async def test_webhook_of_a_completed_job_is_signed_and_says_what_happened(
    frontend: TaskFrontend, owner: Owner, worker: RunWorker, receiver: WebhookReceiver
) -> None:
    job = await start(frontend, owner, TaskWebhook(url=f"{receiver.url}/hook?token=1", headers={"X-Team": "blue"}))
    assert await frontend.send() == 0
    await finish(frontend, worker, content="Hi!")
    assert await frontend.send() == 1
    [received] = receiver.received
    task_id = job.run.task_id
    assert check_signature(f"the key of task {task_id}".encode(), received)
    assert not check_signature(b"another key", received)
    assert (received.method, received.path, received.headers["X-Team"]) == ("POST", "/hook", "blue")
    assert received.headers["Content-Type"] == "application/json"
    payload = received.json
    assert (payload["type"], payload["status"], payload["result"]) == ("job.completed", "completed", "Hi!")
    assert (payload["job"]["id"], payload["job"]["node"], payload["error"]) == (job.run.id, "agent-1", None)
    assert payload["task"] == {"id": task_id, "name": "greet", "model": "chat"}
    assert payload["parameters"] == {"name": "Ann"}
    [delivery] = (await reread(frontend, job)).deliveries
    assert (delivery.state, delivery.attempts, delivery.last_status) == (WebhookState.DELIVERED, 1, 200)
    assert delivery.url == f"{receiver.url}/hook"
    assert delivery.delivered_at is not None
    assert await frontend.send() == 0


@pytest.mark.behaviour("TASK-14")
async def test_webhooks_are_sent_for_failed_cancelled_and_lost_jobs(
    frontend: TaskFrontend, owner: Owner, worker: RunWorker, receiver: WebhookReceiver
) -> None:
    await start(frontend, owner, TaskWebhook(url=receiver.url))
    await finish(frontend, worker, state="failed", error_code="model_error", error_text="The model failed.")
    await frontend.send()
    pending = await frontend.execute(owner, parameters={"name": "Bob"})
    await frontend.runs.cancel(pending.run.id, None, "ann")
    await frontend.send()
    lost = await frontend.execute(owner, parameters={"name": "Eve"})
    await frontend.run()
    for _ in range(2):
        worker.jobs.clear()
        await frontend.wait_out(lost.run.id, 60)
    await frontend.send()
    assert [(one.json["status"], bool(one.json["error"])) for one in receiver.received] == [
        ("failed", True), ("cancelled", False), ("failed", True)]  # fmt: skip
    assert receiver.received[0].json["error"] == "The model failed."


@pytest.mark.behaviour("TASK-14")
async def test_webhook_is_tried_again_on_failures_of_the_receiver_with_the_same_id(
    frontend: TaskFrontend, owner: Owner, worker: RunWorker, receiver: WebhookReceiver
) -> None:
    receiver.statuses = [500, 503]
    job = await start(frontend, owner, TaskWebhook(url=receiver.url))
    await finish(frontend, worker)
    await frontend.send()
    [waiting] = (await reread(frontend, job)).deliveries
    assert (waiting.state, waiting.last_status, waiting.last_error) == (
        WebhookState.PENDING, 500, "The receiver answered 500.")  # fmt: skip
    [row] = await sql(frontend.database, "SELECT next_at FROM webhook_deliveries")
    assert row.next_at is not None
    await frontend.send_all()
    assert len(receiver.received) == 3
    assert len({one.headers["webhook-id"] for one in receiver.received}) == 1
    [delivery] = (await reread(frontend, job)).deliveries
    assert (delivery.state, delivery.attempts, delivery.last_error) == (WebhookState.DELIVERED, 3, "")


@pytest.mark.behaviour("TASK-14")
async def test_webhook_fails_for_good_after_three_attempts(
    frontend: TaskFrontend, owner: Owner, worker: RunWorker, receiver: WebhookReceiver
) -> None:
    receiver.statuses = [500] * 10
    job = await start(frontend, owner, TaskWebhook(url=receiver.url))
    await finish(frontend, worker)
    await frontend.send_all()
    assert len(receiver.received) == ATTEMPTS_MAX
    [delivery] = (await reread(frontend, job)).deliveries
    assert (delivery.state, delivery.last_error) == (WebhookState.FAILED, "The receiver answered 500.")


@pytest.mark.behaviour("TASK-14")
@pytest.mark.parametrize("status", [400, 404, 410, 429])
async def test_webhook_that_the_receiver_refuses_is_not_tried_again(
    frontend: TaskFrontend, owner: Owner, worker: RunWorker, receiver: WebhookReceiver, status: int
) -> None:
    receiver.statuses = [status]
    job = await start(frontend, owner, TaskWebhook(url=receiver.url))
    await finish(frontend, worker)
    await frontend.send_all()
    assert len(receiver.received) == 1
    [delivery] = (await reread(frontend, job)).deliveries
    assert (delivery.state, delivery.last_status) == (WebhookState.FAILED, status)


@pytest.mark.behaviour("TASK-14")
async def test_webhook_is_tried_again_if_no_connection_can_be_made(
    frontend: TaskFrontend, owner: Owner, worker: RunWorker
) -> None:
    job = await start(frontend, owner, TaskWebhook(url=f"http://127.0.0.1:{find_free_port()}/"))
    await finish(frontend, worker)
    await frontend.send_all()
    [delivery] = (await reread(frontend, job)).deliveries
    assert (delivery.state, delivery.attempts, delivery.last_status) == (WebhookState.FAILED, ATTEMPTS_MAX, None)
    assert "127.0.0.1" in delivery.last_error


@pytest.mark.behaviour("TASK-13")
async def test_webhook_follows_no_redirect(
    frontend: TaskFrontend, owner: Owner, worker: RunWorker, receiver: WebhookReceiver
) -> None:
    receiver.statuses, receiver.location = [302], "http://169.254.169.254/latest/meta-data"
    job = await start(frontend, owner, TaskWebhook(url=f"{receiver.url}/first"))
    await finish(frontend, worker)
    await frontend.send_all()
    assert [one.path for one in receiver.received] == ["/first"]
    [delivery] = (await reread(frontend, job)).deliveries
    assert (delivery.state, delivery.last_status) == (WebhookState.FAILED, 302)
    assert "redirects are not followed" in delivery.last_error


@pytest.mark.behaviour("TASK-13")
async def test_webhook_into_a_private_network_is_refused_unless_the_operator_allows_it(
    frontend: TaskFrontend, owner: Owner, hub: Hub, worker: RunWorker, receiver: WebhookReceiver
) -> None:
    strict = TaskFrontend(frontend.database, hub, "frontend-2", allows_private=False)
    job = await start(frontend, owner, TaskWebhook(url=receiver.url), TaskWebhook(url="http://192.168.0.1/"))
    await finish(frontend, worker)
    assert await strict.send() == 2
    await strict.fetcher.stop()
    assert receiver.received == []
    for delivery in (await reread(frontend, job)).deliveries:
        assert delivery.state is WebhookState.FAILED
        assert "private network" in delivery.last_error


async def test_payload_of_a_webhook_can_be_a_template_of_localai(
    frontend: TaskFrontend, owner: Owner, worker: RunWorker, receiver: WebhookReceiver
) -> None:
    template = '{"text": {{json .Result}}, "state": "{{.Status}}", "who": {{ parameters.name | json }}}'
    headers = {"Content-Type": "application/vnd.chat+json"}
    await start(
        frontend, owner, TaskWebhook(url=receiver.url, method="PUT", payload_template=template, headers=headers)
    )
    await finish(frontend, worker, content='a "quoted" answer')
    await frontend.send()
    [received] = receiver.received
    assert received.method == "PUT"
    assert received.headers["Content-Type"] == "application/vnd.chat+json"
    assert received.json == {"text": 'a "quoted" answer', "state": "completed", "who": "Ann"}


async def test_template_that_cannot_be_used_fails_the_webhook_and_says_why(
    frontend: TaskFrontend, owner: Owner, worker: RunWorker, receiver: WebhookReceiver
) -> None:
    job = await start(frontend, owner, TaskWebhook(url=receiver.url, payload_template="{{ nothing }}"))
    await finish(frontend, worker)
    await frontend.send_all()
    assert receiver.received == []
    [delivery] = (await reread(frontend, job)).deliveries
    assert (delivery.state, delivery.attempts) == (WebhookState.FAILED, 1)
    assert "'nothing' is missing" in delivery.last_error


async def test_secrets_of_a_webhook_are_sent_and_stored_nowhere(
    frontend: TaskFrontend, owner: Owner, worker: RunWorker, receiver: WebhookReceiver
) -> None:
    key = b"a signing key of thirty-two bytes"
    frontend.secrets.values = {
        "ci": "t0p-s3cret",
        "sign": format_secret(key),
        "where": f"{receiver.url}/services/hidden",
    }
    webhook = TaskWebhook(url="secret:where", headers={"Authorization": "Bearer secret:ci"})
    job = await start(frontend, owner, webhook, webhook_secret="secret:sign")
    await finish(frontend, worker)
    await frontend.send()
    [received] = receiver.received
    assert (received.path, received.headers["Authorization"]) == ("/services/hidden", "Bearer t0p-s3cret")
    assert check_signature(key, received)
    assert (await reread(frontend, job)).deliveries[0].url == "secret:where"
    stored = json.dumps([list(map(str, row)) for row in await sql(
        frontend.database, "SELECT request::text FROM runs UNION ALL SELECT last_error || url FROM webhook_deliveries"
    )])  # fmt: skip
    assert "t0p-s3cret" not in stored
    assert "hidden" not in stored


async def test_missing_secret_fails_the_webhook_at_once(
    frontend: TaskFrontend, owner: Owner, worker: RunWorker, receiver: WebhookReceiver
) -> None:
    job = await start(frontend, owner, TaskWebhook(url=receiver.url, headers={"X-Token": "secret:gone"}))
    await finish(frontend, worker)
    await frontend.send_all()
    [delivery] = (await reread(frontend, job)).deliveries
    assert (delivery.state, delivery.attempts) == (WebhookState.FAILED, 1)
    assert "gone" in delivery.last_error
    assert receiver.received == []


@pytest.mark.behaviour("TASK-14")
async def test_frontends_share_deliveries_and_send_each_once(
    frontend: TaskFrontend, owner: Owner, hub: Hub, worker: RunWorker, receiver: WebhookReceiver
) -> None:
    others = [TaskFrontend(frontend.database, hub, f"frontend-{number}") for number in (2, 3)]
    webhooks = [TaskWebhook(url=f"{receiver.url}/{number}") for number in range(8)]
    await start(frontend, owner, *webhooks)
    await finish(frontend, worker)
    while sum(await asyncio.gather(*(one.send() for one in (frontend, *others)))):
        pass
    assert sorted(one.path for one in receiver.received) == [f"/{number}" for number in range(8)]
    for other in others:
        await other.fetcher.stop()


@pytest.mark.behaviour("TASK-22")
async def test_receiver_that_does_not_answer_holds_up_webhooks_of_its_owner_only(
    frontend: TaskFrontend, owner: Owner, worker: RunWorker, receiver: WebhookReceiver
) -> None:
    other = await put_owner(frontend.database, "bob")
    async with slow_source() as slow:
        await frontend.create(owner, webhooks=(TaskWebhook(url=slow.media.url),))
        await frontend.create(other, webhooks=(TaskWebhook(url=receiver.url),))
        for one in [owner] * (SENDING_OF_OWNER_MAX + 1) + [other]:
            job = await frontend.execute(one)
            await frontend.runs.cancel(job.run.id, None, "ann")
        # Those of one owner that are under way already count, too.
        assert await frontend.webhooks.tick() == SENDING_OF_OWNER_MAX + 1
        await eventually(lambda: slow.is_called(SENDING_OF_OWNER_MAX))
        assert await frontend.webhooks.tick() == 0
        await eventually(lambda: list_states(frontend, other))
        assert await list_states(frontend, other) == ["delivered"]
        slow.released.set()
        await frontend.webhooks.join()
        assert await frontend.send() == 1
        assert slow.calls == SENDING_OF_OWNER_MAX + 1
    assert worker.starts == []


async def list_states(frontend: TaskFrontend, owner: Owner) -> list[str]:
    """Return the states of an owner's webhooks that have been sent."""
    rows = await sql(
        frontend.database,
        "SELECT d.state FROM webhook_deliveries d JOIN runs r ON r.id = d.run_id WHERE r.owner = :owner"
        " AND d.state <> 'pending'",
        owner=str(owner),
    )
    return [row.state for row in rows]


@pytest.mark.behaviour("TASK-22")
async def test_attempt_that_was_never_sent_does_not_count_and_is_made_again_for_a_while(
    frontend: TaskFrontend, owner: Owner, worker: RunWorker, receiver: WebhookReceiver
) -> None:
    webhook = TaskWebhook(url=receiver.url, headers={"Authorization": "Bearer secret:chat"})
    await frontend.create(owner, webhooks=(webhook,))
    jobs = [await frontend.execute(owner) for _ in range(2)]
    for job in jobs:
        await frontend.runs.cancel(job.run.id, None, "ann")
    # This frontend lacks the key of the secret.
    frontend.secrets.unreadable.add("chat")
    for _ in range(ATTEMPTS_MAX + 1):
        assert await frontend.send() == 2
        await sql(frontend.database, "UPDATE webhook_deliveries SET next_at = corral_now()")
    [delivery] = (await reread(frontend, jobs[0])).deliveries
    assert (delivery.state, delivery.attempts) == (WebhookState.PENDING, 0)
    assert "chat" in delivery.last_error
    await sql(
        frontend.database,
        "UPDATE runs SET finished_at = finished_at - make_interval(secs => :s) WHERE id = CAST(:id AS uuid)",
        s=UNSENT_LIMIT_S,
        id=jobs[1].run.id,
    )
    assert await frontend.send() == 2
    [failed] = (await reread(frontend, jobs[1])).deliveries
    assert (failed.state, failed.attempts) == (WebhookState.FAILED, 1)
    frontend.secrets.unreadable.clear()
    frontend.secrets.values["chat"] = "s3cret"
    await frontend.send_all()
    [sent] = (await reread(frontend, jobs[0])).deliveries
    assert (sent.state, sent.attempts, len(receiver.received)) == (WebhookState.DELIVERED, 1, 1)
    assert worker.starts == []


@pytest.mark.behaviour("TASK-14")
async def test_delivery_of_a_frontend_that_died_is_sent_by_another_one(
    frontend: TaskFrontend, owner: Owner, worker: RunWorker, receiver: WebhookReceiver
) -> None:
    job = await start(frontend, owner, TaskWebhook(url=receiver.url))
    await finish(frontend, worker)
    async with frontend.database.transaction() as tx:
        limits = ClaimLimits(number=10, of_owner=10, attempts=ATTEMPTS_MAX, lease_s=60)
        [claimed] = await store.claim_due(tx, limits, {})
    assert claimed.attempt == 1
    assert await frontend.send() == 0
    await sql(frontend.database, "UPDATE webhook_deliveries SET next_at = corral_now()")
    assert await frontend.send() == 1
    [delivery] = (await reread(frontend, job)).deliveries
    assert (delivery.state, delivery.attempts) == (WebhookState.DELIVERED, 2)


async def test_delivery_that_was_claimed_for_the_last_time_by_a_frontend_that_died_is_failed(
    frontend: TaskFrontend, owner: Owner, worker: RunWorker, receiver: WebhookReceiver
) -> None:
    job = await start(frontend, owner, TaskWebhook(url=receiver.url))
    await finish(frontend, worker)
    await sql(frontend.database, "UPDATE webhook_deliveries SET attempts = 3, next_at = corral_now()")
    assert await frontend.send() == 0
    [delivery] = (await reread(frontend, job)).deliveries
    assert delivery.state is WebhookState.FAILED
    assert delivery.last_error
    assert receiver.received == []


@pytest.mark.parametrize("text", ["short", "whsec_c2hvcnQ=", "whsec_not base64!"])
def test_signing_secret_that_is_too_short_or_no_base64_is_refused(text: str) -> None:
    with pytest.raises(Unprocessable):
        parse_secret(text)


def test_signature_agrees_with_the_example_of_the_specification() -> None:
    key = parse_secret("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
    headers = sign_delivery(
        key, "msg_p5jXN8AQM9LWM0D4loKWxJek", datetime.fromtimestamp(1614265330, UTC), b'{"test": 2432232314}'
    )
    assert headers["webhook-signature"] == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
