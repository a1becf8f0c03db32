import { dropUndefined, parseText } from "@/text/search";

export const filesSearch = (search: Record<string, unknown>) => dropUndefined({ q: parseText(search, "q") });
