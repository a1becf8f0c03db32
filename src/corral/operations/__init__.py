"""Operations: admitted in one transaction, driven by whichever frontend holds their lease, ended exactly once."""
