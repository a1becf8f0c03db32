"""Programs for the developers of Corral: generated reference pages, locked requirements, checks. Not part of the
product."""
