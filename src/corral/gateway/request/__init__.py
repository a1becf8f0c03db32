"""Makes an `InferenceRequest` of the head and the body that a client sent: caller, model and the engine's body."""
