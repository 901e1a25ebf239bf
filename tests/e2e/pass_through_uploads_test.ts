import assert from "node:assert/strict";
import { type RecordedRequest, startScriptedUpstream } from "../support/scripted_upstream.ts";
import { eventually, type TestHub, withHub } from "../support/test_hub.ts";
import { usageOf } from "../support/usage_of.ts";

const encoder = new TextEncoder();
const HELD = 64 * 1024;
const BIG = new Uint8Array(3 * 1024 * 1024).map((_, index) => index * 7);
const part = (name: string, more = "") =>
  `--b\r\nContent-Disposition: form-data; name="${name}"${more}\r\n\r\n`;
const FILE = part("file", '; filename="a"');

/** A client that says exactly what it says. */
async function connect(hub: TestHub, lines: string[]) {
  const { hostname, port } = new URL(hub.url);
  const socket = await Deno.connect({ hostname, port: Number(port) });
  const send = async (piece: string | Uint8Array) => {
    const bytes = typeof piece === "string" ? encoder.encode(piece) : piece;
    for (let at = 0; at < bytes.length;) at += await socket.write(bytes.subarray(at));
  };
  await send(
    [...lines, "host: localhost", `authorization: Bearer ${hub.key}`, "", ""].join("\r\n"),
  );
  return {
    send,
    close: () => socket.close(),
    /** The answer up to the end of its JSON. */
    async answer(): Promise<{ status: number; text: string }> {
      const buffer = new Uint8Array(65_536);
      let text = "";
      while (!/\r\n\r\n[^]*\}\s*$/.test(text)) {
        const size = await socket.read(buffer);
        if (size === null) break;
        text += new TextDecoder().decode(buffer.subarray(0, size));
      }
      return { status: Number(text.split(" ")[1]), text };
    },
  };
}

const upload = (path: string, framing: string) => [
  `POST ${path} HTTP/1.1`,
  "content-type: multipart/form-data; boundary=b",
  framing,
];

Deno.test("uploads are sent on while they come", async (t) => {
  const upstream = await startScriptedUpstream(() => ({ body: { id: "file-1", text: "x" } }));
  const config = {
    providers: { openai: { baseUrl: upstream.url, apiKey: "sk-own", maxRetries: 2 } },
    models: { hear: { targets: ["openai/whisper"] } },
    defaultModel: "openai/m",
    timeouts: { firstTokenMs: 20_000 },
    server: { maxBodyBytes: HELD, maxUploadBytes: 4 * 1024 * 1024 },
  };
  try {
    await withHub(config, async (hub) => {
      const fetchForm = (path: string, body: BodyInit) =>
        fetch(hub.url + path, {
          method: "POST",
          headers: {
            authorization: `Bearer ${hub.key}`,
            "content-type": "multipart/form-data; boundary=b",
          },
          body,
        });
      const form = (...pieces: (string | Uint8Array<ArrayBuffer>)[]) => new Blob(pieces);
      const bodyOf = (sent: RecordedRequest | undefined) => new Uint8Array(sent?.body ?? []);
      const last = () => upstream.requests.at(-1);

      await t.step("a file larger than what is held: every byte, and its length", async () => {
        const body = form(FILE, BIG, "\r\n--b--\r\n");
        const answer = await fetchForm("/v1/files", body);
        assert.equal((await answer.json()).id, "file-1");
        assert.equal(last()?.header("content-length"), String(body.size));
        assert.deepEqual(bodyOf(last()), await body.bytes());
      });

      await t.step("in chunks when its length is not known", async () => {
        const body = form(FILE, BIG, "\r\n--b--\r\n");
        const answer = await fetchForm("/v1/files", body.stream());
        assert.equal(answer.status, 200);
        await answer.body?.cancel();
        assert.equal(last()?.header("transfer-encoding"), "chunked");
        assert.equal(last()?.header("content-length"), null);
        assert.deepEqual(bodyOf(last()), await body.bytes());
      });

      await t.step("a form whose model comes early, larger than what is held", async () => {
        const parts = (model: string) =>
          form(part("model"), model, "\r\n", FILE, BIG, "\r\n--b--\r\n");
        for (const body of [parts("hear"), parts("hear").stream()]) {
          const answer = await fetchForm("/v1/audio/transcriptions", body);
          assert.equal(answer.status, 200);
          assert.equal((await answer.json()).text, "x");
          assert.deepEqual(bodyOf(last()), await parts("whisper").bytes());
        }
        const rows = await eventually(async () => {
          const rows = await usageOf(hub, "audio");
          return rows.length === 2 ? rows : null;
        });
        assert.deepEqual(rows.map(({ model }) => model), ["whisper", "whisper"]);
      });

      await t.step("a model behind what is held is asked for in front", async () => {
        const before = upstream.requests.length;
        const body = form(FILE, BIG, "\r\n", part("model"), "hear\r\n--b--\r\n");
        const answer = await fetchForm("/v1/audio/transcriptions", body);
        assert.equal(answer.status, 413);
        const { error } = await answer.json();
        assert.equal(error.param, "model");
        assert.match(error.message, /put the model before the file/);
        assert.equal(upstream.requests.length, before);
      });

      await t.step("a second model behind what was held stops the request", async () => {
        const before = upstream.requests.length;
        const body = form(
          part("model"),
          "hear\r\n",
          FILE,
          BIG,
          "\r\n",
          part("model"),
          "dearer\r\n--b--\r\n",
        );
        const answer = await fetchForm("/v1/audio/transcriptions", body);
        assert.equal(answer.status, 400);
        assert.match((await answer.json()).error.message, /model twice/);
        assert.equal(upstream.requests.length, before, "the provider never has it whole");
      });

      await t.step("past the cap", async () => {
        const body = form(FILE, BIG, BIG, "\r\n--b--\r\n");
        const told = await fetchForm("/v1/files", body);
        assert.equal(told.status, 413);
        await told.body?.cancel();
        const before = upstream.requests.length;
        const client = await connect(hub, upload("/v1/files", "transfer-encoding: chunked"));
        const sending = (async () => {
          for (let at = 0; at < 2; at++) {
            await client.send(`${BIG.length.toString(16)}\r\n`);
            await client.send(BIG);
            await client.send("\r\n");
          }
        })().catch(() => {});
        assert.equal((await client.answer()).status, 413);
        client.close();
        await sending;
        assert.equal(upstream.requests.length, before);
      });

      await t.step(
        "it is on its way before it is whole, and the answer may come early",
        async () => {
          upstream.answerBeforeBody(() => true);
          upstream.script({ status: 429, headers: { "retry-after": "9" }, body: { error: {} } });
          const before = upstream.requests.length;
          const client = await connect(hub, upload("/v1/files", `content-length: ${BIG.length}`));
          await client.send(FILE);
          const { status, text } = await client.answer();
          assert.equal(status, 429);
          assert.match(text, /retry-after: 9/i);
          assert.match(text, /connection: close/i, "nobody knows what the rest would be");
          client.close();
          assert.equal(upstream.requests.length, before + 1, "and it is not sent again");
          upstream.answerBeforeBody(() => false);
          upstream.readLeftBodies();
          upstream.script(() => ({ body: { id: "file-1", text: "x" } }));
        },
      );

      await t.step("a client that leaves in the middle stops the provider", async () => {
        for (const path of ["/v1/files", "/v1/audio/transcriptions"]) {
          const closed = upstream.closedByClient.length;
          const accepted = upstream.accepted;
          const client = await connect(hub, upload(path, `content-length: ${BIG.length}`));
          await client.send(part("model") + "hear\r\n" + FILE);
          await client.send(BIG.subarray(0, 2 * HELD));
          await upstream.until(() => upstream.accepted > accepted);
          const leftMs = performance.now();
          client.close();
          await upstream.until(() => upstream.closedByClient.length > closed);
          const close = upstream.closedByClient.at(-1);
          assert.equal(close?.during, "request");
          const tookMs = (close?.atMs ?? Infinity) - leftMs;
          assert.ok(tookMs <= 250, `${path}: ${tookMs} ms`);
        }
        const row = await eventually(async () =>
          (await usageOf(hub, "audio")).find(({ outcome }) => outcome === "aborted")
        );
        assert.equal(row.prompt_tokens, null);
      });

      await t.step("a client that leaves a download stops the provider", async () => {
        upstream.script({
          headers: { "content-type": "application/octet-stream" },
          frames: [BIG.subarray(0, 1000), { wait: new Promise(() => {}) }],
        });
        const closed = upstream.closedByClient.length;
        const leave = new AbortController();
        const answer = await hub.call("/v1/files/file-1/content", { signal: leave.signal });
        const reader = answer.body?.getReader();
        await reader?.read();
        const leftMs = performance.now();
        leave.abort();
        await reader?.read().catch(() => {});
        await upstream.until(() => upstream.closedByClient.length > closed);
        const tookMs = (upstream.closedByClient.at(-1)?.atMs ?? Infinity) - leftMs;
        assert.ok(tookMs <= 250, `${tookMs} ms`);
        const row = await eventually(async () =>
          (await usageOf(hub, "files")).find(({ outcome, status }) =>
            outcome === "aborted" && status === 200
          )
        );
        assert.equal(row.bytes_out, "1000");
      });
    });
    await upstream.until(() => upstream.open === 0);
  } finally {
    await upstream.stop();
  }
});
