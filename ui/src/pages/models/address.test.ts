import { expect, test } from "vitest";
import { addressProblem } from "@/pages/models/address";

test("addresses that the server reads are left to it", () => {
  for (const address of [
    "",
    "https://host.example/a.gguf",
    "hf://o/r/f.gguf",
    "ollama://smol",
    "/srv/a.gguf",
    "upload:ab",
  ])
    expect(addressProblem(address), address).toBeNull();
});

test("an invalid address is reported while it is typed", () => {
  expect(addressProblem("host.example/a.gguf")).toContain("starts with");
  expect(addressProblem("ftp://host.example/a")).toContain("ftp");
  expect(addressProblem("https:/host.example/a")).toContain("://");
  expect(addressProblem("https://host example")).toContain("spaces");
});
