import { expect, test } from "vitest";
import { isOnlyHere, stepsFor } from "@/pages/nodes/joining";

test("the command has the address and the token", () => {
  const steps = stepsFor("installed", "http://yard:8080", "cj_1");
  expect(steps).toHaveLength(1);
  expect(steps[0]?.command).toBe("corral worker --join http://yard:8080 --token cj_1");
});

test("an address of this machine only is said to be one", () => {
  expect(stepsFor("linux", "http://127.0.0.1:8080", "cj_1")[0]?.sentence).toContain("this machine only");
  expect(isOnlyHere("https://yard.example")).toBe(false);
});
