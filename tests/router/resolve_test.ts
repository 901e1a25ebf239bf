import assert from "node:assert/strict";
import fc from "fast-check";
import { HubError } from "../../src/core/error.ts";
import { createTargets } from "../../src/providers/create_targets.ts";
import { sendToDemo } from "../../src/providers/demo.ts";
import { createResolver, listModels } from "../../src/router/resolve.ts";
import { loadText, LOCAL } from "../config/load_fixture.ts";
import { property } from "../support/property.ts";

const FILE = {
  providers: {
    local: LOCAL,
    open: { baseUrl: "http://127.0.0.1:8001/v1" },
    priced: {
      baseUrl: "http://127.0.0.1:8002/v1",
      models: { big: { pricing: { inputPerMillion: 3, outputPerMillion: 15 } } },
    },
  },
  models: {
    fast: { targets: ["local/m1", "open/any"] },
    quick: "fast",
    quickest: "quick",
    direct: "local/m2",
  },
};

async function resolver(file: Record<string, unknown> = FILE) {
  const { config } = await loadText(file);
  const findTarget = createTargets(config, {
    http: sendToDemo,
    demo: sendToDemo,
    now: () => 0,
    nextId: () => "id",
  });
  const resolve = createResolver(config, findTarget);
  return { config, resolve, idsOf: (name: string) => resolve(name).map((target) => target.id) };
}

/** The error that a name must end with. */
function refusalOf(resolve: (name: string) => unknown, name: string): HubError {
  try {
    resolve(name);
  } catch (error) {
    assert.ok(error instanceof HubError, String(error));
    return error;
  }
  throw new Error(`${name} was found`);
}

Deno.test("a public name gives its targets, first choice first", async () => {
  const { resolve, idsOf } = await resolver();
  assert.deepEqual(idsOf("fast"), ["local/m1", "open/any"]);
  const [first] = resolve("fast");
  assert.equal(first?.provider, "local");
  assert.equal(first?.model, "m1");
  assert.equal(first?.endpoints.chat.url, "http://127.0.0.1:8000/v1/chat/completions");
});

Deno.test("an alias gives what it stands for, also over two corners", async () => {
  const { idsOf } = await resolver();
  assert.deepEqual(idsOf("quick"), idsOf("fast"));
  assert.deepEqual(idsOf("quickest"), idsOf("fast"));
  assert.deepEqual(idsOf("direct"), ["local/m2"]);
});

Deno.test("a provider, a slash and its model are a name; a list of models is kept to", async () => {
  const { resolve, idsOf } = await resolver();
  assert.deepEqual(idsOf("local/m2"), ["local/m2"]);
  assert.deepEqual(idsOf("open/org/model:tag"), ["open/org/model:tag"]);
  assert.equal(resolve("open/org/model:tag")[0]?.model, "org/model:tag");
  assert.equal(refusalOf(resolve, "local/m3").code, "model_not_found");
  assert.deepEqual(resolve("priced/big")[0]?.override.pricing, {
    inputPerMillion: 3,
    outputPerMillion: 15,
  });
});

Deno.test("the default model of the configuration resolves", async () => {
  const { config, idsOf } = await resolver({ ...FILE, defaultModel: "quick" });
  assert.equal(config.defaultModel, "quick");
  assert.deepEqual(idsOf(config.defaultModel), ["local/m1", "open/any"]);
  const chosen = await resolver({ providers: { local: LOCAL } });
  assert.deepEqual(chosen.idsOf(chosen.config.defaultModel), ["local/m1"]);
});

Deno.test("an unknown model is a 404 of the parameter model, with the nearest name", async () => {
  const { resolve } = await resolver();
  const error = refusalOf(resolve, "fastt");
  assert.equal(error.code, "model_not_found");
  assert.equal(error.status, 404);
  assert.equal(error.param, "model");
  assert.match(error.message, /"fastt" does not exist here.*, did you mean "fast"$/);
  assert.match(refusalOf(resolve, "lokal/m1").message, /did you mean "local\/m1"$/);
  assert.doesNotMatch(refusalOf(resolve, "gpt-4o").message, /did you mean/);
});

Deno.test("a long unknown name is not repeated whole", async () => {
  const { resolve } = await resolver();
  assert.ok(refusalOf(resolve, "x".repeat(100_000)).message.length < 400);
});

for (
  const name of [
    "__proto__",
    "constructor",
    "toString",
    "__proto__/m",
    "constructor/m",
    "local/constructor",
    "priced/__proto__",
    "/m",
    "local/",
    "/",
    "Fast",
  ]
) {
  Deno.test(`${JSON.stringify(name)} is no model`, async () => {
    const { resolve } = await resolver();
    assert.equal(refusalOf(resolve, name).code, "model_not_found");
  });
}

Deno.test("the same name gives the same targets, so that what hangs on them is shared", async () => {
  const { resolve } = await resolver();
  assert.equal(resolve("open/any"), resolve("open/any"));
  assert.equal(resolve("fast")[1], resolve("open/any")[0]);
});

Deno.test("each provider gets its own key, and one without a key none", async () => {
  const { resolve } = await resolver({
    providers: {
      open: { baseUrl: "http://127.0.0.1:8001/v1", apiKey: "own-key" },
      other: { baseUrl: "http://127.0.0.1:8001/v1" },
    },
    defaultModel: "open/m",
  });
  const authorization = (name: string) =>
    resolve(name)[0]?.fixedHeaders.find(([field]) => field === "authorization")?.[1];
  assert.equal(authorization("open/m"), "Bearer own-key");
  assert.equal(authorization("other/m"), undefined);
});

Deno.test("all names are listed with their owner, and each of them resolves", async () => {
  const { config, resolve } = await resolver();
  const listed = listModels(config);
  assert.deepEqual(listed.map(({ id, ownedBy }) => `${id} ${ownedBy}`), [
    "fast loophub",
    "quick loophub",
    "quickest loophub",
    "direct loophub",
    "local/m1 local",
    "local/m2 local",
    "priced/big priced",
  ]);
  for (const { id } of listed) assert.ok(resolve(id).length > 0, id);
});

Deno.test("ten thousand names do not end in another answer than the first", async () => {
  const { idsOf } = await resolver();
  for (let index = 0; index < 10_100; index++) idsOf(`open/m${index}`);
  assert.deepEqual(idsOf("open/m10099"), ["open/m10099"]);
  assert.deepEqual(idsOf("fast"), ["local/m1", "open/any"]);
});

const shared = await resolver();

property(
  "any text gives targets, model_not_found or invalid_request",
  fc.string({ unit: "binary" }),
  (name) => {
    for (const text of [name, `open/${name}`, `${name}/m1`]) {
      try {
        const targets = shared.resolve(text);
        assert.ok(targets.length > 0);
      } catch (error) {
        assert.ok(
          error instanceof HubError && ["model_not_found", "invalid_request"].includes(error.code),
          String(error),
        );
      }
    }
  },
);
