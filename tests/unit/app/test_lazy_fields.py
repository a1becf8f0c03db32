"""Routes build their validators when they are first used."""

from __future__ import annotations

from collections.abc import Iterator

from fastapi import FastAPI
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute

from corral.api.application import create_app
from corral.api.lazy_fields import LazyModelField
from corral.api.metrics import FrontendMetrics
from corral.wire.base import LenientModel


class MeterReading(LenientModel):
    number: int


class Report(LenientModel):
    readings: list[MeterReading]


def _list_fields(app: FastAPI) -> Iterator[object]:
    def list_parameters(dependant: Dependant) -> Iterator[object]:
        yield from (*dependant.path_params, *dependant.query_params, *dependant.header_params, *dependant.body_params)
        for one in dependant.dependencies:
            yield from list_parameters(one)

    for route in app.routes:
        if isinstance(route, APIRoute):
            yield from list_parameters(route.dependant)
            yield from (field for field in (route.body_field, route.response_field) if field is not None)


def test_fields_of_all_routes_are_lazy() -> None:
    fields = list(_list_fields(create_app(None, FrontendMetrics())))
    assert len(fields) > 500
    assert [field for field in fields if not isinstance(field, LazyModelField)] == []


def test_route_builds_the_validators_of_its_fields_at_their_first_use() -> None:
    app = FastAPI()

    @app.post("/readings")
    def list_readings(body: Report, limit: int = 1) -> list[Report]:
        return [body][:limit]

    fields = {field.name: field for field in _list_fields(app) if isinstance(field, LazyModelField)}
    assert not any("_type_adapter" in vars(field) for field in fields.values())
    assert fields["limit"].validate("7") == (7, [])
    assert fields["limit"].validate("seven")[1][0]["type"] == "int_parsing"
    # A warning of pydantic would fail the test.
    report, problems = fields["body"].validate({"readings": [{"number": 3}]})
    assert (report.readings[0].number, problems) == (3, [])
    assert {name for name, field in fields.items() if "_type_adapter" in vars(field)} == {"limit", "body"}


def test_models_of_bodies_are_built_at_their_first_use() -> None:
    class Body(LenientModel):
        number: int

    before = Body.__pydantic_complete__
    assert Body.model_validate({"number": 1}).number == 1
    assert (before, Body.__pydantic_complete__) == (False, True)
