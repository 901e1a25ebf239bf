import assert from "node:assert/strict";
import { checkLog } from "../../src/core/check_log.ts";
import type { HubEvent } from "../../src/core/event.ts";
import type { JsonObject } from "../../src/core/json.ts";
import { createSseParser } from "../../src/core/sse.ts";
import { startScriptedUpstream } from "../support/scripted_upstream.ts";
import { withHub } from "../support/test_hub.ts";

const PNG = Uint8Array.of(0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a, ...Array(5000).keys());
const DATA_URL = `data:image/png;base64,${PNG.toBase64()}`;
const SOURCE = "https://example.com/cats";
const citation = {
  type: "url_citation",
  url_citation: { url: SOURCE, title: "Cats", start_index: 0, end_index: 5 },
};

/** A stream as OpenRouter sends it for a model that searches the web and makes images. */
function openRouterStream() {
  const chunk = (delta: object, more: object = {}) =>
    `data: ${JSON.stringify({ choices: [{ index: 0, delta, finish_reason: null, ...more }] })}\n\n`;
  return {
    headers: { "content-type": "text/event-stream" },
    frames: [
      chunk({ role: "assistant", content: "A cat" }),
      chunk({ content: "", annotations: [citation] }),
      chunk({ images: [{ type: "image_url", image_url: { url: DATA_URL }, index: 0 }] }),
      chunk({}, { finish_reason: "stop" }),
      "data: [DONE]\n\n",
    ],
  };
}

interface Shown {
  id: string | null;
  data: JsonObject;
}

async function framesOf(response: Response): Promise<Shown[]> {
  assert.equal(response.status, 200);
  const shown: Shown[] = [];
  const parser = createSseParser({
    onEvent({ data, id }) {
      if (data !== "[DONE]") shown.push({ id: id ?? null, data: JSON.parse(data) });
    },
  });
  parser.push(new Uint8Array(await response.arrayBuffer()));
  parser.end();
  return shown;
}

const extrasOf = (frames: readonly Shown[]) =>
  frames.map(({ data }) => data).filter(({ type }) => /^(source|file)/.test(String(type)));

Deno.test("sources and images of models", async (t) => {
  const upstream = await startScriptedUpstream(openRouterStream);
  const config: JsonObject = {
    providers: {
      up: { kind: "openrouter", baseUrl: upstream.url, apiKey: "sk-up", maxRetries: 0 },
    },
    defaultModel: "up/m",
    agents: { default: {} },
  };
  try {
    await withHub(config, async (hub) => {
      const json = async (path: string) => await (await hub.call(path)).json();
      const session = await (await hub.call("/v1/sessions", { body: {} })).json();
      const path = `/v1/sessions/${session.id}`;
      let live: Shown[] = [];

      await t.step("a run's stream has them, the image as a link", async () => {
        const body = { text: "Draw a cat" };
        live = await framesOf(await hub.call(`${path}/messages`, { body }));
        const [source, file] = extrasOf(live);
        assert.equal(source?.["type"], "source-url");
        assert.deepEqual([source?.["url"], source?.["title"]], [SOURCE, "Cats"]);
        assert.equal(file?.["mediaType"], "image/png");
        assert.match(String(file?.["url"]), new RegExp(`^${path}/files/[0-9a-f]{64}$`));
        const log = live.filter(({ id }) => id !== null).map(({ id, data }) => ({
          seq: Number(id),
          event: data as unknown as HubEvent,
        }));
        assert.deepEqual(checkLog(log), []);
        assert.ok(live.every(({ data }) => JSON.stringify(data).length < 2000));
      });

      await t.step("the image is read under its link", async () => {
        const [, file] = extrasOf(live);
        const response = await hub.call(String(file?.["url"]));
        assert.equal(response.headers.get("content-type"), "image/png");
        assert.deepEqual(new Uint8Array(await response.arrayBuffer()), PNG);
      });

      await t.step("the stored message and the replay have the same", async () => {
        const { messages } = await json(`${path}/messages`);
        const parts = messages.at(-1).parts as JsonObject[];
        assert.deepEqual(
          parts.filter(({ type }) => /source|file/.test(String(type))),
          extrasOf(live),
        );
        const runId = live[0]?.data["runId"];
        assert.deepEqual(await framesOf(await hub.call(`/v1/runs/${runId}/stream`)), live);
      });

      await t.step("the next request shows the model its image", async () => {
        const body = { text: "Now in black" };
        await framesOf(await hub.call(`${path}/messages`, { body }));
        const { messages } = upstream.requests.at(-1)?.json as { messages: JsonObject[] };
        const image = messages.find(({ content }) => Array.isArray(content));
        assert.deepEqual(image?.["content"], [
          { type: "text", text: "The image that you made:" },
          { type: "image_url", image_url: { url: DATA_URL } },
        ]);
      });

      await t.step("AI SDK clients get the chunks that they know", async () => {
        const message = { id: "u1", role: "user", parts: [{ type: "text", text: "Hi" }] };
        const frames = await framesOf(
          await hub.call("/api/chat", { body: { id: "c", messages: [message] } }),
        );
        const [source, file] = extrasOf(frames);
        assert.deepEqual(Object.keys(source ?? {}), ["type", "sourceId", "url", "title"]);
        assert.deepEqual(Object.keys(file ?? {}).toSorted(), ["mediaType", "type", "url"]);
        const [, stored] = (await json("/api/chat/c/messages")).messages;
        const types = stored.parts.map(({ type }: JsonObject) => type);
        assert.ok(types.includes("source-url") && types.includes("file"));
      });

      await t.step(
        "a proxied UI stream has them, its image inline: nothing is stored",
        async () => {
          const body = { model: "up/m", stream: true, messages: [{ role: "user", content: "Hi" }] };
          const headers = { "hub-stream": "ui" };
          const [source, file] = extrasOf(
            await framesOf(await hub.call("/v1/chat/completions", { body, headers })),
          );
          assert.equal(source?.["url"], SOURCE);
          assert.equal(file?.["url"], DATA_URL);
        },
      );

      await t.step("an agent as a model answers with annotations and images", async () => {
        const body = { model: "agent/default", messages: [{ role: "user", content: "Hi" }] };
        const response = await hub.call("/v1/chat/completions", { body });
        const { choices: [{ message }] } = await response.json();
        assert.equal(message.annotations[0].url_citation.url, SOURCE);
        assert.match(message.images[0].image_url.url, /^\/v1\/sessions\/ses_.*\/files\//);
      });
    });
  } finally {
    await upstream.stop();
  }
});
