import { expect, test } from "vitest";
import { makeCodeSample } from "@/pages/playground/samples";

const BODY = { model: "m", messages: [{ role: "user", content: "It's me" }], temperature: 0.7 };

test("quotes in a question survive the shell", () => {
  expect(makeCodeSample("curl", "http://a:1", BODY)).toContain(`It'\\''s me`);
});

test("each language names the address, the model and the parameters", () => {
  for (const language of ["curl", "Python", "JavaScript"] as const) {
    const code = makeCodeSample(language, "http://a:1", BODY);
    expect(code).toContain("http://a:1/v1");
    expect(code).toContain('"m"');
    expect(code).toContain("temperature");
  }
});
