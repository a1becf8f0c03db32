"""What the developers of Corral run: generated reference pages, locked requirements. Not part of the product."""
