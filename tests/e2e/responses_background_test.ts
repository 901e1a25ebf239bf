import assert from "node:assert/strict";
import OpenAI from "openai";
import { nativeFrames, nativeReply } from "../support/responses.ts";
import { issueSecondKey } from "../support/second_key.ts";
import { chatError, chatStream, startScriptedUpstream } from "../support/scripted_upstream.ts";
import { eventually, type TestHub, tookUnder, withHub, withReplicas } from "../support/test_hub.ts";

const usage = { promptTokens: 5, completionTokens: 3 };
const clientOf = (hub: TestHub, apiKey = hub.key) =>
  new OpenAI({ apiKey, baseURL: `${hub.url}/v1`, maxRetries: 0 });
const ended = (client: OpenAI, id: string) =>
  eventually(async () => {
    const response = await client.responses.retrieve(id);
    return response.status === "queued" || response.status === "in_progress" ? null : response;
  });
const usageRows = (hub: TestHub) =>
  hub.hub.start.db.read<{ outcome: string }[]>`select outcome from hub.usage`;

Deno.test("background responses over a chat provider and a native one", async (t) => {
  const upstream = await startScriptedUpstream();
  const limits = { baseUrl: upstream.url, apiKey: "sk-up", maxRetries: 0 };
  const config = {
    providers: { chat: limits, native: { ...limits, kind: "openai" } },
    defaultModel: "chat/m",
  };
  const half = (dialect: string) =>
    dialect === "chat" ? chatStream({ text: "one two three", endAfter: 3, end: "stall" }) : {
      headers: { "content-type": "text/event-stream" },
      frames: nativeFrames({ text: "one two three" }).slice(0, 6),
      end: "stall" as const,
    };
  try {
    await withHub(config, async (hub) => {
      const client = clientOf(hub);
      for (const dialect of ["chat", "native"]) {
        const model = `${dialect}/m`;
        const whole = (text: string) =>
          upstream.script((request) =>
            dialect === "chat" ? chatStream({ text, usage }) : nativeReply(request, { text })
          );

        await t.step(`${dialect}: queued at once, made behind, polled`, async () => {
          whole("made behind");
          const queued = await client.responses.create({ model, input: "Hi", background: true });
          assert.equal(queued.status, "queued");
          assert.equal(queued.background, true);
          const done = await ended(client, queued.id);
          assert.equal(done.id, queued.id);
          assert.equal(done.status, "completed");
          assert.equal(done.output_text, "made behind");
          assert.equal(done.usage?.output_tokens, dialect === "chat" ? 3 : 7);
          const sent = upstream.requests.at(-1)?.json ?? {};
          assert.equal(sent.stream, true);
          assert.equal(sent.background, undefined);
          if (dialect === "native") assert.equal(sent.store, false);
          const again = await client.responses.cancel(queued.id);
          assert.equal(again.status, "completed");
        });

        await t.step(`${dialect}: a client reads along, leaves, and comes back`, async () => {
          whole("one two three four");
          const asked = { model, input: "Hi", background: true, stream: true } as const;
          const types: string[] = [];
          let id = "";
          for await (const event of await client.responses.create(asked)) {
            if (event.type === "response.created") id = event.response.id;
            types.push(`${event.sequence_number} ${event.type}`);
            if (types.length === 3) break;
          }
          const rest = await client.responses.retrieve(id, { stream: true, starting_after: 2 });
          for await (const event of rest) types.push(`${event.sequence_number} ${event.type}`);
          assert.deepEqual(types.slice(0, 3), [
            "0 response.created",
            "1 response.queued",
            "2 response.in_progress",
          ]);
          assert.deepEqual(
            types.map((type) => Number(type.split(" ")[0])),
            types.map((_, index) => index),
          );
          assert.match(types.at(-1) ?? "", /response\.completed$/);
          // Long after its end, from the beginning: the helper wants every event.
          await ended(client, id);
          const final = await client.responses.stream({ response_id: id }).finalResponse();
          assert.equal(final.output_text, "one two three four");
          const after = await client.responses.retrieve(id, { stream: true, starting_after: 999 });
          for await (const event of after) assert.fail(event.type);
        });

        await t.step(`${dialect}: cancel stops the upstream within 250 ms`, async () => {
          upstream.script(half(dialect));
          let id = "";
          await tookUnder(250, async () => {
            const before = upstream.requests.length;
            const closes = upstream.closedByClient.length;
            ({ id } = await client.responses.create({ model, input: "Hi", background: true }));
            await upstream.until(() => upstream.requests.length > before);
            await eventually(async () =>
              (await client.responses.retrieve(id)).status === "in_progress" || null
            );
            const cancelledMs = performance.now();
            const cancelled = await client.responses.cancel(id);
            assert.equal(cancelled.status, "cancelled");
            await upstream.until(() => upstream.closedByClient.length > closes);
            return (upstream.closedByClient.at(-1)?.atMs ?? NaN) - cancelledMs;
          });
          assert.equal((await client.responses.retrieve(id)).status, "cancelled");
          await assert.rejects(
            client.responses.create({ model, previous_response_id: id, input: "x" }),
            { status: 400, param: "previous_response_id" },
          );
        });

        await t.step(`${dialect}: a failure is the response's own`, async () => {
          upstream.script(chatError(500));
          const { id } = await client.responses.create({ model, input: "Hi", background: true });
          const failed = await ended(client, id);
          assert.equal(failed.status, "failed");
          assert.equal(failed.error?.code, "server_error");
          const types: string[] = [];
          const events = await client.responses.retrieve(id, { stream: true });
          for await (const { type } of events) types.push(type);
          assert.equal(types.at(-1), "response.failed");
        });

        await t.step(`${dialect}: the next turn goes on from it`, async () => {
          whole("first answer");
          const { id } = await client.responses.create({ model, input: "One", background: true });
          await ended(client, id);
          whole("second answer");
          const next = await client.responses.create({
            model,
            previous_response_id: id,
            input: "Two",
            background: true,
          });
          assert.equal((await ended(client, next.id)).output_text, "second answer");
          const sent = upstream.requests.at(-1)?.json ?? {};
          assert.equal(sent.previous_response_id, undefined);
          assert.match(JSON.stringify(sent), /One.*first answer.*Two/);
        });

        await t.step(`${dialect}: deleted while it is made, its provider is stopped`, async () => {
          upstream.script(half(dialect));
          const closes = upstream.closedByClient.length;
          const before = upstream.requests.length;
          const { id } = await client.responses.create({ model, input: "Hi", background: true });
          await upstream.until(() => upstream.requests.length > before);
          await client.responses.delete(id);
          await upstream.until(() => upstream.closedByClient.length > closes);
          await assert.rejects(client.responses.retrieve(id), { status: 404 });
        });
      }

      await t.step("it must be stored", async () => {
        await assert.rejects(
          client.responses.create({ model: "chat/m", input: "x", background: true, store: false }),
          { status: 400, param: "store" },
        );
      });

      await t.step("another key has no such response", async () => {
        upstream.script(chatStream({ text: "mine", usage }));
        const { id } = await client.responses.create({
          model: "chat/m",
          input: "x",
          background: true,
        });
        await ended(client, id);
        const other = clientOf(hub, await issueSecondKey(hub));
        await assert.rejects(other.responses.retrieve(id), { status: 404 });
        await assert.rejects(other.responses.cancel(id), { status: 404 });
        await assert.rejects(other.responses.delete(id), { status: 404 });
        await assert.rejects(other.responses.inputItems.list(id).then(), { status: 404 });
        await assert.rejects(
          other.responses.create({ model: "chat/m", previous_response_id: id, input: "x" }),
          { code: "previous_response_not_found" },
        );
        assert.equal((await client.responses.retrieve(id)).output_text, "mine");
      });

      await t.step("the same key asks once", async () => {
        upstream.script(chatStream({ text: "once", usage }));
        const before = upstream.requests.length;
        const asked = { model: "chat/m", input: "x", background: true };
        const headers = { "Idempotency-Key": "order-7" };
        const first = await client.responses.create(asked, { headers });
        await ended(client, first.id);
        const second = await client.responses.create(asked, { headers });
        assert.equal(second.id, first.id);
        assert.equal(upstream.requests.length, before + 1);
      });

      await t.step("each that reached a provider is one usage row", async () => {
        const rows = await eventually(async () => {
          const rows = await usageRows(hub);
          return rows.length >= upstream.requests.length ? rows : null;
        });
        assert.equal(rows.length, upstream.requests.length);
      });
    });
  } finally {
    await upstream.stop();
  }
});

Deno.test("background responses over replicas, and past the end of their hub", async (t) => {
  const upstream = await startScriptedUpstream();
  const providers = { chat: { baseUrl: upstream.url, apiKey: "sk-up", maxRetries: 0 } };
  const config = { providers, defaultModel: "chat/m" };
  const model = "chat/m";
  const half = chatStream({ text: "one two three", endAfter: 3, end: "stall" });
  try {
    await withReplicas([config, config], async (first, second) => {
      const [here, there] = [clientOf(first), clientOf(second)];

      await t.step("read along and cancelled on the other one", async () => {
        upstream.script(half);
        await tookUnder(250, async () => {
          const closes = upstream.closedByClient.length;
          const { id } = await here.responses.create({ model, input: "Hi", background: true });
          const types: string[] = [];
          let cancelledMs = 0;
          let tookMs = NaN;
          for await (const event of await there.responses.retrieve(id, { stream: true })) {
            types.push(event.type);
            if (event.type !== "response.output_text.delta" || cancelledMs > 0) continue;
            cancelledMs = performance.now();
            assert.equal((await there.responses.cancel(id)).status, "cancelled");
            await upstream.until(() => upstream.closedByClient.length > closes);
            tookMs = (upstream.closedByClient.at(-1)?.atMs ?? NaN) - cancelledMs;
          }
          assert.equal(types.at(-1), "response.incomplete");
          assert.equal((await here.responses.retrieve(id)).status, "cancelled");
          return tookMs;
        });
      });

      await t.step("a stored response is gone on from on the other one", async () => {
        upstream.script(chatStream({ text: "answer", usage }));
        const { id } = await here.responses.stream({ model, input: "One" }).finalResponse();
        const next = await there.responses.stream({
          model,
          previous_response_id: id,
          input: "Two",
        }).finalResponse();
        assert.equal(next.previous_response_id, id);
        assert.match(upstream.requests.at(-1)?.text ?? "", /One.*answer.*Two/);
      });
    });

    await t.step("a hub that stops fails what it was making", async () => {
      await withHub(config, async (hub) => {
        upstream.script(half);
        const before = upstream.requests.length;
        const { id } = await clientOf(hub).responses.create({
          model,
          input: "Hi",
          background: true,
        });
        await upstream.until(() => upstream.requests.length > before);
        const next = await hub.restart();
        const failed = await clientOf(next).responses.retrieve(id);
        assert.equal(failed.status, "failed");
        assert.match(failed.error?.message ?? "", /stopped/);
      });
    });

    await t.step("what a lost hub was making has failed once its lease is over", async () => {
      await withHub(config, async (hub) => {
        const { db } = hub.hub.start;
        upstream.script(chatStream({ text: "x", usage }));
        const client = clientOf(hub);
        const { id } = await client.responses.create({ model, input: "Hi", background: true });
        await ended(client, id);
        await eventually(async () => {
          const rows = await db.control`update hub.responses
            set status = 'in_progress', lease_until = now() - interval '1 second',
              response = jsonb_set(response, '{status}', '"in_progress"')
            where response_id = ${id} and status = 'completed' returning 1`;
          return rows.length > 0 || null;
        });
        await db.control`delete from hub.response_events where seq_from > 0`;
        const lost = await client.responses.retrieve(id);
        assert.equal(lost.status, "failed");
        assert.match(lost.error?.message ?? "", /lost/);
      });
    });
  } finally {
    await upstream.stop();
  }
});
