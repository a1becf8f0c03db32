"""The HTTP API: routes parse and authorise a request, call one service and render its result. They decide nothing."""

from corral.api.lazy_fields import make_fields_lazy

make_fields_lazy()
