"""Models as configurations: making and changing them, galleries to make them from, rules, and a whole fleet at once."""
