import assert from "node:assert/strict";
import type { JsonObject } from "../../src/core/json.ts";
import { chatStream, startScriptedUpstream } from "../support/scripted_upstream.ts";
import { withHub } from "../support/test_hub.ts";

const SCHEMA = {
  type: "object",
  properties: { city: { type: "string" }, people: { type: "integer" } },
  required: ["city", "people"],
  additionalProperties: false,
};
const ULM = { city: "Ulm", people: 126000 };

Deno.test("the answer of a run is held to a schema over HTTP", async (t) => {
  const upstream = await startScriptedUpstream();
  const config: JsonObject = {
    providers: { up: { kind: "openai", baseUrl: upstream.url, apiKey: "sk-upstream" } },
    defaultModel: "up/m",
  };
  const valueOf = ({ message }: { message: { parts: { name?: string; data?: JsonObject }[] } }) =>
    message.parts.find(({ name }) => name === "answer")?.data?.["value"];
  try {
    await withHub(config, async (hub) => {
      const { id } = await (await hub.call("/v1/sessions", { body: {} })).json();
      const say = (body: JsonObject) => hub.call(`/v1/sessions/${id}/messages`, { body });

      await t.step("asked for, repaired, and in the message as what it is", async () => {
        upstream.script([
          chatStream({ text: '{"city":"Ulm"}' }),
          chatStream({ text: JSON.stringify(ULM) }),
        ]);
        const answer = await say({ text: "Ulm?", format: "json", schema: SCHEMA, stream: false });
        assert.equal(answer.status, 200);
        assert.deepEqual(valueOf(await answer.json()), ULM);
        const [first] = upstream.requests.slice(-2).map(({ json }) => json as JsonObject);
        assert.deepEqual(first?.["response_format"], {
          type: "json_schema",
          json_schema: { name: "answer", schema: SCHEMA, strict: true },
        });
      });

      await t.step("an answer that never fits is an error, and no message", async () => {
        upstream.script(() => chatStream({ text: "About 126000" }));
        const answer = await say({ text: "Ulm?", format: "json", stream: false });
        assert.equal(answer.status, 502);
        const { error } = await answer.json();
        assert.equal(error.code, "answer_invalid");
        assert.match(error.message, /does not fit after 2 repairs.*not valid JSON/);
      });

      await t.step(
        "a model that refuses is an error that says so, and is not asked again",
        async () => {
          upstream.script([chatStream({ refusal: "I cannot help with that." })]);
          const before = upstream.requests.length;
          const answer = await say({ text: "Ulm?", format: "json", schema: SCHEMA, stream: false });
          assert.equal(answer.status, 502);
          assert.equal((await answer.json()).error.code, "answer_refused");
          assert.equal(upstream.requests.length - before, 1);
          const kept = await (await hub.call(`/v1/sessions/${id}/messages`)).text();
          assert.match(kept, /I cannot help with that\./);
        },
      );

      await t.step("what cannot be asked for is refused before a run begins", async () => {
        for (
          const [body, wanted] of [
            [{ schema: SCHEMA }, /wants format json/],
            [{ format: "json", schema: { type: "array" } }, /type: "object"/],
            [{ format: "yaml" }, /format/],
          ] as const
        ) {
          const answer = await say({ text: "Ulm?", ...body });
          assert.equal(answer.status, 400);
          assert.match((await answer.json()).error.message, wanted);
        }
      });

      await t.step("a chat of the AI SDK asks the same way", async () => {
        upstream.script([chatStream({ text: JSON.stringify(ULM) })]);
        const messages = [{ id: "m1", role: "user", parts: [{ type: "text", text: "Ulm?" }] }];
        const body = { id: "chat-1", messages, format: "json", schema: SCHEMA };
        const answer = await hub.call("/api/chat", { body });
        assert.match(await answer.text(), /"type":"data-answer".*"value":\{"city":"Ulm"/);
        upstream.script([chatStream({ text: "Free" })]);
        const other = { ...body, id: "chat-2", format: "markdown", schema: "mine" };
        assert.match(await (await hub.call("/api/chat", { body: other })).text(), /Free/);
      });
    });
  } finally {
    await upstream.stop();
  }
});
