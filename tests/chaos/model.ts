import type { Moments } from "./moments.ts";

/** A model that makes one round of calls after the other, and the gate that tools ask. */
export interface ChaosModel {
  url: string;
  gate: string;
  calls(): number;
  stop(): Promise<void>;
}

interface Asked {
  messages: { role: string; tool_calls?: unknown[] }[];
}

const TOOLS = ["chaos_act", "chaos_put", "chaos_look"];

/** Starts the model's server; each run has `steps` rounds and then an answer. Every frame is a moment. */
export function startChaosModel(steps: number, moments: Moments): ChaosModel {
  let calls = 0;
  const server = Deno.serve({ hostname: "127.0.0.1", port: 0, onListen() {} }, async (request) => {
    if (request.method === "GET") {
      await moments.reach();
      return new Response();
    }
    // Whatever becomes of its hub from here on, the provider has the call.
    calls++;
    const { messages } = await request.json() as Asked;
    const asked = messages.findLastIndex(({ role }) => role === "user");
    const done = messages.slice(asked).filter(({ tool_calls }) => tool_calls !== undefined).length;
    return new Response(streamOf(done < steps ? round(done) : answer(steps), moments), {
      headers: { "content-type": "text/event-stream" },
    });
  });
  return {
    url: `http://127.0.0.1:${server.addr.port}/v1`,
    gate: `http://127.0.0.1:${server.addr.port}/gate`,
    calls: () => calls,
    stop: () => server.shutdown(),
  };
}

function round(step: number): unknown[] {
  const words = `Round ${step} begins now`.split(" ").map((word) => ({ content: `${word} ` }));
  const calls = TOOLS.map((name, index) => ({
    tool_calls: [{
      index,
      id: `call_${step}_${index}`,
      type: "function",
      function: { name, arguments: JSON.stringify({ step }) },
    }],
  }));
  return [...words, ...calls].map((delta) => chunk(delta)).concat(chunk({}, "tool_calls"));
}

function answer(steps: number): unknown[] {
  const words = `All ${steps} rounds are done`.split(" ");
  return words.map((word) => chunk({ content: `${word} ` })).concat(chunk({}, "stop"));
}

function chunk(delta: unknown, finishReason: string | null = null): unknown {
  return {
    id: "chatcmpl-chaos",
    object: "chat.completion.chunk",
    created: 1,
    model: "chaos",
    choices: [{ index: 0, delta, finish_reason: finishReason }],
  };
}

function streamOf(chunks: unknown[], moments: Moments): ReadableStream<Uint8Array> {
  const encoder = new TextEncoder();
  const frames = [...chunks.map((one) => JSON.stringify(one)), "[DONE]"];
  let at = 0;
  return new ReadableStream({
    async pull(controller) {
      const frame = frames[at++];
      if (frame === undefined) return controller.close();
      await moments.reach();
      controller.enqueue(encoder.encode(`data: ${frame}\n\n`));
    },
  });
}
