"""The bus made real with NATS: keys, tokens, revocation and a client that never gives up."""
