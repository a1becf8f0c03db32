"""One module for each generated page of `docs/reference`. Each has `render() -> str` and reads only the code."""
