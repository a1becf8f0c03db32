// What can be said of an address before the server looks at it.

const SCHEMES = ["https", "http", "file", "hf", "oci", "ollama", "wheel", "upload"];

/** A sentence; null if nothing is wrong, or nothing is there yet. */
export function addressProblem(address: string): string | null {
  if (address === "") return null;
  if (/\s/.test(address)) return "An address has no blanks in it.";
  const scheme = /^([a-z][a-z0-9+]*):/i.exec(address)?.[1]?.toLowerCase();
  if (address.startsWith("/")) return null;
  if (!scheme) return "It begins with https://, hf://, ollama:// or oci://.";
  if (!SCHEMES.includes(scheme)) return `Corral does not fetch from ${scheme}: addresses.`;
  if (!["upload", "wheel"].includes(scheme) && !address.slice(scheme.length).startsWith("://"))
    return `After ${scheme} comes ://`;
  return null;
}
