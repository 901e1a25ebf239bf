import assert from "node:assert/strict";
import fc from "fast-check";
import type { HubError } from "../../src/core/error.ts";
import { parseTarget } from "../../src/http/request_path.ts";
import { property } from "../support/property.ts";

Deno.test("plain targets are split and kept as they came", () => {
  assert.deepEqual(parseTarget("/v1/models/a%2Fb?x=1?y"), {
    path: "/v1/models/a%2Fb",
    search: "x=1?y",
  });
  for (
    const path of ["/", "/v1/x.y", "/a...b", "/.well-known/x", "/v1/models/gpt-4:free", "/..a"]
  ) {
    assert.equal(parseTarget(path).path, path);
  }
});

Deno.test("hostile targets are refused", () => {
  const hostile = [
    "",
    "*",
    "v1",
    "http://evil/v1/models",
    "//evil/v1",
    "/v1//models",
    "/v1/../admin",
    "/v1/..",
    "/./v1",
    "/v1/%2e%2e/admin",
    "/v1/.%2E/admin",
    "/v1/models/..%2fadmin",
    "/v1/models/x%2f..",
    "/v1/models/%2e",
    "/v1\\admin",
    "/v1/%5cadmin",
    "/v1/..%5cadmin",
    "/v1/%00",
    "/v1/%0d%0ax",
    "/v1/%zz",
    "/v1/%2",
    "/v1/%ff",
    "/v1#x",
    "/v1?x#y",
    "/v1 x",
    "/é",
    `/${"a".repeat(9000)}`,
  ];
  for (const target of hostile) {
    assert.throws(() => parseTarget(target), (error: HubError) => {
      assert.equal(error.code, "invalid_request", target);
      return true;
    }, target);
  }
});

property(
  "a path that passes means the same to a URL parser",
  fc.array(fc.constantFrom("a", "/", ".", "%2e", "%2F", "%5c", "..", "b", "%41", "\\", "?", "%"), {
    maxLength: 12,
  }),
  (pieces) => {
    const target = `/${pieces.join("")}`;
    let path: string;
    try {
      path = parseTarget(target).path;
    } catch {
      return;
    }
    assert.equal(new URL(`http://hub${target}`).pathname, path);
  },
  { runs: 1000 },
);
