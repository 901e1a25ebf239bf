import assert from "node:assert/strict";
import { didYouMean, nearestName } from "../../src/config/nearest_name.ts";

Deno.test("slips, swaps and other ways of writing find the name", () => {
  const names = ["server", "database", "baseUrl", "apiKey", "maxOutputTokens", "log"];
  for (
    const [slip, meant] of [
      ["servr", "server"],
      ["sevrer", "server"],
      ["base_url", "baseUrl"],
      ["baseURL", "baseUrl"],
      ["api-key", "apiKey"],
      ["maxOutputToken", "maxOutputTokens"],
      ["datbase", "database"],
      ["lgo", "log"],
    ] as const
  ) assert.equal(nearestName(slip, names), meant);
});

Deno.test("nothing is guessed for what is not close", () => {
  for (const name of ["x", "port", "lo", "serializer", ""]) {
    assert.equal(nearestName(name, ["server", "database", "log", "m1"]), null, name);
  }
  assert.equal(nearestName("m2", ["m1"]), null);
  assert.equal(nearestName("anything", []), null);
});

Deno.test("the closest of several wins", () => {
  assert.equal(
    didYouMean("gpt-5-min", ["gpt-5-mini", "gpt-5", "gpt-4-mini"]),
    ', did you mean "gpt-5-mini"',
  );
  assert.equal(didYouMean("unlike", ["server"]), "");
});
