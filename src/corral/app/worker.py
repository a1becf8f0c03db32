"""`corral worker`: the program on one machine. It needs neither PostgreSQL's nor the API's libraries."""

from __future__ import annotations

import asyncio
import random
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass

import structlog

from corral import __version__
from corral.adapters.nats.client import NatsBus
from corral.adapters.nats.connection import Endpoint
from corral.adapters.nats.credentials import credential, new_user_key
from corral.adapters.nats.keys import KeyKind, key_from_seed
from corral.adapters.nats.tls import client_tls
from corral.adapters.system import SystemClock, SystemIds
from corral.app.logs import configure_logging
from corral.app.settings import WorkerSettings
from corral.ports.runtime import Clock
from corral.runtime.services import Services
from corral.worker.address import Advertised, advertise
from corral.worker.agent import Agent, Profile, Surroundings
from corral.worker.hardware import RealMachine
from corral.worker.health import HealthServer, listen
from corral.worker.home import hold_home
from corral.worker.http_control import HttpControl, frontend_urls
from corral.worker.identity import BusKeys, IdentityFile
from corral.worker.link import Grant, OpenBus, WorkerBus
from corral.worker.readings import MachineReadings

log = structlog.get_logger(__name__)

BUS_KEYS = BusKeys(
    new=new_user_key,
    public_of=lambda seed: key_from_seed(seed, KeyKind.USER).public,
)


def run_worker(settings: WorkerSettings) -> int:
    """Work until SIGINT, SIGTERM or a stop over the bus; the exit code. Raises what ends a worker for good."""
    configure_logging(settings.log_format, settings.log_level)
    with hold_home(settings.worker_home), asyncio.Runner(loop_factory=_loop_factory()) as runner:
        runner.run(_work(settings))
    return 0


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    if sys.platform == "win32":
        return None
    import uvloop  # noqa: PLC0415 - not there on Windows

    return uvloop.new_event_loop


@dataclass(frozen=True, slots=True, kw_only=True)
class Worker:
    """A worker that is put together and not started; the caller holds its folder."""

    services: Services
    agent: Agent
    health: HealthServer


async def _work(settings: WorkerSettings) -> None:
    worker = compose_worker(settings)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, worker.services.end)
    log.info("worker starts", node=settings.name, version=__version__, join=settings.join, port=worker.health.port)
    await worker.services.run()
    log.info("worker stopped", node=settings.name)


def compose_worker(settings: WorkerSettings) -> Worker:
    clock, ids = SystemClock(), SystemIds()
    urls = frontend_urls(settings.join)
    file = IdentityFile(settings.worker_home, BUS_KEYS)
    identity = file.load_or_create(ids)
    services = Services()
    control = HttpControl(urls, identity.credential, clock=clock, ids=ids)
    rng = random.Random()  # noqa: S311 - jitter, not secrets
    open_bus = bus_opener(settings, clock, rng, on_crash=services.end)
    listener = listen(settings.http_host, settings.http_port)
    port = listener.getsockname()[1]
    around = Surroundings(
        control=control,
        open_bus=open_bus,
        readings=MachineReadings(
            RealMachine(), models_dir=settings.models_dir, capability=settings.capability, clock=clock
        ),
        addresses=lambda: asyncio.to_thread(_advertised, settings, port, urls),
        save_identity=lambda changed: asyncio.to_thread(file.save, changed),
        new_bus_key=BUS_KEYS.new,
        clock=clock,
        rng=rng,
    )
    agent = Agent(_profile(settings, ids.new_id()), identity, around, on_end=services.end)
    health = HealthServer(listener, agent.not_ready)
    services.add(_Closing(control), health, agent)
    return Worker(services=services, agent=agent, health=health)


def _profile(settings: WorkerSettings, boot_id: str) -> Profile:
    return Profile(
        name=settings.name,
        version=__version__,
        frontend=settings.join,
        boot_id=boot_id,
        node_type=settings.node_type,
        token=settings.token.get_secret_value() if settings.token else None,
        labels=settings.labels,
        max_replicas_per_model=settings.max_replicas_per_model,
        vram_budget=settings.vram_budget,
    )


def _advertised(settings: WorkerSettings, port: int, urls: tuple[str, ...]) -> Advertised:
    return advertise(wanted=settings.address, http_host=settings.http_host, http_port=port, frontends=urls)


def bus_opener(
    settings: WorkerSettings, clock: Clock, rng: random.Random, *, on_crash: Callable[[BaseException], None]
) -> OpenBus:
    """How a bus is made of what a frontend grants; a wrong certificate is told now, not at the first grant."""
    tls = client_tls(tls_ca=settings.nats_tls_ca, tls_cert=settings.nats_tls_cert, tls_key=settings.nats_tls_key)

    def open_bus(grant: Grant, newest: Callable[[], Grant]) -> WorkerBus:
        urls = tuple(url.strip() for url in (settings.nats_url or grant.url).split(","))
        endpoint = Endpoint(urls=urls, client_name=f"corral worker {settings.name}", tls=tls)
        return NatsBus(
            endpoint,
            lambda: credential(newest().token, newest().seed, subject_id=grant.node_id),
            clock=clock,
            rng=rng,
            on_crash=on_crash,
        )

    return open_bus


class _Closing:
    """Connections to the frontends are closed last: the goodbye needs them."""

    name = "control"

    def __init__(self, control: HttpControl) -> None:
        self._control = control

    async def start(self) -> None:
        return

    async def stop(self) -> None:
        await self._control.close()
