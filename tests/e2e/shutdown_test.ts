import assert from "node:assert/strict";
import { chatStream, startScriptedUpstream } from "../support/scripted_upstream.ts";
import { eventually, type TestHub, withHub } from "../support/test_hub.ts";

/** Reads until the text has what is wanted; gives the rest as a promise. */
async function readUntil(answer: Response, wanted: string) {
  const reader = (answer.body ?? assert.fail("no body")).getReader();
  const decoder = new TextDecoder();
  let text = "";
  const next = async () => {
    const { value, done } = await reader.read();
    text += decoder.decode(value, { stream: true });
    return !done;
  };
  while (!text.includes(wanted)) assert.ok(await next(), `the stream ended before ${wanted}`);
  return {
    async toEnd() {
      while (await next());
      return text;
    },
  };
}

async function newSession(hub: TestHub): Promise<string> {
  return (await (await hub.call("/v1/sessions", { body: {} })).json()).id;
}

Deno.test("a hub that stops ends live runs before their streams, and says that it is not ready", async () => {
  const upstream = await startScriptedUpstream();
  upstream.script(chatStream({ text: "One two three", endAfter: 2, end: "stall" }));
  const config = { providers: { one: { baseUrl: upstream.url } }, defaultModel: "one/m" };
  try {
    await withHub(config, async (hub) => {
      const session = await newSession(hub);
      const answer = await hub.call(`/v1/sessions/${session}/messages`, {
        body: { text: "Hello" },
      });
      const stream = await readUntil(answer, "text-delta");
      const proxied = await hub.call("/v1/chat/completions", {
        body: { model: "one/m", stream: true, messages: [{ role: "user", content: "Hello" }] },
      });
      const passing = await readUntil(proxied, "One");
      const ready = () => hub.hub.app.request("/readyz").then(({ status }) => status);
      assert.equal(await ready(), 200);

      const closed = hub.hub.close();
      assert.equal(await ready(), 503);
      const types = [
        ...(await stream.toEnd()).matchAll(/^data: (?:\{"type":"([\w-]+)"|\[DONE\])/gm),
      ]
        .map(([line, type]) => type ?? line);
      assert.deepEqual(types.slice(-5), [
        "text-end",
        "step-finish",
        "abort",
        "finish",
        "data: [DONE]",
      ]);
      // A proxied answer that does not end is cut, and never ends as if it were whole.
      await assert.rejects(passing.toEnd());
      await closed;

      const next = await hub.restart();
      const { db } = next.hub.start;
      const [run] = await db.read`select status, finish_reason from hub.runs`;
      assert.deepEqual({ ...run }, { status: "cancelled", finish_reason: "aborted" });
      const rows = await eventually(async () => {
        const rows = await db.read`select kind, outcome from hub.usage order by kind`;
        return rows.length === 2 ? rows : null;
      });
      assert.deepEqual(rows.map((row) => ({ ...row })), [
        { kind: "proxy", outcome: "aborted" },
        { kind: "run", outcome: "aborted" },
      ]);
    });
  } finally {
    await upstream.stop();
  }
});
