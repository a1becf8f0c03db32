"""The bus over NATS: keys and signed claims, the client, revocation. Only `app`, `embedded` and tests import it."""
