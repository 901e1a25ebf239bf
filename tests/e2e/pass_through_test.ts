import assert from "node:assert/strict";
import OpenAI, { toFile } from "openai";
import { chatError, type Reply, startScriptedUpstream } from "../support/scripted_upstream.ts";
import { eventually, withHub } from "../support/test_hub.ts";
import { usageOf } from "../support/usage_of.ts";

const BINARY = Uint8Array.from({ length: 100_000 }, (_, index) => (index * 31) % 256);
const json = (body: unknown): Reply => ({
  body: `${JSON.stringify(body)}\n`,
  headers: { "content-type": "application/json", "x-ratelimit-remaining-requests": "7" },
});
const file = { id: "file-abc", object: "file", bytes: 3, filename: "a.jsonl", purpose: "batch" };
const batch = { id: "batch_1", object: "batch", status: "validating" };

Deno.test("OpenAI's API passes through", async (t) => {
  const upstream = await startScriptedUpstream();
  const config = {
    providers: {
      openai: { baseUrl: upstream.url, apiKey: "sk-own", maxRetries: 1 },
      other: {
        baseUrl: `${upstream.url}/other`,
        apiKey: "sk-other",
        headers: { "x-tenant": "t1" },
        maxRetries: 0,
      },
      gem: { kind: "google", apiKey: "sk-gem" },
    },
    models: { picture: { targets: ["openai/gpt-image", "other/image"] } },
    defaultModel: "openai/m",
    timeouts: { firstTokenMs: 2000, inactivityMs: 400 },
  };
  try {
    await withHub(config, async (hub) => {
      const client = new OpenAI({
        apiKey: hub.key,
        baseURL: `${hub.url}/v1`,
        maxRetries: 0,
        organization: "org-client",
        project: "proj-client",
        defaultHeaders: { cookie: "session=1", "x-forwarded-for": "1.2.3.4", "openai-beta": "b=1" },
      });
      const last = () => upstream.requests.at(-1);
      const lastUsage = (kind: string, count = 1) =>
        eventually(async () => {
          const rows = await usageOf(hub, kind);
          return rows.length >= count ? rows.at(-1) : null;
        });

      await t.step("images.generate: tokens are booked as the answer tells them", async () => {
        const answer = {
          created: 1,
          data: [{ b64_json: "AAAA" }],
          usage: { input_tokens: 10, output_tokens: 200, total_tokens: 210 },
        };
        upstream.script(json(answer));
        const { data, response } = await client.images.generate({
          model: "picture",
          prompt: "a cat",
        }).withResponse();
        assert.deepEqual(data.data, answer.data);
        assert.equal(response.headers.get("x-loophub-target"), "openai/gpt-image");
        assert.equal(response.headers.get("x-ratelimit-remaining-requests"), "7");
        assert.match(response.headers.get("x-request-id") ?? "", /^req_/);
        assert.match(response.headers.get("x-loophub-overhead-ms") ?? "", /^\d/);
        assert.equal(response.headers.get("x-content-type-options"), "nosniff");
        assert.equal(last()?.path, "/v1/images/generations");
        assert.deepEqual(last()?.json, { model: "gpt-image", prompt: "a cat" });
        const row = await lastUsage("images");
        assert.deepEqual(
          [row.provider, row.model, row.public_model, row.status, row.outcome],
          ["openai", "gpt-image", "picture", 200, "ok"],
        );
        assert.deepEqual([row.prompt_tokens, row.completion_tokens, row.estimated], [
          "10",
          "200",
          false,
        ]);
      });

      await t.step("images in events pass as they come, with their usage", async () => {
        const frames = [
          'event: image_generation.partial_image\ndata: {"type":"image_generation.partial_image"}\n\n',
          'event: image_generation.completed\ndata: {"type":"image_generation.completed","usage":' +
          '{"input_tokens":3,"output_tokens":4,"total_tokens":7}}\n\n',
        ];
        upstream.script({ headers: { "content-type": "text/event-stream" }, frames });
        const body = { model: "openai/i", prompt: "x", stream: true };
        const answer = await hub.call("/v1/images/generations", { body });
        assert.equal(answer.headers.get("content-type"), "text/event-stream");
        assert.equal(await answer.text(), frames.join(""));
        const row = await lastUsage("images", 2);
        assert.deepEqual([row.streamed, row.completion_tokens], [true, "4"]);
      });

      await t.step("audio.transcriptions: the form passes, with another model name", async () => {
        upstream.script(json({ text: "hello", usage: { type: "duration", seconds: 3 } }));
        const answer = await client.audio.transcriptions.create({
          file: await toFile(BINARY, 'a"é.mp3', { type: "audio/mpeg" }),
          model: "other/whisper-1",
          language: "de",
        });
        assert.equal(answer.text, "hello");
        const sent = last();
        assert.equal(sent?.path, "/v1/other/audio/transcriptions");
        assert.equal(sent?.header("authorization"), "Bearer sk-other");
        assert.equal(sent?.header("x-tenant"), "t1");
        const form = await formOf(sent);
        assert.equal(form.get("model"), "whisper-1");
        assert.equal(form.get("language"), "de");
        const got = form.get("file");
        assert.ok(got instanceof File);
        assert.deepEqual(await got.bytes(), BINARY);
        const row = await lastUsage("audio");
        assert.deepEqual([row.prompt_tokens, row.cost_micros, row.estimated], [null, null, false]);
      });

      await t.step("audio.translations; a form keeps every other byte", async () => {
        upstream.script(json({ text: "x" }));
        const { body, type } = formBody("openai/w");
        const answer = await fetch(`${hub.url}/v1/audio/translations`, {
          method: "POST",
          headers: { authorization: `Bearer ${hub.key}`, "content-type": type },
          body: new Uint8Array(body),
        });
        assert.equal(await answer.text(), '{"text":"x"}\n');
        assert.deepEqual(last()?.body, formBody("w").body);
        assert.equal(last()?.header("content-type"), type);
        assert.equal(last()?.header("content-length"), String(formBody("w").body.length));
      });

      await t.step("audio.speech: the answer is bytes", async () => {
        upstream.script({ body: BINARY, headers: { "content-type": "audio/mpeg" } });
        const answer = await client.audio.speech.create({
          model: "openai/tts",
          voice: "alloy",
          input: "Hello",
        });
        assert.equal(answer.headers.get("content-type"), "audio/mpeg");
        assert.deepEqual(new Uint8Array(await answer.arrayBuffer()), BINARY);
        const row = await lastUsage("audio", 3);
        assert.deepEqual([row.bytes_out, row.prompt_tokens], [String(BINARY.length), null]);
      });

      await t.step("moderations: without a model the only OpenAI gets it", async () => {
        upstream.script(json({ id: "modr-1", model: "omni", results: [{ flagged: false }] }));
        const answer = await client.moderations.create({ input: "hi" });
        assert.equal(answer.results[0]?.flagged, false);
        assert.equal(last()?.text, '{"input":"hi"}');
        assert.equal(last()?.header("authorization"), "Bearer sk-own");
        const row = await lastUsage("moderations");
        assert.deepEqual([row.provider, row.model, row.public_model], ["openai", "-", "-"]);
      });

      await t.step("rerank", async () => {
        upstream.script(json({ results: [{ index: 0 }], usage: { total_tokens: 12 } }));
        const body = { model: "other/rerank-2", query: "q", documents: ["a"] };
        const answer = await hub.call("/v1/rerank", { body });
        assert.equal((await answer.json()).results.length, 1);
        const row = await lastUsage("rerank");
        assert.deepEqual([row.prompt_tokens, row.completion_tokens], ["12", "0"]);
      });

      await t.step("files: create, list, retrieve, content, delete", async () => {
        upstream.script(json(file));
        const created = await client.files.create({
          file: await toFile(BINARY, "a.jsonl"),
          purpose: "batch",
        });
        assert.equal(created.id, "file-abc");
        const form = await formOf(last());
        assert.equal(form.get("purpose"), "batch");
        assert.deepEqual(await (form.get("file") as File).bytes(), BINARY);

        upstream.script(json({ object: "list", data: [file], has_more: false }));
        const ids = [];
        for await (const one of client.files.list({ purpose: "batch", limit: 5 })) ids.push(one.id);
        assert.deepEqual(ids, ["file-abc"]);
        assert.equal(last()?.path, "/v1/files?purpose=batch&limit=5");
        assert.equal(last()?.method, "GET");

        upstream.script(json(file));
        assert.equal((await client.files.retrieve("file-abc")).filename, "a.jsonl");
        const content = { "content-type": "application/json", "content-disposition": "attachment" };
        upstream.script({ body: '{"a":1}\n{"a":2}\n', headers: content });
        const got = await client.files.content("file-abc");
        assert.equal(got.headers.get("content-disposition"), "attachment");
        assert.equal(await got.text(), '{"a":1}\n{"a":2}\n');
        assert.equal(last()?.path, "/v1/files/file-abc/content");

        upstream.script(json({ id: "file-abc", object: "file", deleted: true }));
        assert.equal((await client.files.delete("file-abc")).deleted, true);
        assert.equal(last()?.method, "DELETE");
        assert.equal((await lastUsage("files", 5)).outcome, "ok");
      });

      await t.step("uploads and batches", async () => {
        upstream.script(json({ id: "upload_1", object: "upload", status: "pending" }));
        await client.uploads.create({
          bytes: 3,
          filename: "a",
          mime_type: "text/plain",
          purpose: "batch",
        });
        upstream.script(json({ id: "part_1" }));
        await client.uploads.parts.create("upload_1", { data: await toFile(BINARY, "p") });
        assert.equal(last()?.path, "/v1/uploads/upload_1/parts");
        upstream.script(json({ id: "upload_1", status: "completed" }));
        await client.uploads.complete("upload_1", { part_ids: ["part_1"] });

        upstream.script(json({ ...batch, usage: { input_tokens: 1000, output_tokens: 5 } }));
        await client.batches.create({
          input_file_id: "file-abc",
          endpoint: "/v1/chat/completions",
          completion_window: "24h",
        });
        assert.equal((await client.batches.retrieve("batch_1")).id, "batch_1");
        await client.batches.cancel("batch_1");
        assert.deepEqual([last()?.method, last()?.path], ["POST", "/v1/batches/batch_1/cancel"]);
        const row = await lastUsage("batches", 3);
        assert.equal(
          row.prompt_tokens,
          null,
          "what a batch has cost is not booked by looking at it",
        );
        upstream.script(json({ object: "list", data: [batch], has_more: false }));
        for await (const one of client.batches.list()) assert.equal(one.id, "batch_1");
      });

      await t.step("vector stores", async () => {
        upstream.script(json({ id: "vs_1", object: "vector_store" }));
        await client.vectorStores.create({ name: "v" });
        await client.vectorStores.files.create("vs_1", { file_id: "file-abc" });
        assert.equal(last()?.path, "/v1/vector_stores/vs_1/files");
        await client.vectorStores.delete("vs_1");
        upstream.script(json({ object: "list", data: [], has_more: false }));
        for await (const _ of client.vectorStores.search("vs_1", { query: "q" }));
      });

      await t.step("a request without a model says where it goes", async () => {
        upstream.script(json({ object: "list", data: [] }));
        const list = (path: string, headers: Record<string, string> = {}) =>
          hub.call(path, { headers });
        const header = { "x-loophub-provider": "other" };
        const answer = await list("/v1/files?limit=2&order=a%20b", header);
        assert.equal(answer.status, 200);
        assert.equal(answer.headers.get("x-loophub-target"), "other");
        await answer.body?.cancel();
        assert.equal(last()?.path, "/v1/other/files?limit=2&order=a%20b");
        await (await list("/v1/files?a=1&provider=other&b=%2F")).body?.cancel();
        assert.equal(last()?.path, "/v1/other/files?a=1&b=%2F");
        const before = upstream.requests.length;
        for (
          const [path, headers] of [
            ["/v1/files?provider=nobody", {}],
            ["/v1/files?provider=gem", {}],
            ["/v1/files?provider=openai&provider=other", {}],
            ["/v1/files?provider=openai", header],
          ] as const
        ) {
          const refused = await list(path, headers);
          assert.equal(refused.status, 400, path);
          assert.equal((await refused.json()).error.type, "invalid_request_error");
        }
        await assert.rejects(
          client.images.generate({ model: "openai/x", prompt: "x" }, { headers: header }),
          OpenAI.BadRequestError,
        );
        await assert.rejects(
          client.images.generate({ model: "gem/x", prompt: "x" }),
          OpenAI.BadRequestError,
        );
        assert.equal(upstream.requests.length, before);
        upstream.script(json({ data: [] }));
        await client.images.generate({ model: "picture", prompt: "x" }, { headers: header });
        assert.equal(last()?.json.model, "image", "the model's target at that provider");
      });

      await t.step("failures: retried where that is safe, never an upload", async () => {
        const before = () => upstream.requests.length;
        let count = before();
        upstream.script([chatError(500), json({ data: [] })]);
        await client.images.generate({ model: "openai/i", prompt: "x" });
        assert.equal(before(), count + 2);
        count = before();
        upstream.script([chatError(503), chatError(503), json({ data: [] })]);
        await client.images.generate({ model: "picture", prompt: "x" });
        assert.equal(last()?.header("authorization"), "Bearer sk-other");
        for (
          const once of [
            () =>
              client.batches.create({
                input_file_id: "f",
                endpoint: "/v1/embeddings",
                completion_window: "24h",
              }),
            async () =>
              await client.files.create({ file: await toFile(BINARY, "a"), purpose: "batch" }),
          ]
        ) {
          count = before();
          upstream.script([chatError(500), json(file)]);
          await assert.rejects(once(), OpenAI.InternalServerError);
          assert.equal(before(), count + 1);
        }
        count = before();
        upstream.script([chatError(500), json(file)]);
        await client.files.delete("file-abc");
        assert.equal(before(), count + 2);
      });

      await t.step("refusals of the provider are the client's own errors", async () => {
        const fails = async (reply: Reply, status: number) => {
          upstream.script(reply);
          await assert.rejects(client.files.retrieve("file-x"), (error) => {
            assert.ok(error instanceof OpenAI.APIError);
            assert.equal(error.status, status);
            assert.ok(!error.message.includes("sk-own"));
            return true;
          });
        };
        await fails(chatError(404, { message: "No such File object" }), 404);
        await fails(chatError(409, { message: "in use" }), 409);
        await fails(chatError(401, { message: "sk-own is wrong" }), 502);
        await fails({ status: 302, headers: { location: upstream.url } }, 502);
        const count = upstream.requests.length;
        await fails({ status: 307, headers: { location: "http://127.0.0.1:1/v1/files" } }, 502);
        assert.ok(upstream.requests.length - count <= 2, "no redirect is followed");
      });

      await t.step("a cut or stalled file breaks off; half a file never looks whole", async () => {
        for (const end of ["cut", "stall"] as const) {
          upstream.script({
            body: BINARY.subarray(0, 1000),
            contentLength: 5000,
            headers: { "content-type": "application/octet-stream" },
            end,
          });
          const answer = await client.files.content("file-abc");
          await assert.rejects(answer.arrayBuffer());
        }
        const rows = await eventually(async () => {
          const rows = await usageOf(hub, "files");
          return rows.some(({ outcome }) => outcome === "timeout") ? rows : null;
        });
        assert.ok(rows.some(({ outcome }) => outcome === "cut"));
      });

      await t.step("answers without a body", async () => {
        upstream.script({ status: 204 });
        const answer = await hub.call("/v1/vector_stores/vs_1", { method: "DELETE" });
        assert.deepEqual([answer.status, await answer.text()], [204, ""]);
        assert.equal((await lastUsage("vector_stores", 5)).outcome, "ok");
      });

      await t.step("nothing of the client's own ever arrived", () => {
        const allowed =
          /^(host|accept|accept-encoding|authorization|content-type|content-length|user-agent|openai-beta|x-tenant|transfer-encoding)$/;
        for (const { headers, path } of upstream.requests) {
          for (const [name, value] of headers) {
            assert.match(name.toLowerCase(), allowed, path);
            assert.ok(!value.includes(hub.key) && !value.includes("client"), `${path} ${name}`);
          }
          const keys = headers.filter(([name]) => name.toLowerCase() === "authorization");
          assert.equal(keys.length, 1);
          assert.match(keys[0]?.[1] ?? "", /^Bearer sk-(own|other)$/);
        }
        assert.ok(
          upstream.requests.some(({ headers }) => headers.some(([name]) => name === "openai-beta")),
        );
      });
    });
  } finally {
    await upstream.stop();
  }
});

async function formOf(
  sent: { body: Uint8Array; header(name: string): string | null } | undefined,
): Promise<FormData> {
  const headers = { "content-type": sent?.header("content-type") ?? "" };
  return await new Response(new Uint8Array(sent?.body ?? []), { headers }).formData();
}

/** A form with its model behind the file, and binary in the file. */
function formBody(model: string): { body: Uint8Array; type: string } {
  const encoder = new TextEncoder();
  const head = '--B0und\r\nContent-Disposition: form-data; name="file"; filename="x"\r\n\r\n';
  const tail =
    `\r\n--B0und\r\nX-Own: 1\r\ncontent-disposition: form-data; name=model\r\n\r\n${model}` +
    '\r\n--B0und\r\nContent-Disposition: form-data; name="é[]"\r\n\r\n\r\n--B0und--\r\n';
  const body = new Uint8Array([...encoder.encode(head), ...BINARY, ...encoder.encode(tail)]);
  return { body, type: 'multipart/form-data; boundary="B0und"' };
}
