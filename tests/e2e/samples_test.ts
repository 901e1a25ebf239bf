import assert from "node:assert/strict";
import { chatCompletion, chatStream, startScriptedUpstream } from "../support/scripted_upstream.ts";
import { withHub } from "../support/test_hub.ts";

interface Sample {
  headers: Record<string, string>;
  body: { model?: unknown; stream?: unknown; stream_options?: unknown };
}

const folder = new URL("../fixtures/samples/", import.meta.url);

async function readSamples(): Promise<{ client: string; samples: Sample[] }[]> {
  const all = [];
  for await (const { name } of Deno.readDir(folder)) {
    const text = await Deno.readTextFile(new URL(name, folder));
    const samples = text.trim().split("\n").map((line) => JSON.parse(line) as Sample);
    all.push({ client: name.replace(".jsonl", ""), samples });
  }
  return all;
}

Deno.test("requests of real clients reach the upstream unchanged but for the model", async (t) => {
  const upstream = await startScriptedUpstream();
  upstream.script((request) =>
    request.json.stream === true ? chatStream({ text: "ok" }) : chatCompletion({ text: "ok" })
  );
  try {
    const config = {
      providers: { one: { baseUrl: upstream.url, apiKey: "sk-up" } },
      defaultModel: "one/m",
    };
    await withHub(config, async (hub) => {
      for (const { client, samples } of await readSamples()) {
        await t.step(`${client}: ${samples.length} requests`, async () => {
          for (const { headers, body } of samples) {
            if (typeof body.model !== "string") continue;
            const sent = JSON.stringify({ ...body, model: `one/${body.model}` });
            const before = upstream.requests.length;
            const answer = await fetch(`${hub.url}/v1/chat/completions`, {
              method: "POST",
              headers: { ...headers, authorization: `Bearer ${hub.key}` },
              body: sent,
            });
            assert.equal(answer.status, 200, await answer.text());
            assert.equal(upstream.requests.length, before + 1);
            const got = new TextDecoder().decode(upstream.requests.at(-1)?.body);
            const usage = '"stream_options":{"include_usage":true},';
            const added = body.stream === true && body.stream_options === undefined;
            const wanted = sent.replace(`"one/${body.model}"`, JSON.stringify(body.model));
            assert.equal(got, added ? wanted.replace("{", `{${usage}`) : wanted);
            assert.equal(upstream.requests.at(-1)?.header("authorization"), "Bearer sk-up");
          }
        });
      }
    });
  } finally {
    await upstream.stop();
  }
});
