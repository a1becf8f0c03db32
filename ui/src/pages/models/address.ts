// Checks the address of a model before it is sent to the server.

const SCHEMES = ["https", "http", "file", "hf", "oci", "ollama", "wheel", "upload"];

/** The problem with an address as a sentence; null if it is valid or empty. */
export function addressProblem(address: string): string | null {
  if (address === "") return null;
  if (/\s/.test(address)) return "A URL contains no spaces.";
  const scheme = /^([a-z][a-z0-9+]*):/i.exec(address)?.[1]?.toLowerCase();
  if (address.startsWith("/")) return null;
  if (!scheme) return "A URL starts with https://, hf://, ollama:// or oci://.";
  if (!SCHEMES.includes(scheme)) return `Unsupported URL scheme ${scheme}.`;
  if (!["upload", "wheel"].includes(scheme) && !address.slice(scheme.length).startsWith("://"))
    return `Expected :// after ${scheme}.`;
  return null;
}
