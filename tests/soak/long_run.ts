import { chatStream, startScriptedUpstream } from "../support/scripted_upstream.ts";
import { type TestHub, withHub } from "../support/test_hub.ts";
import { measureMemory } from "./soak.ts";

/** Used heap in bytes after a collection, in the middle of one run. */
export interface LongRun {
  steps: number;
  /** UTF-8 bytes of its longest result. */
  resultBytes: number;
  /** Characters of its longest request. */
  longest: number;
  seconds: number;
  finishReason: string;
  compactions: number;
  /** After a tenth, a half and all of the steps, and behind the run's end. */
  heap: [tenth: number, half: number, all: number, after: number];
}

/** Lines of a result: 3 KB, and as many as a result may have without being cut. */
export const LINES = { short: 90, long: 1480 };
/** Events, parts and calls of a step stay in memory until its run ends: what a step may leave there. */
const MAX_BYTES_PER_STEP = 16 * 1024;
/** So does its result: in two bytes a character at most. */
const MAX_COPIES = 2;
/** Of a window: what a token has of characters at most, where texts are lists as here. */
const MAX_CHARACTERS_PER_TOKEN = 6;
const WINDOW = { short: 16_000, long: 60_000 };
/** What may be left of a run that has ended: pools, caches and compiled code that a tenth of it had not filled. */
const MAX_BYTES_LEFT = 4 * 1024 * 1024;

/** One run of so many steps with a result each, whose conversation is made shorter again and again. */
export async function longRun(
  steps: number,
  length: keyof typeof LINES = "short",
): Promise<LongRun> {
  const upstream = await startScriptedUpstream();
  let longest = 0;
  let resultBytes = 0;
  const model = { contextWindow: WINDOW[length], contextBuffer: 1000, maxOutputTokens: 500 };
  const config = {
    providers: { one: { baseUrl: upstream.url, models: { m: model } } },
    defaultModel: "one/m",
    operations: {
      modules: [new URL("../fixtures/operations/long_list.ts", import.meta.url).pathname],
    },
    agents: { default: { tools: ["test.*"], maxSteps: 1000 } },
    log: { level: "error" },
  };
  const heap: number[] = [];
  let step = 0;
  upstream.script((request) => {
    // What the upstream remembers of requests is not the hub's.
    upstream.requests.length = 0;
    longest = Math.max(longest, request.text.length);
    for (const { role, content } of request.messages) {
      if (role !== "tool") continue;
      resultBytes = Math.max(resultBytes, new TextEncoder().encode(content).length);
    }
    if (request.json.tool_choice === "none") return chatStream({ text: "SUMMARY" });
    const at = [Math.round(steps / 10), Math.round(steps / 2), steps].indexOf(++step);
    if (at >= 0) heap[at] = measureMemory().heapUsed;
    if (step > steps) return chatStream({ text: "Done" });
    return chatStream({
      text: `Step ${step}`,
      toolCalls: [{ name: "test_long_list", arguments: { lines: LINES[length] + step % 7 } }],
    });
  });
  const startedMs = performance.now();
  let ended = { finishReason: "", compactions: 0 };
  try {
    await withHub(config, async (hub) => {
      ended = await ask(hub);
      heap[3] = measureMemory().heapUsed;
    });
  } finally {
    await upstream.stop();
  }
  const seconds = Math.round((performance.now() - startedMs) / 1000);
  const [tenth = 0, half = 0, all = 0, after = 0] = heap;
  return { steps, resultBytes, longest, seconds, ...ended, heap: [tenth, half, all, after] };
}

async function ask(hub: TestHub): Promise<Pick<LongRun, "finishReason" | "compactions">> {
  const session = await (await hub.call("/v1/sessions", { body: {} })).json();
  const answer = await hub.call(`/v1/sessions/${session.id}/messages`, {
    body: { text: "Go", stream: false },
  });
  const { run: { finishReason }, message } = await answer.json();
  const parts: { name?: string }[] = message.parts;
  return { finishReason, compactions: parts.filter(({ name }) => name === "compaction").length };
}

/** What is wrong with a long run; empty when all is well. */
export function findGrowth(
  { steps, finishReason, compactions, heap, resultBytes, longest }: LongRun,
): string[] {
  const [tenth, , all, after] = heap;
  const most = steps * (MAX_BYTES_PER_STEP + MAX_COPIES * resultBytes);
  const room = MAX_CHARACTERS_PER_TOKEN * (resultBytes > 10_000 ? WINDOW.long : WINDOW.short);
  return [
    ...(finishReason === "stop" ? [] : [`the long run ended with ${finishReason}`]),
    ...(compactions > 0 ? [] : ["the long run's conversation was never made shorter"]),
    ...(longest <= room ? [] : [`the long run sent a request of ${longest} characters`]),
    ...(all - tenth <= most
      ? []
      : [`the long run's heap has grown by ${all - tenth} bytes, and ${most} are allowed`]),
    ...(after - tenth <= MAX_BYTES_LEFT ? [] : [`the long run has left ${after - tenth} bytes`]),
  ];
}
