import assert from "node:assert/strict";
import type { HubEvent } from "../../../src/core/event.ts";
import { createIdSource } from "../../../src/core/id.ts";
import { chatUiSource } from "../../../src/http/routes/chat_ui_source.ts";
import type { ShownAnswer } from "../../../src/http/routes/completion_reply.ts";
import { chatFrames } from "../../support/chat_replies.ts";
import { randomBytes } from "../fixture.ts";

const ids = createIdSource(() => 0, randomBytes);

/** The events for an answer that comes in one read. */
async function eventsOf(text: string): Promise<HubEvent[]> {
  const reads = [new TextEncoder().encode(text)];
  const pricing = { inputPerMillion: 2, outputPerMillion: 10 };
  const answer = {
    from: { provider: "acme", model: "acme-1", override: { pricing } },
    read: () => Promise.resolve(reads.shift() ?? null),
    cancel() {},
  } as unknown as ShownAnswer;
  const source = chatUiSource(Promise.resolve(answer), { ids, model: "smart" });
  let sent = "";
  for (let bytes = await source.pull(); bytes !== null; bytes = await source.pull()) {
    sent += new TextDecoder().decode(bytes);
  }
  return [...sent.matchAll(/^data: (\{.*\})$/gm)].map(([, data]) => JSON.parse(data ?? ""));
}

const shown = (events: HubEvent[]) =>
  events.map((event) => event.type === "text-delta" ? `"${event.delta}"` : event.type);

Deno.test("a proxied UIMessage stream knows what it cost", async () => {
  const usage = { promptTokens: 1000, completionTokens: 100 };
  const last = (await eventsOf(chatFrames({ text: "Hi", usage }).join(""))).at(-1);
  assert.equal(last?.type === "finish" && last.costMicros, 3000);
});

Deno.test("words in the same read as a failure are shown, in a part that begins and ends", async () => {
  const reported = chatFrames({ deltas: ["a", "b", "c"], errorFrameAfter: 3 }).join("");
  const call = { index: 3, function: { arguments: "{" } };
  const malformed = [{ content: "ab" }, { tool_calls: [call] }]
    .map((delta) => `data: ${JSON.stringify({ choices: [{ index: 0, delta }] })}\n\n`).join("");
  for (const text of [reported, malformed]) {
    assert.deepEqual(shown(await eventsOf(text)), [
      "start",
      "step-start",
      "text-start",
      '"ab"',
      "text-end",
      "step-finish",
      "error",
      "finish",
    ]);
  }
});
