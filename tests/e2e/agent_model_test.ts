import assert from "node:assert/strict";
import OpenAI from "openai";
import type { JsonObject } from "../../src/core/json.ts";
import { PAY, startTill } from "../support/approvals_rig.ts";
import { chatError, chatStream, startScriptedUpstream } from "../support/scripted_upstream.ts";
import { eventually, withHub } from "../support/test_hub.ts";

const messages = [{ role: "user" as const, content: "What is 6*7?" }];
const CALL = chatStream({
  text: "Let me see.",
  reasoning: "A product",
  toolCalls: [{ name: "hub_calculate", arguments: { expression: "6*7" } }],
  usage: { promptTokens: 10, completionTokens: 5 },
});
const ANSWER = chatStream({ text: "It is 42.", usage: { promptTokens: 20, completionTokens: 4 } });
const SAID = "Let me see.\n\nIt is 42.";
const USED = { prompt_tokens: 30, completion_tokens: 9, total_tokens: 39 };
const SCHEMA = {
  type: "object",
  properties: { city: { type: "string" }, people: { type: "integer" } },
  required: ["city", "people"],
  additionalProperties: false,
};
const JSON_SCHEMA = {
  type: "json_schema" as const,
  json_schema: { name: "town", schema: SCHEMA, strict: true },
};
const ULM = { city: "Ulm", people: 126000 };

/** Of a chunk or a message: what openai's types do not know. */
interface Extras {
  reasoning_content?: string;
  tool_results?: JsonObject[];
}

Deno.test("agents answer as models", async (t) => {
  const upstream = await startScriptedUpstream();
  const till = startTill();
  const config: JsonObject = {
    providers: { up: { kind: "openai", baseUrl: upstream.url, apiKey: "sk-up", maxRetries: 0 } },
    defaultModel: "up/m",
    operations: { modules: [PAY] },
    agents: { default: {}, clerk: { systemPrompt: "Be brief" } },
  };
  try {
    await withHub(config, async (hub) => {
      const clientOf = (apiKey: string) =>
        new OpenAI({ apiKey, baseURL: `${hub.url}/v1`, maxRetries: 0 });
      const client = clientOf(hub.key);
      const { completions } = client.chat;
      const model = "agent/clerk";
      const runOf = async (id: string) => await (await hub.call(`/v1/runs/${id}`)).json();

      await t.step("they are listed, and found one by one", async () => {
        const ids = (await client.models.list()).data.map(({ id }) => id);
        assert.deepEqual(ids.filter((id) => id.startsWith("agent/")), [
          "agent/clerk",
          "agent/default",
        ]);
        assert.equal((await client.models.retrieve(model)).owned_by, "loophub");
        await assert.rejects(client.models.retrieve("agent/nobody"), { status: 404 });
      });

      await t.step("whole: the words of all steps, and what they have used together", async () => {
        upstream.script([CALL, ANSWER]);
        const { data, response } = await completions.create({ model, messages }).withResponse();
        const [choice] = data.choices;
        assert.equal(choice?.message.content, SAID);
        assert.equal((choice?.message as Extras).reasoning_content, "A product");
        assert.equal((choice?.message as Extras).tool_results, undefined);
        assert.deepEqual([choice?.finish_reason, choice?.message.tool_calls], ["stop", undefined]);
        const { prompt_tokens, completion_tokens, total_tokens } = data.usage ?? {};
        assert.deepEqual({ prompt_tokens, completion_tokens, total_tokens }, USED);
        assert.deepEqual([data.object, data.model], ["chat.completion", model]);
        const run = await runOf(response.headers.get("x-loophub-run") ?? "");
        assert.deepEqual([run.agent, run.status], ["clerk", "completed"]);
        assert.equal(response.headers.get("x-loophub-session"), run.sessionId);
        const sent = upstream.requests.at(-2)?.json as { messages: JsonObject[] };
        assert.deepEqual(sent.messages.map(({ role }) => role), ["system", "user"]);
      });

      await t.step(
        "a stream: the role, deltas, the end, the usage, in OpenAI's shape",
        async () => {
          upstream.script([CALL, ANSWER]);
          const stream = await completions.create({
            model,
            messages,
            stream: true,
            stream_options: { include_usage: true },
          });
          const chunks = [];
          for await (const chunk of stream) chunks.push(chunk);
          const deltas = chunks.flatMap(({ choices }) => choices.map(({ delta }) => delta));
          assert.deepEqual(deltas[0], { role: "assistant", content: "" });
          assert.equal(deltas.map(({ content }) => content ?? "").join(""), SAID);
          assert.ok(deltas.every((delta) => delta.tool_calls === undefined));
          assert.equal(
            deltas.map((delta) => (delta as Extras).reasoning_content ?? "").join(""),
            "A product",
          );
          const ends = chunks.flatMap(({ choices }) => choices.map((one) => one.finish_reason));
          assert.deepEqual(ends.filter((reason) => reason !== null), ["stop"]);
          const last = chunks.at(-1);
          assert.deepEqual([last?.choices, last?.usage?.total_tokens], [[], 39]);
          assert.equal(chunks.filter(({ usage }) => usage).length, 1);
          assert.equal(new Set(chunks.map(({ id }) => id)).size, 1);
        },
      );

      await t.step("what tools have answered, for whoever asks", async () => {
        for (const stream of [false, true]) {
          upstream.script([CALL, ANSWER]);
          const body = { model, messages, stream, tool_results: true };
          const text = await (await hub.call("/v1/chat/completions", { body })).text();
          const [, results = ""] = /"tool_results":\[(\{.*?\})\]/.exec(text) ?? [];
          const { tool_call_id, ...result } = JSON.parse(results);
          assert.match(tool_call_id, /^call_/);
          assert.deepEqual(result, {
            name: "hub.calculate",
            input: { expression: "6*7" },
            content: '{"expression":"6*7","result":42}',
            is_error: false,
          });
          assert.ok(!text.includes('"tool_calls"'));
          if (stream) assert.match(text, /\n\ndata: \[DONE\]\n\n$/);
        }
      });

      await t.step("a UIMessage stream, for whoever asks", async () => {
        upstream.script([CALL, ANSWER]);
        const body = { model, messages, stream: true };
        const headers = { "hub-stream": "ui" };
        const text = await (await hub.call("/v1/chat/completions", { body, headers })).text();
        assert.match(text, /"type":"start"[^]*"type":"finish"[^]*data: \[DONE\]\n\n$/);
      });

      await t.step("what was said before is the history, and stays in the session", async () => {
        upstream.script([ANSWER]);
        const pixel = "data:image/png;base64,iVBORw0KGgo=";
        const { response } = await completions.create({
          model,
          messages: [
            { role: "developer", content: "Speak Swabian" },
            { role: "user", content: "Hi" },
            { role: "assistant", content: "Grüß Gott" },
            {
              role: "user",
              content: [
                { type: "text", text: "What is 6*7?" },
                { type: "image_url", image_url: { url: pixel } },
              ],
            },
          ],
        }).withResponse();
        const sent = upstream.requests.at(-1)?.json as { messages: JsonObject[] };
        assert.deepEqual(sent.messages.map(({ role }) => role), [
          "system",
          "system",
          "user",
          "assistant",
          "user",
        ]);
        assert.equal(sent.messages[3]?.["content"], "Grüß Gott");
        assert.match(JSON.stringify(sent.messages[4]), /6\*7.*iVBORw0KGgo=/);
        const session = response.headers.get("x-loophub-session");
        const stored = await (await hub.call(`/v1/sessions/${session}/messages`)).json();
        assert.deepEqual(stored.messages.map(({ role }: JsonObject) => role), [
          "system",
          "user",
          "assistant",
          "user",
          "assistant",
        ]);
        const positions = stored.messages.map(({ position }: JsonObject) => position);
        assert.deepEqual(positions, [1, 2, 3, 4, 5]);
        const shown = await (await hub.call(`/v1/sessions/${session}`)).json();
        assert.equal(shown.messageCount, 5);
      });

      await t.step("JSON that fits a schema, repaired on the way, or an error", async () => {
        const format = { response_format: JSON_SCHEMA };
        const script = (...texts: string[]) =>
          upstream.script(texts.map((text) => chatStream({ text })));
        const parse = () => completions.parse({ model, messages, ...format });
        script('{"city":"Ulm"}', JSON.stringify(ULM));
        const parsed = await parse();
        assert.deepEqual(parsed.choices[0]?.message.parsed, ULM);
        assert.equal(parsed.choices[0]?.message.content, JSON.stringify(ULM));
        script('{"city":"Ulm"}', JSON.stringify(ULM));
        const streamed = completions.stream({ model, messages, ...format });
        assert.deepEqual((await streamed.finalChatCompletion()).choices[0]?.message.parsed, ULM);
        upstream.script(() => chatStream({ text: "About 126000" }));
        await assert.rejects(parse(), { status: 502, code: "answer_invalid" });
        await assert.rejects(completions.stream({ model, messages, ...format }).finalContent(), {
          code: "answer_invalid",
        });
        script("{}");
        const any = { response_format: { type: "json_object" as const } };
        const { choices } = await completions.create({ model, messages, ...any });
        assert.equal(choices[0]?.message.content, "{}");
      });

      await t.step("what agents do not take is refused before anything begins", async () => {
        const before = upstream.requests.length;
        const tool = { type: "function", function: { name: "own" } };
        const cases: [JsonObject, string, RegExp][] = [
          [{ tools: [tool] }, "tools", /tools of its own/],
          [{ n: 2 }, "n", /more than one choice/],
          [{ logprobs: true }, "logprobs", /logprobs/],
          [{ temperature: 0.2 }, "temperature", /temperature/],
          [{ max_tokens: 5 }, "max_tokens", /max_tokens/],
          [{ messages: [] }, "messages", /at least one/],
          [{ messages: [{ role: "assistant", content: "Hi" }] }, "messages", /must be the user's/],
          [
            { messages: [{ role: "tool", content: "x", tool_call_id: "c" }, ...messages] },
            "messages[0].role",
            /its own/,
          ],
          [{ messages: [{ role: "user", content: "" }] }, "messages[0]", /neither text/],
          [{ response_format: { type: "xml" } }, "response_format", /json_schema/],
          [{ tool_results: "yes" }, "tool_results", /true or false/],
          [{ budget: { steps: 0 } }, "budget.steps", /steps/],
        ];
        const sessions = async () => (await (await hub.call("/v1/sessions")).json()).data;
        const { length } = await sessions();
        for (const [more, param, message] of cases) {
          const body = { model, messages, ...more };
          const answer = await hub.call("/v1/chat/completions", { body });
          const { error } = await answer.json();
          assert.equal(answer.status, 400, JSON.stringify(more));
          assert.equal(error.param, param);
          assert.match(error.message, message);
        }
        const array = { type: "json_schema", json_schema: { schema: { type: "array" } } };
        const body = { model, messages, response_format: array };
        assert.equal((await hub.call("/v1/chat/completions", { body })).status, 400);
        assert.equal((await sessions()).length, length);
        assert.equal(upstream.requests.length, before);
        upstream.script([ANSWER]);
        const neutral = { temperature: 1, top_p: 1, n: 1, tools: [], user: "u", seed: null };
        const taken = { ...neutral, tool_choice: "auto" as const };
        assert.ok(await completions.create({ model, messages, ...taken }));
      });

      await t.step("unknown, elsewhere, and not for this key", async () => {
        const unknown = { status: 404, code: "model_not_found" };
        await assert.rejects(completions.create({ model: "agent/nobody", messages }), unknown);
        await assert.rejects(client.responses.create({ model, input: "Hi" }), unknown);
        const made = await hub.call("/v1/admin/keys", {
          body: { name: "k", policy: { agents: ["default"], models: ["up/*"] } },
        });
        const other = clientOf((await made.json()).token);
        const denied = { status: 403, code: "permission_denied" };
        await assert.rejects(other.chat.completions.create({ model, messages }), denied);
        await assert.rejects(other.models.retrieve(model), unknown);
        const ids = (await other.models.list()).data.map(({ id }) => id);
        assert.deepEqual(ids.filter((id) => id.startsWith("agent/")), ["agent/default"]);
        upstream.script([ANSWER]);
        assert.ok(await other.chat.completions.create({ model: "agent/default", messages }));
      });

      await t.step("no provider can be added under their name", async () => {
        const body = { name: "agent", kind: "openai", baseUrl: upstream.url, apiKey: "sk-x" };
        assert.equal((await hub.call("/v1/admin/providers", { body })).status, 400);
      });

      await t.step("a provider's failure: an error before the stream, or in it", async () => {
        upstream.script(() => chatError(400, { message: "No" }));
        const failure = { status: 400 };
        await assert.rejects(completions.create({ model, messages }), failure);
        await assert.rejects(completions.create({ model, messages, stream: true }), (error) => {
          assert.ok(error instanceof OpenAI.APIError && error.status === 400);
          assert.match(error.headers?.get("x-loophub-run") ?? "", /^run_/);
          assert.equal(error.headers?.get("x-should-retry"), "false");
          return true;
        });
        upstream.script([CALL, chatError(400, { message: "No more" })]);
        const body = { model, messages, stream: true };
        const answer = await hub.call("/v1/chat/completions", { body });
        let text = "";
        const decoder = new TextDecoder();
        await assert.rejects(async () => {
          for await (const bytes of answer.body ?? []) text += decoder.decode(bytes);
        });
        assert.match(text, /Let me see\.[^]*data: \{"error":\{"message":.*No more.*\}\}\n\n$/);
        assert.ok(!text.includes("[DONE]") && !text.includes('"finish_reason":"stop"'));
      });

      await t.step("bounds of a run hold, and say so", async () => {
        upstream.script([CALL, ANSWER]);
        const body = { model, messages, budget: { steps: 1 } };
        const answer = await (await hub.call("/v1/chat/completions", { body })).json();
        assert.equal(answer.choices[0].finish_reason, "length");
      });

      await t.step("a client that leaves stops the run", async () => {
        for (const stream of [true, false]) {
          const asked = Promise.withResolvers<void>();
          const before = upstream.closedByClient.length;
          upstream.script(() => {
            asked.resolve();
            return chatStream({ deltas: ["One", " two"], endAfter: 2, end: "stall" });
          });
          const leaving = new AbortController();
          const body = { model, messages, stream };
          const answer = hub.call("/v1/chat/completions", { body, signal: leaving.signal });
          if (stream) {
            const reader = (await answer).body?.getReader();
            await reader?.read();
          } else await asked.promise;
          const [row] = await hub.hub.start.db.read<{ run_id: string }[]>`
            select run_id from hub.runs order by created_at desc limit 1`;
          leaving.abort();
          await answer.then(undefined, () => {});
          await upstream.until(() => upstream.closedByClient.length > before);
          await eventually(async () => {
            const { status } = await runOf(`run_${String(row?.run_id).replaceAll("-", "")}`);
            return status === "cancelled" ? status : null;
          });
        }
      });

      await t.step("a request that comes again under its key is one run", async () => {
        upstream.script([ANSWER]);
        const before = upstream.requests.length;
        const headers = { "idempotency-key": "once" };
        const ask = (body: JsonObject) =>
          hub.call("/v1/chat/completions", { body: { model, messages, ...body }, headers });
        const answers = await Promise.all([ask({}), ask({}), ask({})]);
        answers.push(await ask({}));
        const runs = new Set(answers.map((answer) => answer.headers.get("x-loophub-run")));
        for (const answer of answers) {
          assert.equal((await answer.json()).choices[0].message.content, "It is 42.");
        }
        assert.equal(runs.size, 1);
        assert.equal(upstream.requests.length, before + 1);
        const other = await ask({ user: "other" });
        assert.deepEqual([other.status, (await other.json()).error.code], [
          422,
          "idempotency_mismatch",
        ]);
      });

      await t.step("a run that waits for a person goes on with the answer", async () => {
        upstream.script([
          chatStream({
            toolCalls: [{ name: "test_pay", arguments: { url: till.url, amount: 7 } }],
          }),
          chatStream({ text: "Paid" }),
        ]);
        const body = { model, messages, stream: true };
        const answer = await hub.call("/v1/chat/completions", { body });
        const runId = answer.headers.get("x-loophub-run");
        const approvals = `/v1/runs/${runId}/approvals`;
        const asked = await eventually(async () => {
          const listed = await (await hub.call("/v1/approvals?status=pending")).json();
          return listed.data[0] ?? null;
        });
        assert.equal(asked.runId, runId);
        const { id, hash } = asked;
        const decided = { approved: true, hash };
        assert.equal((await hub.call(`${approvals}/${id}`, { body: decided })).status, 200);
        const text = await answer.text();
        assert.match(text, /^: (open|ping)\n\n/);
        assert.match(text, /"content":"Paid"[^]*data: \[DONE\]\n\n$/);
        assert.deepEqual(till.paid, ["7"]);
      });
    });
  } finally {
    await upstream.stop();
    await till.stop();
  }
});
