import assert from "node:assert/strict";
import { isJsonObject, type JsonObject } from "../../src/core/json.ts";
import { chatCompletion, chatStream, startScriptedUpstream } from "../support/scripted_upstream.ts";
import { withHub } from "../support/test_hub.ts";

const folder = new URL("../fixtures/samples_messages/", import.meta.url);
const NATIVE = '{"type":"message","content":[],"stop_reason":"end_turn"}';

async function readBodies(): Promise<JsonObject[]> {
  const bodies: JsonObject[] = [];
  for await (const { name } of Deno.readDir(folder)) {
    const text = await Deno.readTextFile(new URL(name, folder));
    for (const line of text.trim().split("\n")) bodies.push(JSON.parse(line).body);
  }
  return bodies;
}

Deno.test("every Messages request of a real client is answered, streamed and not", async () => {
  const chat = await startScriptedUpstream((request) =>
    request.json.stream === true ? chatStream({ text: "ok" }) : chatCompletion({ text: "ok" })
  );
  const native = await startScriptedUpstream({
    headers: { "content-type": "application/json" },
    body: NATIVE,
  });
  try {
    const config = {
      providers: {
        up: { baseUrl: chat.url, apiKey: "sk-up" },
        ant: { kind: "anthropic", baseUrl: native.url, apiKey: "sk-ant" },
      },
      defaultModel: "up/m",
    };
    await withHub(config, async (hub) => {
      let count = 0;
      for (const body of await readBodies()) {
        for (const stream of [true, false]) {
          count++;
          const response = await hub.call("/v1/messages", {
            body: { ...body, model: "up/m", stream },
          });
          const text = await response.text();
          if (body["thread"] !== undefined) {
            assert.equal(response.status, 400);
            assert.deepEqual(JSON.parse(text).error.details, {
              error_code: "thread_unsupported_request",
              unsupported: ["thread"],
            });
            continue;
          }
          assert.equal(response.status, 200, text);
          assert.ok(stream ? text.includes("event: message_stop") : isJsonObject(JSON.parse(text)));
        }
        native.script({ headers: { "content-type": "application/json" }, body: NATIVE });
        const response = await hub.call("/v1/messages", {
          body: { ...body, model: "ant/m", stream: false },
        });
        assert.equal(await response.text(), NATIVE);
        assert.equal(
          native.requests.at(-1)?.text,
          JSON.stringify({ ...body, model: "m", stream: false }),
        );
      }
      assert.ok(count > 25, String(count));
    });
  } finally {
    await chat.stop();
    await native.stop();
  }
});
