import { expect, test } from "vitest";
import { takeLinkKey } from "@/shell/loginLink";

function viewAt(address: string) {
  const url = new URL(address, "http://corral.test");
  const replaced: string[] = [];
  return {
    replaced,
    location: url as unknown as Location,
    history: {
      state: { kept: true },
      replaceState: (_state: unknown, _title: string, to: string) => replaced.push(to),
    } as unknown as History,
  };
}

test("takeLinkKey returns the key and takes it out of the address", () => {
  const view = viewAt("/app/nodes?q=gpu#key=ck_a%2Bb");
  expect(takeLinkKey(view)).toBe("ck_a+b");
  expect(view.replaced).toEqual(["/app/nodes?q=gpu"]);
});

test.each(["/app/", "/app/#top", "/app/#key="])("takeLinkKey leaves %s alone", (address) => {
  const view = viewAt(address);
  expect(takeLinkKey(view)).toBeNull();
  expect(view.replaced).toEqual([]);
});
