"""What travels on the bus: every subject, every message, and who may use which. No connection is made here."""
