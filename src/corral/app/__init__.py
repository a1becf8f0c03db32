"""The composition root: settings, logging, and the wiring of the frontend, worker and `corral up` processes."""
