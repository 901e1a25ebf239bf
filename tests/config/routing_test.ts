import assert from "node:assert/strict";
import { describeConfig } from "../../src/config/describe.ts";
import { loadText, LOCAL, refusal } from "./load_fixture.ts";

const REMOTE = { baseUrl: "http://127.0.0.1:8001/v1" };

Deno.test("routing of a model is read, and told by the check", async () => {
  const loaded = await loadText({
    providers: { local: LOCAL, far: REMOTE },
    models: {
      fast: {
        targets: ["local/m1", "far/x"],
        strategy: "weights",
        weights: { "far/x": 0.5 },
        hedge: {},
        rules: [{ when: { tag: "batch", maxBytes: 10 }, targets: ["far/y"] }],
        fallbacks: ["slow"],
      },
      slow: { targets: ["local/m2"] },
    },
  });
  const { fast } = loaded.config.models;
  assert.ok(typeof fast === "object");
  assert.deepEqual(fast.rules, [{ when: { tag: "batch", maxBytes: 10 }, targets: ["far/y"] }]);
  assert.match(
    describeConfig(loaded).join("\n"),
    /fast: by weights of local\/m1, far\/x; hedged; 1 rule; falls back to slow/,
  );
});

Deno.test("rules, weights and fallbacks that name nothing are mistakes", async () => {
  const { paths } = await refusal(loadText({
    providers: { local: LOCAL },
    models: {
      fast: {
        targets: ["local/m1"],
        strategy: "fastest",
        weights: { "local/m2": 1 },
        hedge: { maxPercent: 101 },
        rules: [{ when: {}, targets: ["local/m3"] }, { when: { tags: [] }, targets: ["local/m1"] }],
        fallbacks: ["fast", "none", "local/m2"],
      },
    },
  }));
  assert.deepEqual(paths.toSorted(), [
    "models.fast.fallbacks[0]",
    "models.fast.fallbacks[1]",
    "models.fast.fallbacks[2]",
    "models.fast.hedge.maxPercent",
    "models.fast.rules[0].targets[0]",
    "models.fast.rules[1].when.tags",
    "models.fast.strategy",
    'models.fast.weights["local/m2"]',
  ]);
});

Deno.test("keys of a pool are secret, checked, and instead of a single one", async () => {
  const env = { ONE: "canary-1", OPENAI_API_KEY: "canary-3" };
  const loaded = await loadText({
    providers: { openai: { apiKeys: ["${ONE}", "canary-2"] } },
    models: { m: { targets: ["openai/x"] } },
  }, { env });
  assert.deepEqual(loaded.config.providers.openai?.apiKeys, ["canary-1", "canary-2"]);
  assert.equal(loaded.config.providers.openai?.apiKey, undefined);
  assert.deepEqual(loaded.secrets.toSorted(), ["canary-1", "canary-2"]);
  assert.deepEqual(loaded.notes, []);
  const text = describeConfig(loaded).join("\n");
  assert.match(text, /key from ONE/);
  assert.doesNotMatch(text, /canary/);
  const wrong = await refusal(loadText({
    providers: {
      openai: { apiKey: "canary-4", apiKeys: ["canary 5", "canary-6", "canary-6"] },
      groq: { apiKeys: [] },
    },
  }, { env }));
  assert.deepEqual(wrong.paths.toSorted(), [
    "providers.groq.apiKeys",
    "providers.openai.apiKeys",
    "providers.openai.apiKeys[0]",
    "providers.openai.apiKeys[2]",
  ]);
  assert.doesNotMatch(JSON.stringify(wrong.problems), /canary/);
});
