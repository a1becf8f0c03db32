"""What people and collectors see of the requests that pass: `/api/live`, and the requests' part of `/metrics`."""

from corral.api.insight.live import router

__all__ = ["router"]
