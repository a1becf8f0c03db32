import { expect, test } from "vitest";
import { listArrivals, makeJoinCommand } from "@/pages/nodes/joinCommands";

const join = {
  url: "http://yard:8080",
  problem: null,
  hint: null,
  command: "curl -fsSL http://yard:8080/join | sh -s -- --token {token}",
  command_without_curl: "python3 -c … | sh -s -- --token {token}",
  worker_command: "corral worker --join http://yard:8080 --token {token}",
  version: "0.1.0",
  wheel_sha256: "a1b2",
  script_sha256: "c3d4",
};

test("the command is the server's, with the token", () => {
  expect(makeJoinCommand("curl", join, "cj_1")).toBe(
    "curl -fsSL http://yard:8080/join | sh -s -- --token cj_1",
  );
  expect(makeJoinCommand("python", join, "cj_1")).toBe("python3 -c … | sh -s -- --token cj_1");
  expect(makeJoinCommand("installed", join, "cj_1")).toBe(
    "corral worker --join http://yard:8080 --token cj_1",
  );
});

test("new node and a known node that restarts both count as joined", () => {
  const node = (id: string, status: string, boot_id: string) => ({ id, status, boot_id });
  const before = [node("a", "healthy", "1"), node("b", "offline", "1"), node("c", "offline", "1")];
  const now = [
    node("a", "healthy", "2"),
    node("b", "healthy", "2"),
    node("c", "offline", "1"),
    node("d", "pending", "1"),
  ];
  expect(listArrivals(before, now).map((one) => one.id)).toEqual(["b", "d"]);
});
