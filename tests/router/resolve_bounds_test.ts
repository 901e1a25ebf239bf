import assert from "node:assert/strict";
import { loadConfig } from "../../src/config/load.ts";
import { MAX_KNOWN_NAMES } from "../../src/core/limits.ts";
import { createTargets } from "../../src/providers/create_targets.ts";
import { createResolver } from "../../src/router/resolve.ts";
import { TargetHealth } from "../../src/router/target_health.ts";
import { createFakeClock } from "../support/fake_clock.ts";

const LONG = "x".repeat(200);

/** The resolver of a hub with one provider, `up`, that serves any model, and the model `known`. */
async function createRig() {
  const text = JSON.stringify({
    providers: { up: { baseUrl: "http://up/v1", apiKey: "sk-up-1234" } },
    models: { known: { targets: ["up/m"] } },
    defaultModel: "known",
  });
  const { config } = await loadConfig({
    path: "/test/loophub.json",
    cwd: "/test",
    env: () => undefined,
    readText: (path) => Promise.resolve(path === "/test/loophub.json" ? text : null),
  });
  const send = () => Promise.reject(new Error("nothing is sent"));
  return createResolver(
    config,
    createTargets(config, {
      http: send,
      demo: send,
      now: () => 0,
      nextId: () => "id",
    }),
  );
}

Deno.test("names are bounded, well-formed and without control characters; other scripts are fine", async () => {
  const resolve = await createRig();
  const refused = [
    "",
    `up/${LONG}x`,
    `${LONG}x`,
    "up/a\u0000",
    "up/\n",
    "\u0085",
    "up/\ud800",
    "x".repeat(2 ** 20),
  ];
  for (const name of refused) {
    assert.throws(() => resolve(name), { code: "invalid_request", status: 400, param: "model" });
  }
  for (const name of ["known", `up/${LONG}`, "up/模型-é🌍", "up/a b", "up/vendor/model:free"]) {
    assert.equal(resolve(name).length, 1, name);
  }
  assert.throws(() => resolve(LONG), { code: "model_not_found" });
});

Deno.test("names that clients make up push each other out, and do not stay", async () => {
  const resolve = await createRig();
  const [first] = resolve("up/first");
  assert.equal(resolve("up/first")[0], first);
  for (let index = 0; index < MAX_KNOWN_NAMES; index++) resolve(`up/${index}`);
  const [again] = resolve("up/first");
  assert.notEqual(again, first);
  assert.deepEqual(again, first);
});

Deno.test("health remembers a bounded number of targets: those that failed last", () => {
  const health = new TargetHealth(createFakeClock());
  for (let failure = 0; failure < 5; failure++) health.failed("up/bad");
  for (let index = 1; index < MAX_KNOWN_NAMES; index++) health.failed(`up/${index}`);
  assert.equal(health.allows("up/bad"), false);
  health.failed("up/one-more");
  assert.equal(health.allows("up/bad"), true);
});
