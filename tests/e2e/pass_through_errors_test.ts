import assert from "node:assert/strict";
import { assertTellsNothing, CANARIES, SAID } from "../support/error_shapes.ts";
import { nativeReply, nativeResponse } from "../support/responses.ts";
import {
  chatCompletion,
  chatError,
  type Reply,
  startScriptedUpstream,
} from "../support/scripted_upstream.ts";
import { withHub } from "../support/test_hub.ts";

const OWN_KEY = "sk-own-canary-5f1e77";
const text = `${SAID}: key ${OWN_KEY}, ${CANARIES.key}, ${CANARIES.url}, ${CANARIES.hostPort}, ` +
  `${CANARIES.org} ${CANARIES.project} ${CANARIES.account}`;
const GOOD =
  'event: image_generation.partial_image\ndata: {"type":"image_generation.partial_image","b64":"sk-not-a-key/é/==", "x":"org-Ab12"}\n\n';
const KEEPALIVE = ": waiting\r\n\r\n";

/** Errors as servers write them into a stream. */
const FRAMES: Readonly<Record<string, string>> = {
  nested: frame("error", {
    error: { message: text, type: "server_error", code: "bad", param: null },
  }),
  flat: frame("error", { type: "error", code: "bad", message: text, param: null }),
  unnamed: frame(null, { error: { message: text, details: [{ owner: text }] } }),
  text: frame(null, { error: text }),
  "by its event alone": frame("error", { message: text, organization: CANARIES.org }),
  "of vLLM": frame(null, { object: "error", message: text, code: 500 }),
  "of FastAPI": frame(null, { detail: text }),
  "not JSON": `event: error\ndata: ${text}\n\n`,
  "broken JSON": `data: {"error": {"message": "${text}\n\n`,
  "in several lines": `event: error\ndata: {"error":\ndata: {"message": "${text}"}}\n\n`,
  "with CRLF": frame("error", { error: { message: text } }).replaceAll("\n", "\r\n"),
};

function frame(event: string | null, data: unknown): string {
  return `${event === null ? "" : `event: ${event}\n`}data: ${JSON.stringify(data)}\n\n`;
}

function assertScrubbed(shown: string, what: string): void {
  assertTellsNothing(shown, what);
  assert.ok(!shown.includes(OWN_KEY), what);
  assert.ok(shown.includes(SAID), `${what}: ${shown}`);
}

Deno.test("an error inside a stream that passes is scrubbed, and every other frame passes byte for byte", async (t) => {
  const upstream = await startScriptedUpstream();
  const providers = { up: { baseUrl: upstream.url, apiKey: OWN_KEY, maxRetries: 0 } };
  const headers = { "content-type": "text/event-stream" };
  try {
    await withHub({ providers, defaultModel: "up/m" }, async (hub) => {
      const images = async () => {
        const body = { model: "up/i", prompt: "x", stream: true };
        return await (await hub.call("/v1/images/generations", { body })).text();
      };
      for (const [name, error] of Object.entries(FRAMES)) {
        await t.step(name, async () => {
          for (const before of [GOOD + KEEPALIVE + GOOD, ""]) {
            upstream.script({ headers, frames: [before, error, GOOD] });
            const shown = await images();
            assert.ok(shown.startsWith(before) && shown.endsWith(GOOD), shown);
            assertScrubbed(shown.slice(before.length, -GOOD.length), name);
          }
          // Cut anywhere, and without an end.
          for (let at = 1; at < error.length; at += 41) {
            upstream.script({ headers, frames: [error.slice(0, at), error.slice(at)] });
            assertScrubbed(await images(), `${name} at ${at}`);
          }
          upstream.script({ headers, frames: [GOOD, error.trimEnd()] });
          const shown = await images();
          assert.ok(shown.startsWith(GOOD));
          assertScrubbed(shown.slice(GOOD.length), `${name} without an end`);
        });
      }
      await t.step("what is no error passes as it came", async () => {
        const plain = [
          GOOD,
          KEEPALIVE,
          'data: {"type":"x","error":null,"message":"sk-not-a-key"}\n\n',
          "data: [DONE]\r\n\r\n",
          "data: half a frame",
        ];
        upstream.script({ headers, frames: plain });
        assert.equal(await images(), plain.join(""));
      });
    });
  } finally {
    await upstream.stop();
  }
});

Deno.test("the words of an error in a response that its provider keeps are scrubbed", async (t) => {
  let stored: Reply = {};
  const upstream = await startScriptedUpstream((request) =>
    request.method === "GET" ? stored : nativeReply(request, { id: "resp_up1", text: "Hi" })
  );
  const providers = {
    up: { kind: "openai", baseUrl: upstream.url, apiKey: OWN_KEY, maxRetries: 0 },
  };
  const error = { code: "server_error", message: text };
  const failed = { ...nativeResponse({ id: "resp_up1", text: "sk-not-a-key" }), status: "failed" };
  const created = frame("response.created", {
    type: "response.created",
    response: { ...failed, status: "in_progress", error: null },
  });
  try {
    await withHub({ providers, defaultModel: "up/m" }, async (hub) => {
      const made = await hub.call("/v1/responses", { body: { model: "up/m", input: "Hi" } });
      assert.equal((await made.json()).id, "resp_up1");
      await t.step("as a stream", async () => {
        const headers = { "content-type": "text/event-stream" };
        const ends = [
          frame("response.failed", { type: "response.failed", response: { ...failed, error } }),
          ...Object.values(FRAMES),
        ];
        for (const end of ends) {
          stored = { headers, frames: [created, end] };
          const shown = await (await hub.call("/v1/responses/resp_up1?stream=true")).text();
          assert.ok(shown.startsWith(created), shown);
          assertScrubbed(shown.slice(created.length), end);
        }
      });
      await t.step("as an object", async () => {
        stored = { headers: { "content-type": "application/json" }, body: { ...failed, error } };
        const shown = await (await hub.call("/v1/responses/resp_up1")).text();
        assertScrubbed(shown, "object");
        assert.ok(shown.includes("sk-not-a-key"));
      });
    });
  } finally {
    await upstream.stop();
  }
});

Deno.test("a key of a pool whose account has no money left makes room for the next one", async () => {
  const broke = chatError(429, {
    message: "You exceeded your current quota",
    type: "insufficient_quota",
    code: "insufficient_quota",
  });
  const upstream = await startScriptedUpstream(({ headers }) =>
    JSON.stringify(headers).includes("sk-broke") ? broke : chatCompletion({ text: "paid" })
  );
  const providers = {
    pool: {
      baseUrl: upstream.url,
      apiKeys: ["sk-broke-1", "sk-broke-2", "sk-paid"],
      maxRetries: 0,
    },
  };
  try {
    await withHub({ providers, defaultModel: "pool/m" }, async (hub) => {
      const body = { model: "pool/m", messages: [{ role: "user", content: "Hi" }] };
      for (let round = 0; round < 6; round++) {
        const answer = await hub.call("/v1/chat/completions", { body });
        const said = await answer.json();
        assert.equal(answer.status, 200, JSON.stringify(said));
        assert.equal(said.choices[0].message.content, "paid");
      }
      // An account without money is left alone for a while: no more than one try each.
      const tries = upstream.requests.filter(({ headers }) =>
        JSON.stringify(headers).includes("sk-broke")
      );
      assert.ok(tries.length <= 2, `${tries.length} tries`);
    });
  } finally {
    await upstream.stop();
  }
});
