import { dropUndefined, parseChoice, parseText } from "@/text/search";

export const skillsSearch = (search: Record<string, unknown>) =>
  dropUndefined({
    q: parseText(search, "q"),
    /** The dialog that is open. */
    add: parseChoice(search, "add", ["new", "import"] as const),
  });
