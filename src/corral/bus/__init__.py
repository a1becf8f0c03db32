"""The contract of the bus: every subject and message, and which role may use them. No connection is made here."""
