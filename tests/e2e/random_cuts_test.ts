import assert from "node:assert/strict";
import { checkLog } from "../../src/core/check_log.ts";
import { logOf } from "../support/log_of.ts";
import { createRandom } from "../support/random.ts";
import { withHubsAt } from "../support/replica_steps.ts";
import { startTestPostgres, SWITCHES } from "../support/postgres.ts";
import { chatFrames, chatStream, type Frame } from "../support/scripted_upstream.ts";
import type { TestHub } from "../support/test_hub.ts";

const CUTS = 100;
const REPLICAS = 3;
const CLIENTS = 4;
/** Characters of one to four bytes: a cut may fall inside of them. */
const TEXT = Array.from({ length: 60 }, (_, at) => `wörd${at} 漢字 🙂 `).join("");

/** The frames of a stream that came whole, without the comments between them. */
function framesOf(bytes: Uint8Array): string {
  const frames = new TextDecoder().decode(bytes).split("\n\n").slice(0, -1);
  return frames.filter((frame) => !frame.startsWith(":")).map((frame) => `${frame}\n\n`).join("");
}

/** The first bytes of an answer, at most so many, after which its connection is let go. */
async function firstBytes(answer: Response, most: number): Promise<Uint8Array> {
  assert.equal(answer.status, 200);
  const reader = (answer.body ?? assert.fail("no body")).getReader();
  const pieces: Uint8Array<ArrayBuffer>[] = [];
  let size = 0;
  while (size < most) {
    const { value, done } = await reader.read();
    if (done) break;
    pieces.push(value);
    size += value.length;
  }
  await reader.cancel();
  return (await new Blob(pieces).bytes()).subarray(0, most);
}

const whole = async (answer: Response) => framesOf(await answer.bytes());

Deno.test("streams that are cut at 100 random places and go on at any replica are the uncut one, byte for byte", async () => {
  const seed = Number(Deno.env.get("FC_SEED") ?? Math.floor(Math.random() * 2 ** 31));
  const random = createRandom(seed);
  const upTo = (most: number) => 1 + Math.floor(random() * most);
  const postgres = await startTestPostgres();
  try {
    await withHubsAt(postgres.url, { ...SWITCHES }, async ({ start, upstream }) => {
      const hubs: TestHub[] = [];
      while (hubs.length < REPLICAS) hubs.push(await start());
      const any = () => hubs[upTo(hubs.length) - 1] ?? assert.fail("no hub");
      upstream.script(({ json }) => {
        const { messages } = json as { messages: { role: string }[] };
        if (messages.at(-1)?.role === "tool") return chatStream({ text: TEXT, delayMs: 5 });
        const toolCalls = [{ name: "hub_calculate", arguments: { expression: "6*7" } }];
        const frames: Frame[] = chatFrames({ text: TEXT, toolCalls });
        const paced = frames.flatMap((frame) => [{ delayMs: 5 }, frame]);
        return { headers: { "content-type": "text/event-stream" }, frames: paced };
      });

      let cuts = 0;
      /** A client of the run whose connection breaks again and again; gives all that it has of it. */
      const follow = async (runId: string): Promise<string> => {
        let seen = "";
        while (!seen.endsWith("data: [DONE]\n\n")) {
          const last = [...seen.matchAll(/^id: (\d+)$/gm)].at(-1)?.[1];
          const headers: Record<string, string> = last === undefined
            ? {}
            : { "last-event-id": last };
          const answer = await any().call(`/v1/runs/${runId}/stream`, { headers });
          const part = framesOf(await firstBytes(answer, upTo(1500)));
          if (!part.endsWith("data: [DONE]\n\n")) cuts++;
          seen += part;
        }
        return seen;
      };
      while (cuts < CUTS) {
        const owner = any();
        const session = (await (await owner.call("/v1/sessions", { body: {} })).json()).id;
        const path = `/v1/sessions/${session}/messages`;
        const answer = await owner.call(path, { body: { text: "Go" } });
        assert.equal(answer.status, 200);
        const runId = answer.headers.get("x-loophub-run") ?? "";
        const uncut = whole(answer);
        const cut = await Promise.all(Array.from({ length: CLIENTS }, () => follow(runId)));
        const golden = await uncut;
        assert.deepEqual(checkLog(logOf(golden)), []);
        for (const one of cut) assert.equal(one, golden);
        for (const hub of hubs) {
          assert.equal(await whole(await hub.call(`/v1/runs/${runId}/stream`)), golden);
        }
      }
    });
  } catch (error) {
    throw new Error(`Cuts fail with FC_SEED=${seed}`, { cause: error });
  } finally {
    await postgres.stop();
  }
});
