import assert from "node:assert/strict";
import { describeConfig, hidePassword } from "../../src/config/describe.ts";
import { load, loadText, LOCAL } from "./load_fixture.ts";

Deno.test("everything that would be started has its line", async () => {
  const loaded = await loadText({
    server: { host: "::1", port: 8080 },
    database: { url: "postgres://hub:db-canary@db:5432/hub?sslpassword=ssl-canary" },
    providers: {
      openai: { apiKey: "${MY_KEY}" },
      groq: {},
      local: { ...LOCAL, apiKey: "literal-canary" },
    },
    models: { fast: { targets: ["local/m1", "openai/x"] }, quick: "fast" },
    agents: { clerk: { tools: ["hub.*"], systemPrompt: "You are", models: ["quick", "fast"] } },
    operations: { modules: ["ops.ts"] },
  }, { env: { MY_KEY: "env-canary" }, files: { "/project/ops.ts": "" } });
  assert.deepEqual(describeConfig(loaded), [
    "file           /project/loophub.json",
    "address        http://[::1]:8080",
    "database       postgres://hub:***@db:5432/hub?sslpassword=***",
    "log            info, auto",
    "provider       openai: openai; https://api.openai.com/v1; key from MY_KEY; any model as openai/MODEL",
    "provider       groq: groq; https://api.groq.com/openai/v1; no key; any model as groq/MODEL",
    "provider       local: openai-compatible; http://127.0.0.1:8000/v1; key from the file; models m1, m2",
    "model          fast: local/m1, then openai/x",
    "model          quick: the same as fast",
    "default model  fast",
    "agent          clerk: models quick, then fast; tools hub.*; at most 10 steps; prompt its own",
    "agent          default: models fast; tools *; at most 10 steps",
    "operations     /project/ops.ts",
    "note           Provider groq has no key here; set GROQ_API_KEY or providers.groq.apiKey",
  ]);
});

Deno.test("without a file the lines say what was found", async () => {
  const lines = describeConfig(await load({ env: { OPENAI_API_KEY: "env-canary" } }));
  const text = lines.join("\n");
  assert.match(text, /file +none, defaults and the environment/);
  assert.match(text, /database +embedded Postgres in \/project\/\.loophub$/m);
  assert.match(text, /key from OPENAI_API_KEY/);
  assert.ok(!text.includes("canary"));
});

Deno.test("a provider named like a part of every object is nothing special", async () => {
  const loaded = await loadText({ providers: { constructor: LOCAL } });
  assert.match(
    describeConfig(loaded).join("\n"),
    /constructor: openai-compatible; .*; no key; models m1, m2/,
  );
});

Deno.test("passwords of URLs are hidden wherever they stand", () => {
  assert.equal(hidePassword("postgres://u:p@h/d"), "postgres://u:***@h/d");
  assert.equal(hidePassword("postgres://h/d?password=p&x=1"), "postgres://h/d?password=***&x=1");
  assert.equal(hidePassword("postgres://h/d"), "postgres://h/d");
  assert.equal(hidePassword("not a url with p"), "(a URL that cannot be read)");
});
