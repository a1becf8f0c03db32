// Words for states, from the table that the command line shows too.
import { STATE_WORDS } from "@/text/stateWords.gen";

/** The word for a state; an unknown state, from a newer server, is shown as it is, with spaces for underscores. */
export function findStateWord(table: keyof typeof STATE_WORDS, state: string): string {
  const words: Readonly<Record<string, string>> = STATE_WORDS[table];
  return words[state] ?? state.replaceAll("_", " ");
}
