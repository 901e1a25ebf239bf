import assert from "node:assert/strict";
import type { JsonObject } from "../../src/core/json.ts";
import { VERSION } from "../../src/core/version.ts";
import { createTargets } from "../../src/providers/create_targets.ts";
import type { UpstreamRequest } from "../../src/providers/transport.ts";
import { loadText } from "../config/load_fixture.ts";
import { createFakeAnswer } from "../support/fake_target.ts";

const ANSWER = { content: [{ type: "text", text: "Hi" }], stop_reason: "end_turn" };

Deno.test("a target of Anthropic is asked natively, with its model's bound where a client sets none", async () => {
  const { config } = await loadText({
    providers: {
      a: {
        kind: "anthropic",
        baseUrl: "https://a.test",
        apiKey: "sk-a",
        models: { one: { maxOutputTokens: 77 }, two: {} },
      },
    },
  });
  const sent: { request: UpstreamRequest; body: JsonObject }[] = [];
  const findTarget = createTargets(config, {
    http(request) {
      const body = JSON.parse(new TextDecoder().decode(request.body ?? undefined));
      sent.push({ request, body });
      return Promise.resolve(createFakeAnswer({ pieces: [JSON.stringify(ANSWER)] }).response);
    },
    demo: () => Promise.reject(new Error("not here")),
    now: () => 0,
    nextId: () => "id",
  });
  const ask = async (model: string, more: JsonObject = {}) => {
    const target = findTarget(`a/${model}`);
    assert.ok(target !== null);
    const messages = [{ role: "user", content: "Hi" }];
    await target.endpoints.chat.send({
      method: "POST",
      url: target.endpoints.chat.url,
      headers: [],
      fixedHeaders: target.fixedHeaders,
      body: new TextEncoder().encode(JSON.stringify({ model, messages, ...more })),
      signal: new AbortController().signal,
      connectTimeoutMs: 1,
    });
    return sent.at(-1)?.body["max_tokens"];
  };
  assert.equal(await ask("one"), 77);
  assert.equal(await ask("one", { max_tokens: 5 }), 5);
  assert.equal(await ask("two"), 8192);
  const { request } = sent[0] ?? {};
  assert.equal(request?.url, "https://a.test/v1/messages");
  const fields = Object.fromEntries([...request?.fixedHeaders ?? [], ...request?.headers ?? []]);
  assert.equal(fields["x-api-key"], "sk-a");
  assert.equal(fields["anthropic-version"], "2023-06-01");
  assert.equal(fields["authorization"], undefined);
  assert.equal(fields["user-agent"], `loophub/${VERSION}`);
  assert.equal(findTarget("a/one")?.endpoints.messages?.url, "https://a.test/v1/messages");
});
