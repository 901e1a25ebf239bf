import assert from "node:assert/strict";
import OpenAI from "openai";
import { chatError, type Frame, startScriptedUpstream } from "../support/scripted_upstream.ts";
import { eventually, withHub } from "../support/test_hub.ts";
import { usageOf } from "../support/usage_of.ts";

const USAGE = { prompt_tokens: 4, completion_tokens: 2, total_tokens: 6 };
const frame = (value: unknown) => `data: ${JSON.stringify(value)}\n\n`;
const chunk = (text: string, finish: string | null = null, index = 0) =>
  frame({
    id: "cmpl-1",
    object: "text_completion",
    choices: [{ text, index, finish_reason: finish }],
  });
const USAGE_FRAME = frame({ id: "cmpl-1", object: "text_completion", choices: [], usage: USAGE });
const DONE = "data: [DONE]\n\n";
const stream = (frames: Frame[], end: "clean" | "cut" = "clean") => ({
  headers: { "content-type": "text/event-stream" },
  frames,
  end,
});

Deno.test("legacy completions", async (t) => {
  const upstream = await startScriptedUpstream();
  const base = upstream.url.slice(0, -"/v1".length);
  const config = {
    providers: {
      up: { baseUrl: upstream.url, apiKey: "sk-own", maxRetries: 0 },
      spare: { baseUrl: upstream.url, apiKey: "sk-spare", maxRetries: 0 },
      gem: { kind: "google", baseUrl: `${base}/v1beta`, apiKey: "sk-gem" },
      demo: { kind: "demo" },
    },
    models: { both: { targets: ["up/a", "spare/b"] } },
    defaultModel: "up/m",
    timeouts: { firstTokenMs: 2000, inactivityMs: 300 },
  };
  try {
    await withHub(config, async (hub) => {
      const client = new OpenAI({ apiKey: hub.key, baseURL: `${hub.url}/v1`, maxRetries: 0 });
      const rows = () => usageOf(hub, "completions");
      const raw = (body: string) =>
        fetch(`${hub.url}/v1/completions`, {
          method: "POST",
          headers: { authorization: `Bearer ${hub.key}` },
          body,
        });

      await t.step("whole: bytes pass both ways, usage is booked", async () => {
        const text = `{ "choices":[{"text":"é","finish_reason":"stop"}], "usage":${
          JSON.stringify(USAGE)
        }}`;
        upstream.script({ body: text, headers: { "content-type": "application/json" } });
        const body = '{"prompt":"Say \\u00e9",  "x_own":[1], "model":"up/v/m"}';
        const answer = await raw(body);
        assert.equal(answer.headers.get("x-loophub-target"), "up/v/m");
        assert.match(answer.headers.get("x-loophub-overhead-ms") ?? "", /^\d/);
        assert.equal(await answer.text(), text);
        const sent = upstream.requests.at(-1);
        assert.equal(sent?.path, "/v1/completions");
        assert.equal(sent?.text, body.replace("up/v/m", "v/m"));
        assert.equal(sent?.header("authorization"), "Bearer sk-own");
        const row = await eventually(async () => (await rows()).at(-1));
        assert.deepEqual(
          [row.public_model, row.prompt_tokens, row.completion_tokens, row.outcome],
          ["up/v/m", "4", "2", "ok"],
        );
      });

      await t.step("streamed: frames pass, usage is asked for and stays here", async () => {
        const frames = [chunk("one "), chunk("two"), chunk("", "stop"), USAGE_FRAME, DONE];
        upstream.script(stream(frames));
        const body = { model: "up/m", prompt: "x", stream: true };
        const answer = await hub.call("/v1/completions", { body });
        assert.match(answer.headers.get("content-type") ?? "", /^text\/event-stream/);
        assert.equal(await answer.text(), frames.filter((one) => one !== USAGE_FRAME).join(""));
        assert.deepEqual(upstream.requests.at(-1)?.json.stream_options, { include_usage: true });
        const row = await eventually(async () => (await rows()).find(({ streamed }) => streamed));
        assert.deepEqual([row.prompt_tokens, row.completion_tokens, row.estimated], [
          "4",
          "2",
          false,
        ]);
        upstream.script(stream(frames));
        let text = "";
        let usage: unknown = null;
        const asked = await client.completions.create({
          ...body,
          stream: true,
          stream_options: { include_usage: true },
        });
        for await (const piece of asked) {
          text += piece.choices[0]?.text ?? "";
          usage = piece.usage ?? usage;
        }
        assert.deepEqual([text, usage], ["one two", USAGE]);
      });

      await t.step("a stream of several prompts is whole when each has ended", async () => {
        const body = { model: "up/m", prompt: ["a", "b"], stream: true };
        const one = [chunk("x", null, 0), chunk("y", "stop", 1)];
        upstream.script(stream([...one, chunk("", "stop", 0)]));
        assert.ok((await (await hub.call("/v1/completions", { body })).text()).endsWith("\n\n"));
        upstream.script(stream(one));
        const cut = await hub.call("/v1/completions", { body });
        await assert.rejects(cut.text(), "an answer that misses an end breaks off");
        upstream.script(stream([chunk("x", "stop")]));
        const tokens = await hub.call("/v1/completions", { body: { ...body, prompt: [1, 2, 3] } });
        assert.ok(await tokens.text(), "a list of tokens is one prompt");
      });

      await t.step("before the first text a failure goes to the next target", async () => {
        upstream.script([
          stream([frame({ choices: [] }), frame({ error: { message: "no" } })]),
          stream([chunk("fine", "stop"), DONE]),
        ]);
        const asked = await client.completions.create({ model: "both", prompt: "x", stream: true });
        let text = "";
        for await (const piece of asked) text += piece.choices[0]?.text ?? "";
        assert.equal(text, "fine");
        assert.equal(upstream.requests.at(-1)?.header("authorization"), "Bearer sk-spare");
      });

      await t.step("in mid-stream a failure is an error to the client", async () => {
        for (
          const broken of [
            stream([chunk("half")], "cut"),
            stream([chunk("half"), frame({ error: { message: "no" } })]),
            stream([chunk("half"), { wait: new Promise(() => {}) }]),
          ]
        ) {
          upstream.script(broken);
          const asked = await client.completions.create({
            model: "up/m",
            prompt: "x",
            stream: true,
          });
          await assert.rejects(async () => {
            for await (const _ of asked);
          });
        }
      });

      await t.step("providers without them are a clear 400", async () => {
        for (const model of ["gem/g", "demo/talk"]) {
          await assert.rejects(client.completions.create({ model, prompt: "x" }), (error) => {
            assert.ok(error instanceof OpenAI.BadRequestError);
            assert.equal(error.param, "model");
            assert.match(error.message, /has no completions/);
            return true;
          });
        }
        upstream.script(chatError(404, { message: "no such model", code: "model_not_found" }));
        await assert.rejects(
          client.completions.create({ model: "up/m", prompt: "x" }),
          OpenAI.NotFoundError,
        );
      });

      await t.step("a client that leaves stops the provider, in every phase", async () => {
        for (const frames of [[], [chunk("half")]]) {
          const never: Frame = { wait: new Promise(() => {}) };
          upstream.script(stream([...frames, never]));
          const closed = upstream.closedByClient.length;
          const before = upstream.requests.length;
          const leave = new AbortController();
          const asked = hub.call("/v1/completions", {
            body: { model: "up/m", prompt: "x", stream: true },
            signal: leave.signal,
          }).then((answer) => answer.text());
          asked.catch(() => {});
          await upstream.until(() => upstream.requests.length > before);
          const leftMs = performance.now();
          leave.abort();
          await assert.rejects(asked);
          await upstream.until(() => upstream.closedByClient.length > closed);
          const tookMs = (upstream.closedByClient.at(-1)?.atMs ?? Infinity) - leftMs;
          assert.ok(tookMs <= 250, `${tookMs} ms`);
        }
      });
    });
  } finally {
    await upstream.stop();
  }
});
