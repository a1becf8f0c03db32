// Makes the key of a message, by which the server stores it once however often it is sent.

const KEY_BYTES = 16;

/** `crypto.randomUUID` exists over https and on this machine only; random bytes exist everywhere. */
export function makeMessageKey(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(KEY_BYTES));
  return [...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}
