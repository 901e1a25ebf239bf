import assert from "node:assert/strict";
import { decodeBase64 } from "../../src/core/decode_base64.ts";
import { MAX_MODEL_FILE_BYTES, MAX_MODEL_FILES } from "../../src/core/limits.ts";
import { SILENT_LOG } from "../../src/core/log.ts";
import type { CallModel, ModelEvent, ModelRequest } from "../../src/core/model.ts";
import { keepModelFiles } from "../../src/run/model_files.ts";
import type { SessionFiles } from "../../src/run/session_files.ts";
import type { StoredFile } from "../../src/store/files.ts";

const PNG = Uint8Array.of(0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a, 1, 2, 3);
const JPEG = Uint8Array.of(0xff, 0xd8, 0xff, 0xe0, 1);
const urlOf = (bytes: Uint8Array, mediaType = "image/png") =>
  `data:${mediaType};base64,${bytes.toBase64()}`;
const fileOf = (url: string, mediaType = "image/png"): ModelEvent => (
  { type: "file", mediaType, url }
);

function memoryFiles(): SessionFiles & { saved: StoredFile[] } {
  const saved: StoredFile[] = [];
  return {
    saved,
    save: (file) => Promise.resolve(`/v1/sessions/ses_1/files/${saved.push(file) - 1}`),
    read: (path) => Promise.resolve(saved[Number(path.split("/").at(-1))] ?? null),
  };
}

const REQUEST: ModelRequest = { messages: [], tools: [] };
const CONTEXT = { signal: new AbortController().signal, stepAttempt: 0 };

async function keep(
  reads: ModelEvent[][],
  options: Partial<Parameters<typeof keepModelFiles>[1]> = {},
): Promise<ModelEvent[]> {
  const callModel: CallModel = async function* () {
    yield* reads;
  };
  const kept = keepModelFiles(callModel, { files: memoryFiles(), log: SILENT_LOG, ...options });
  return (await Array.fromAsync(kept(REQUEST, CONTEXT))).flat();
}

const reasonOf = (event: ModelEvent | undefined) =>
  event?.type === "file-left-out" ? event.reason : event?.type;

Deno.test("keepModelFiles: an image is stored before its event, which has a link, by its own bytes' type", async () => {
  const files = memoryFiles();
  const text: ModelEvent = { type: "text-delta", delta: "a" };
  const events = await keep([[text, fileOf(urlOf(PNG)), text], [fileOf(urlOf(JPEG))]], { files });
  assert.deepEqual(events, [
    text,
    { type: "file", mediaType: "image/png", url: "/v1/sessions/ses_1/files/0" },
    text,
    { type: "file", mediaType: "image/jpeg", url: "/v1/sessions/ses_1/files/1" },
  ]);
  assert.deepEqual(files.saved, [
    { mediaType: "image/png", content: PNG },
    { mediaType: "image/jpeg", content: JPEG },
  ]);
});

Deno.test("keepModelFiles: what passes a bound, or is no image, is left out with its reason", async () => {
  const large = new Uint8Array(MAX_MODEL_FILE_BYTES + 1);
  large.set(PNG);
  for (
    const [file, reason] of [
      [fileOf("data:image/png;base64,%%%"), /not base64/],
      [fileOf(urlOf(new TextEncoder().encode("<svg onload=alert(1)>"))), /no image/],
      [fileOf(urlOf(PNG, "image/svg+xml"), "image/svg+xml"), /its type must be one of/],
      [fileOf(urlOf(large)), /8388609 bytes/],
    ] as const
  ) {
    const files = memoryFiles();
    const [event] = await keep([[file]], { files });
    assert.match(reasonOf(event) ?? "", reason);
    assert.equal(files.saved.length, 0);
  }
});

Deno.test("keepModelFiles: files are counted over all calls of a run, and those of its log before", async () => {
  const logged = { type: "file", mediaType: "image/png", url: "/v1/x" } as const;
  const events = await keep([[fileOf(urlOf(PNG)), fileOf(urlOf(PNG))]], {
    events: Array.from({ length: MAX_MODEL_FILES - 1 }, () => logged),
  });
  assert.equal(reasonOf(events[0]), "file");
  assert.match(reasonOf(events[1]) ?? "", /32 files/);
});

Deno.test("keepModelFiles: a file that cannot be stored is left out, the answer goes on", async () => {
  const files = { ...memoryFiles(), save: () => Promise.reject(new Error("down")) };
  const end: ModelEvent = { type: "finish", finishReason: "stop" };
  const events = await keep([[fileOf(urlOf(PNG)), end]], { files });
  assert.deepEqual(events.map(reasonOf), ["it could not be stored", "finish"]);
});

Deno.test("keepModelFiles: links to images of the session are images in requests", async () => {
  const files = memoryFiles();
  const path = await files.save({ mediaType: "image/png", content: PNG });
  let sent: ModelRequest = REQUEST;
  const callModel: CallModel = async function* (request) {
    sent = request;
    yield [{ type: "finish", finishReason: "stop" }];
  };
  const messages: ModelRequest["messages"] = [path, "/v1/sessions/ses_1/files/9"].map((url) => ({
    role: "user",
    content: [{ type: "image", url, mediaType: "image/png" }],
  }));
  const kept = keepModelFiles(callModel, { files, log: SILENT_LOG });
  await Array.fromAsync(kept({ messages, tools: [] }, CONTEXT));
  assert.deepEqual(sent.messages, [
    { role: "user", content: [{ type: "image", url: urlOf(PNG), mediaType: "image/png" }] },
    { role: "user", content: [{ type: "text", text: "(an earlier image, not shown again)" }] },
  ]);
});

Deno.test("decodeBase64: any length, padded or not, in turns; no padding inside", async () => {
  for (const length of [0, 1, 2, 3, 196_607, 196_608, 196_609, 1_000_000]) {
    const bytes = Uint8Array.from({ length }, (_, index) => index % 251);
    const text = bytes.toBase64();
    assert.deepEqual(await decodeBase64(text), bytes);
    assert.deepEqual(await decodeBase64(text.replace(/=+$/, "")), bytes);
    assert.deepEqual(await decodeBase64(text.replaceAll(/.{76}/g, "$&\r\n")), bytes);
  }
  const inside = `${"A".repeat(256 * 1024 - 2)}==${"A".repeat(8)}`;
  await assert.rejects(decodeBase64(inside), SyntaxError);
});
