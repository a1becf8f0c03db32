"""Models as configurations: create and change them, galleries to create them from, rules, and the whole fleet as a
file."""
