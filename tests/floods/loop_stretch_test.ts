import assert from "node:assert/strict";
import { chatCompletion, type Reply, startScriptedUpstream } from "../support/scripted_upstream.ts";
import { DOORS, type HostileRequest } from "./loop_shapes.ts";
import { HOSTILE_ANSWERS } from "./loop_answers.ts";
import { bestStretch, MOST_MS, slowWords } from "./best_stretch.ts";
import { withMeteredHub } from "./with_metered_hub.ts";

const whole = (body: object): Reply => ({ body });
const SHORT_ANSWERS: readonly (readonly [RegExp, Reply])[] = [
  [
    /generateContent/,
    whole({
      candidates: [{ content: { role: "model", parts: [{ text: "Hi" }] }, finishReason: "STOP" }],
    }),
  ],
  [/api\/chat/, whole({ message: { role: "assistant", content: "Hi" }, done: true })],
  [
    /\/messages/,
    whole({
      type: "message",
      content: [{ type: "text", text: "Hi" }],
      stop_reason: "end_turn",
      usage: { input_tokens: 1, output_tokens: 1 },
    }),
  ],
  [/\/responses/, whole({ id: "resp_1", object: "response", status: "completed", output: [] })],
  [/\/embeddings/, whole({ object: "list", data: [], usage: { prompt_tokens: 1 } })],
  [/./, chatCompletion({ text: "Hi" })],
];

Deno.test("nothing that comes in or back holds the event loop for 50 ms", {
  ignore: Deno.build.os !== "linux",
}, async (t) => {
  let reply: Reply | null = null;
  const upstream = await startScriptedUpstream(({ path }) =>
    reply ?? SHORT_ANSWERS.find(([pattern]) => pattern.test(path))?.[1] ?? {}
  );
  const { origin } = new URL(upstream.url);
  const config = {
    providers: {
      up: { kind: "openai-compatible", baseUrl: upstream.url, apiKey: "sk-up", maxRetries: 0 },
      nat: { kind: "openai", baseUrl: upstream.url, apiKey: "sk-up", maxRetries: 0 },
      ant: { kind: "anthropic", baseUrl: upstream.url, apiKey: "sk-up", maxRetries: 0 },
      gem: { kind: "google", baseUrl: `${origin}/v1beta`, apiKey: "sk-up", maxRetries: 0 },
      oll: { kind: "ollama", baseUrl: origin, maxRetries: 0 },
    },
    defaultModel: "up/m",
    agents: { default: {} },
  };
  const slow: string[] = [];
  try {
    await withMeteredHub(config, async (hub) => {
      const send = async (path: string, body: string, headers: Record<string, string> = {}) => {
        const answer = await fetch(hub.url + path, {
          method: "POST",
          headers: {
            authorization: `Bearer ${hub.key}`,
            "content-type": "application/json",
            ...headers,
          },
          body,
        });
        const bytes = await answer.arrayBuffer();
        const head = new TextDecoder().decode(
          new Uint8Array(bytes, 0, Math.min(300, bytes.byteLength)),
        );
        return { status: answer.status, head };
      };
      const measure = async (
        name: string,
        { upTo, work }: { upTo: HostileRequest["upTo"]; work: () => Promise<void> },
      ) => {
        const mostMs = upTo?.ms ?? MOST_MS;
        const longest = await bestStretch(hub, { upTo: mostMs, work });
        if (longest.cpuMs >= mostMs) slow.push(slowWords(name, longest));
      };
      for (const { name: door, path, headers, requests } of DOORS) {
        await t.step(`requests: ${door}`, async () => {
          for (const { name, body: make, status = 200, upTo } of requests) {
            const work = async () => {
              const answer = await send(path, make(), headers);
              assert.equal(answer.status, status, `${door}, ${name}: ${answer.head}`);
            };
            await measure(`${door}, ${name}`, { upTo, work });
          }
        });
      }
      for (const { name, path, request, status = 200, upTo, answer } of HOSTILE_ANSWERS) {
        await t.step(`answers: ${name}`, async () => {
          reply = answer();
          const work = async () => {
            const got = await send(path, JSON.stringify(request));
            assert.equal(got.status, status, `${name}: ${got.head}`);
          };
          await measure(name, { upTo, work });
        });
      }
    });
  } finally {
    await upstream.stop();
  }
  assert.deepEqual(slow, []);
});
