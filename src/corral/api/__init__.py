"""The HTTP API: routes parse and authorise a request, call one service and render its result. They decide nothing."""
