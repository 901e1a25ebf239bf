import assert from "node:assert/strict";
import OpenAI from "openai";
import type { Json, JsonObject } from "../../src/core/json.ts";
import { at } from "../support/at.ts";
import { nativeFrames, nativeReply, nativeResponse } from "../support/responses.ts";
import {
  chatCompletion,
  chatStream,
  type RecordedRequest,
  type Reply,
  startScriptedUpstream,
} from "../support/scripted_upstream.ts";
import { issueSecondKey } from "../support/second_key.ts";
import { eventually, type TestHub, withHub } from "../support/test_hub.ts";

const usage = { promptTokens: 5, completionTokens: 3 };
const clientOf = (hub: TestHub, apiKey = hub.key) =>
  new OpenAI({ apiKey, baseURL: `${hub.url}/v1`, maxRetries: 0 });

/** A provider of Responses that keeps them. */
function keepingProvider(): (request: RecordedRequest) => Reply {
  let made = 0;
  return (request) => {
    const json = { "content-type": "application/json" };
    const [path = "", query = ""] = request.path.split("?");
    const [, , , id = "", tail = ""] = path.split("/");
    if (request.method === "DELETE") return { headers: json, body: { id, deleted: true } };
    if (tail === "cancel") {
      return { headers: json, body: { ...nativeResponse({ id }), cancelled: true } };
    }
    if (tail === "input_items") return { headers: json, body: { object: "list", data: [], query } };
    if (query.includes("stream=true")) {
      return { headers: { "content-type": "text/event-stream" }, frames: nativeFrames({ id }) };
    }
    if (request.method === "GET") {
      return { headers: json, body: nativeResponse({ id, text: "kept" }) };
    }
    return nativeReply(request, { id: `resp_up${++made}`, text: "from the provider" });
  };
}

Deno.test("a response that its provider keeps is found there again, by its key alone", async (t) => {
  const upstream = await startScriptedUpstream(keepingProvider());
  const chat = await startScriptedUpstream((request) =>
    request.json.stream === true
      ? chatStream({ text: "from a chat", usage })
      : chatCompletion({ text: "from a chat", usage })
  );
  const config = {
    providers: {
      native: { kind: "openai", baseUrl: upstream.url, apiKey: "sk-up", maxRetries: 0 },
      chat: { baseUrl: chat.url, apiKey: "sk-chat", maxRetries: 0 },
      pool: { kind: "openai", baseUrl: upstream.url, apiKeys: ["sk-one", "sk-two"] },
    },
    models: { both: { targets: ["chat/m", "native/m"] } },
    defaultModel: "native/m",
  };
  const last = () => upstream.requests.at(-1);
  const reasoningSent = () => at(chat.requests.at(-1)?.json, "messages", 1, "reasoning_content");
  try {
    await withHub(config, async (hub) => {
      const client = clientOf(hub);
      const other = clientOf(hub, await issueSecondKey(hub));

      for (const stream of [true, false]) {
        await t.step(
          `stream ${stream}: retrieved, listed, cancelled, gone on from, deleted`,
          async () => {
            const asked = { model: "native/m", input: "Hi" };
            const { id } = stream
              ? await client.responses.stream(asked).finalResponse()
              : await client.responses.create(asked);
            assert.match(id, /^resp_up\d+$/);
            assert.equal((await client.responses.retrieve(id)).output_text, "kept");
            assert.equal(last()?.header("authorization"), "Bearer sk-up");
            assert.equal(last()?.path, `/v1/responses/${id}`);
            const events: string[] = [];
            const streamed = await client.responses.retrieve(id, {
              stream: true,
              starting_after: 1,
            });
            for await (const { type } of streamed) events.push(type);
            assert.equal(events.at(-1), "response.completed");
            assert.equal(last()?.path, `/v1/responses/${id}?stream=true&starting_after=1`);
            await client.responses.inputItems.list(id, { limit: 7 });
            assert.equal(last()?.path, `/v1/responses/${id}/input_items?limit=7`);
            await client.responses.cancel(id);
            assert.equal(last()?.path, `/v1/responses/${id}/cancel`);

            const next = { model: "native/other", previous_response_id: id, input: "And?" };
            const answered = await client.responses.create(next);
            assert.equal(last()?.json.previous_response_id, id);
            assert.equal(last()?.json.model, "other");
            assert.match(answered.id, /^resp_up/);

            const before = upstream.requests.length;
            await assert.rejects(other.responses.retrieve(id), { status: 404 });
            await assert.rejects(other.responses.delete(id), { status: 404 });
            await assert.rejects(other.responses.create(next), {
              code: "previous_response_not_found",
            });
            await assert.rejects(
              client.responses.create({ ...next, model: "chat/m" }),
              { status: 400, param: "previous_response_id" },
            );
            await assert.rejects(
              client.responses.create({ ...next, background: true }),
              { status: 400, param: "previous_response_id" },
            );
            assert.equal(upstream.requests.length, before);

            await client.responses.delete(id);
            assert.equal(last()?.method, "DELETE");
            await assert.rejects(client.responses.retrieve(id), { status: 404 });
          },
        );
      }

      await t.step("a model of both goes on where the response is kept", async () => {
        const { id } = await client.responses.create({ model: "native/m", input: "Hi" });
        const chats = chat.requests.length;
        await client.responses.create({ model: "both", previous_response_id: id, input: "x" });
        assert.equal(chat.requests.length, chats);
        assert.equal(last()?.json.previous_response_id, id);
      });

      await t.step("of a pool of keys the one that asked is asked again", async () => {
        for (let turn = 0; turn < 4; turn++) {
          let { id } = await client.responses.create({ model: "pool/m", input: "Hi" });
          const key = last()?.header("authorization");
          for (let next = 0; next < 3; next++) {
            const asked = { model: "pool/m", previous_response_id: id, input: "x" };
            id = (await client.responses.create(asked)).id;
            assert.equal(last()?.header("authorization"), key);
          }
          await client.responses.retrieve(id);
          assert.equal(last()?.header("authorization"), key);
        }
        const keys = new Set(upstream.requests.map((request) => request.header("authorization")));
        assert.ok(keys.has("Bearer sk-one") && keys.has("Bearer sk-two"));
      });

      await t.step("what the hub keeps goes to a provider of Responses as items", async () => {
        const { id } = await client.responses.create({ model: "chat/m", input: "One" });
        await client.responses.create({
          model: "native/m",
          previous_response_id: id,
          input: "Two",
          stream: false,
        });
        assert.deepEqual(last()?.json, {
          model: "m",
          input: [
            {
              type: "message",
              role: "user",
              content: [{ type: "input_text", text: "One" }],
            },
            {
              type: "message",
              role: "assistant",
              status: "completed",
              content: [{
                type: "output_text",
                text: "from a chat",
                annotations: [],
                logprobs: [],
              }],
            },
            { type: "message", role: "user", content: "Two" },
          ],
          stream: false,
        });
      });

      await t.step("store: false is kept nowhere", async () => {
        const asked = { model: "native/m", input: "Hi", store: false };
        const { id } = await client.responses.create(asked);
        await assert.rejects(client.responses.retrieve(id), { status: 404 });
      });

      await t.step("items are referred to by whose they are alone", async () => {
        const { id, output } = await client.responses.create({ model: "native/m", input: "Hi" });
        const itemId = String(output[0]?.id);
        assert.ok(id !== "");
        const asked = {
          model: "native/m",
          input: [
            { type: "item_reference" as const, id: itemId },
            { role: "user" as const, content: "x" },
          ],
        };
        await client.responses.create(asked);
        assert.equal(at(last()?.json, "input", 0, "id"), itemId);
        const before = upstream.requests.length;
        for (const input of [asked.input, [{ id: itemId } as never]]) {
          await assert.rejects(other.responses.create({ ...asked, input }), {
            status: 400,
            param: "input",
          });
        }
        assert.equal(upstream.requests.length, before);
        const own = await client.responses.create({ model: "chat/m", input: "Hi" });
        const ownItem = String(own.output[0]?.id);
        await client.responses.create({
          model: "chat/m",
          input: [{ type: "item_reference", id: ownItem }, { role: "user", content: "x" }],
        });
        assert.deepEqual(chat.requests.at(-1)?.messages[0], {
          role: "assistant",
          content: "from a chat",
        });
        await assert.rejects(
          other.responses.create({
            model: "chat/m",
            input: [{ type: "item_reference", id: ownItem }],
          }),
          { status: 400 },
        );
      });

      await t.step("reasoning goes back to its own provider, and to no other", async () => {
        chat.script(chatStream({ reasoning: "Hmm, two", text: "2", usage }));
        const asked = {
          model: "chat/m",
          input: "1+1?",
          store: false,
          include: ["reasoning.encrypted_content" as const],
        };
        const first = await client.responses.stream(asked).finalResponse();
        const [thought] = first.output;
        assert.ok(thought?.type === "reasoning");
        assert.deepEqual(thought.summary, [{ type: "summary_text", text: "Hmm, two" }]);
        assert.match(thought.encrypted_content ?? "", /^lh1\./);
        const input = [
          { role: "user" as const, content: "1+1?" },
          ...first.output,
          { role: "user" as const, content: "Sure?" },
        ] as OpenAI.Responses.ResponseInput;
        chat.script(chatCompletion({ text: "yes" }));
        await client.responses.create({ ...asked, input });
        assert.deepEqual(chat.requests.at(-1)?.messages[1], {
          role: "assistant",
          content: "2",
          reasoning_content: "Hmm, two",
        });
        await client.responses.create({ ...asked, model: "chat/other", input });
        assert.equal(reasoningSent(), undefined);
        await client.responses.create({ ...asked, model: "native/m", input });
        assert.ok(!JSON.stringify(last()?.json).includes("lh1."));
        // Without being asked for, it is not shown, and a stored response has it all the same.
        chat.script(chatStream({ reasoning: "Hmm, three", text: "3", usage }));
        const kept = await client.responses.stream({ model: "chat/m", input: "1+2?" })
          .finalResponse();
        assert.ok(!JSON.stringify(kept).includes("lh1."));
        assert.ok(!JSON.stringify(await client.responses.retrieve(kept.id)).includes("lh1."));
        const included = await client.responses.retrieve(kept.id, {
          include: ["reasoning.encrypted_content"],
        });
        assert.ok(JSON.stringify(included).includes("lh1."));
        chat.script(chatCompletion({ text: "yes" }));
        await client.responses.create({
          model: "chat/m",
          previous_response_id: kept.id,
          input: "Sure?",
        });
        assert.equal(reasoningSent(), "Hmm, three");
      });

      await t.step("a conversation of the provider is nobody's", async () => {
        for (const conversation of ["conv_1", { id: "conv_1" }]) {
          for (const model of ["native/m", "chat/m"]) {
            await assert.rejects(client.responses.create({ model, input: "x", conversation }), {
              status: 400,
              param: "conversation",
            });
          }
        }
      });

      await t.step("the same Idempotency-Key is one call and one answer", async () => {
        for (const model of ["chat/m", "native/m"]) {
          for (const stream of [true, false]) {
            const provider = model === "chat/m" ? chat : upstream;
            if (provider === chat) {
              chat.script((request) =>
                request.json.stream === true
                  ? chatStream({ text: "once", usage })
                  : chatCompletion({ text: "once", usage })
              );
            }
            const before = provider.requests.length;
            const ask = () =>
              hub.call("/v1/responses", {
                body: { model, input: "x", stream },
                headers: { "idempotency-key": `${model}-${stream}` },
              });
            const [one, two] = [await ask(), await ask()];
            const bytes = [await one.text(), await two.text()]
              .map((text) => text.replace(/^: \w+\n\n/gm, ""));
            assert.equal(bytes[0], bytes[1]);
            assert.equal(two.headers.get("idempotent-replayed"), "true");
            assert.equal(provider.requests.length, before + 1);
          }
        }
      });

      await t.step("every attempt that reached a provider is one usage row", async () => {
        // Looks, deletions and cancellations cost nothing: they are no attempts.
        const made = [...upstream.requests, ...chat.requests]
          .filter(({ method, path }) => method === "POST" && !path.endsWith("/cancel")).length;
        const count = await eventually(async () => {
          const [row] = await hub.hub.start.db.read<{ count: number }[]>`
            select count(*)::int as count from hub.usage`;
          return row !== undefined && row.count >= made ? row.count : null;
        });
        assert.equal(count, made);
      });
    });
  } finally {
    await upstream.stop();
    await chat.stop();
  }
});

Deno.test("what no chat can carry is refused by name, and hostile requests too", async (t) => {
  const upstream = await startScriptedUpstream(() => chatCompletion({ text: "ok" }));
  const config = {
    providers: { chat: { baseUrl: upstream.url, apiKey: "sk-chat", maxRetries: 0 } },
    defaultModel: "chat/m",
  };
  const message = (content: Json) => [{ role: "user", content }];
  const call = (name: string, id: string) => ({
    type: "function_call",
    name,
    call_id: id,
    arguments: "{}",
  });
  const REFUSED: [JsonObject, string][] = [
    [{ input: 5 }, "input"],
    [{ input: [5] }, "input"],
    [{ input: [] }, "input"],
    [{ input: [{ type: "computer_call", call_id: "c" }] }, "input[0].type"],
    [{ input: [{ type: "mcp_call" }] }, "input[0].type"],
    [{ input: [{ type: "constructor" }] }, "input[0].type"],
    [{ input: message([{ type: "input_audio", input_audio: {} }]) }, "input[0].content[0].type"],
    [{ input: message([{ type: "toString" }]) }, "input[0].content[0].type"],
    [
      { input: message([{ type: "input_image", file_id: "file_1" }]) },
      "input[0].content[0].file_id",
    ],
    [{ input: message([{ type: "input_file" }]) }, "input[0].content[0]"],
    [{ input: message([{ type: "input_text", text: 5 }]) }, "input[0].content[0].text"],
    [{ input: [{ role: "tool", content: "x" }] }, "input[0].role"],
    [{ input: [{ type: "function_call", name: "a", arguments: "" }] }, "input[0].call_id"],
    [{ input: [{ type: "function_call", call_id: "a" }] }, "input[0].name"],
    [{ input: [call("a", "1")] }, "input"],
    [{ input: [call("a", "1"), call("b", "1")] }, "input[1].call_id"],
    [{ input: [{ type: "function_call_output", call_id: "1", output: "x" }] }, "input"],
    [
      { input: [{ type: "reasoning", summary: [], encrypted_content: "lh1.%%%" }] },
      "input[0].encrypted_content",
    ],
    [
      { input: [{ type: "reasoning", summary: [], encrypted_content: "lh1.W10" }] },
      "input",
    ],
    [{ tools: [{ type: "file_search", vector_store_ids: [] }] }, "tools[0]"],
    [{ tools: [{ type: "mcp", server_label: "x" }] }, "tools[0]"],
    [{ tools: [{ type: "hasOwnProperty" }] }, "tools[0]"],
    [{ tools: [{ type: "function" }] }, "tools[0].name"],
    [{ tools: [{ type: "function", name: "a" }, { type: "custom", name: "a" }] }, "tools[1].name"],
    [
      { tools: [{ type: "shell", environment: { type: "container_auto" } }] },
      "tools[0].environment",
    ],
    [{ tools: {} }, "tools"],
    [{ tool_choice: { type: "function", name: "none" } }, "tool_choice"],
    [{ tool_choice: { type: "web_search" }, tools: [{ type: "web_search" }] }, "tool_choice"],
    [{ tool_choice: 5 }, "tool_choice"],
    [{ truncation: "auto" }, "truncation"],
    [{ prompt: { id: "p" } }, "prompt"],
    [{ include: ["everything"] }, "include[0]"],
    [{ include: "x" }, "include"],
    [{ text: { format: { type: "grammar" } } }, "text.format"],
    [{ text: { tone: "sad" } }, "text.tone"],
    [{ reasoning: { budget: 5 } }, "reasoning.budget"],
    [{ moderation: { model: "x" } }, "moderation"],
    [{ constructor_: 1 }, "constructor_"],
    [{ toString: 1 }, "toString"],
    [{ instructions: ["x"] }, "instructions"],
    [{ temperature: "hot" }, "temperature"],
    [{ store: "yes" }, "store"],
    [{ background: 1 }, "background"],
    [{ stream: "yes" }, "stream"],
    [{ previous_response_id: 7 }, "previous_response_id"],
    [{ model: "" }, "model"],
  ];
  try {
    await withHub(config, async (hub) => {
      for (const [request, param] of REFUSED) {
        await t.step(JSON.stringify(request), async () => {
          const body = { model: "chat/m", input: "Hi", ...request };
          const answer = await hub.call("/v1/responses", { body });
          const { error } = await answer.json();
          assert.equal(answer.status, 400, JSON.stringify(error));
          assert.equal(error.param, param, error.message);
          assert.equal(error.type, "invalid_request_error");
        });
      }

      await t.step("broken bytes, depth and doubled members are told", async () => {
        const send = (body: string) =>
          fetch(`${hub.url}/v1/responses`, {
            method: "POST",
            headers: { authorization: `Bearer ${hub.key}` },
            body,
          });
        for (
          const body of [
            "",
            "{",
            "[]",
            '{"model":"a","model":"b","input":""}',
            `{"model":"chat/m","input":${"[".repeat(100)}${"]".repeat(100)}}`,
          ]
        ) {
          const answer = await send(body);
          await answer.body?.cancel();
          assert.equal(answer.status, 400);
        }
        const proto = await send('{"model":"chat/m","input":"x","__proto__":{"a":1}}');
        assert.equal((await proto.json()).error.param, "__proto__");
      });

      await t.step("hostile texts are kept and go on", async () => {
        const hostile = "a\u0000b\ud800c\u2028'; drop table hub.responses; --";
        const first = await hub.call("/v1/responses", {
          body: { model: "chat/m", input: hostile, metadata: { k: hostile } },
        });
        const { id } = await first.json();
        const next = await hub.call("/v1/responses", {
          body: { model: "chat/m", previous_response_id: id, input: "go on" },
        });
        assert.equal(next.status, 200, await next.text());
        assert.match(upstream.requests.at(-1)?.text ?? "", /a\ufffdb\ufffdc/);
        for (const odd of ["' or '1'='1", "%00", "../x", "a".repeat(300)]) {
          const found = await hub.call(`/v1/responses/${encodeURIComponent(odd)}`);
          await found.body?.cancel();
          assert.ok([400, 404].includes(found.status), `${odd}: ${found.status}`);
        }
      });
    });
  } finally {
    await upstream.stop();
  }
});
