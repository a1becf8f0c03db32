import { expect, test } from "vitest";
import { arrivals, isOnlyHere, stepsFor } from "@/pages/nodes/joining";

test("the command has the address and the token", () => {
  const steps = stepsFor("installed", "http://yard:8080", "cj_1");
  expect(steps).toHaveLength(1);
  expect(steps[0]?.command).toBe("corral worker --join http://yard:8080 --token cj_1");
});

test("a machine without Corral gets it first", () => {
  const [install, join] = stepsFor("linux", "http://yard:8080", "cj_1");
  expect(install?.command).toContain("pip install corral");
  expect(join?.command).toContain("~/corral/bin/corral worker --join");
});

test("an address of this machine only is known", () => {
  expect(isOnlyHere("http://127.0.0.1:8080")).toBe(true);
  expect(isOnlyHere("https://yard.example")).toBe(false);
});

test("who is new has come, and who was away and has started anew", () => {
  const node = (id: string, status: string, boot_id: string) => ({ id, status, boot_id });
  const before = [node("a", "healthy", "1"), node("b", "offline", "1"), node("c", "offline", "1")];
  const now = [
    node("a", "healthy", "2"),
    node("b", "healthy", "2"),
    node("c", "offline", "1"),
    node("d", "pending", "1"),
  ];
  expect(arrivals(before, now).map((one) => one.id)).toEqual(["b", "d"]);
});
