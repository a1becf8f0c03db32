// Offers a text to the browser as a file to save.

// The browser fetches the address of a blob in a process of its own, after the click has returned; on a busy machine
// seconds later. If the address is revoked before that, the download never begins.
const REVOKED_AFTER_MS = 60_000;

export function saveFile(name: string, text: string): void {
  const address = URL.createObjectURL(new Blob([text], { type: "text/plain" }));
  const link = document.createElement("a");
  link.href = address;
  link.download = name;
  link.click();
  window.setTimeout(() => URL.revokeObjectURL(address), REVOKED_AFTER_MS);
}
