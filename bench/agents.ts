import { cpuSeconds } from "./measure.ts";
import type { Target } from "./targets.ts";

/** Turns of an agent: each calls one tool, then answers. CPU is the hub's per event of the stream. */
export interface AgentSample {
  turnsPerSecond: number;
  cpuMicrosPerEvent: number;
  eventsPerTurn: number;
  failed: number;
}

/** Runs turns in `at` sessions at once for `seconds`. The client runs in this process, so that its own CPU does not count. */
export async function measureAgents(
  hub: Target,
  { agent, at, seconds }: { agent: string; at: number; seconds: number },
): Promise<AgentSample> {
  const url = `http://127.0.0.1:${hub.port}`;
  const headers = {
    "content-type": "application/json",
    ...Object.fromEntries(hub.headers.map((line) => line.split(": ", 2))),
  };
  const post = (path: string, body: unknown) =>
    fetch(`${url}${path}`, { method: "POST", headers, body: JSON.stringify(body) });
  const startedMs = performance.now();
  const endMs = startedMs + seconds * 1000;
  let turns = 0;
  let events = 0;
  let failed = 0;
  const worker = async () => {
    while (performance.now() < endMs) {
      // A session for each turn, so that a history does not grow into the figure.
      const { id } = await (await post("/v1/sessions", { agent })).json();
      const answer = await post(`/v1/sessions/${id}/messages`, { text: "What is the weather?" });
      const text = await answer.text();
      events += text.split("\n\n").length - 1;
      if (text.includes('"type":"tool-output-available"') && text.includes("[DONE]")) turns++;
      else failed++;
    }
  };
  const before = await cpuSeconds(hub.pid);
  await Promise.all(Array.from({ length: at }, worker));
  const cpu = await cpuSeconds(hub.pid) - before;
  const elapsed = (performance.now() - startedMs) / 1000;
  return {
    turnsPerSecond: turns / elapsed,
    cpuMicrosPerEvent: cpu / events * 1e6,
    eventsPerTurn: events / (turns + failed),
    failed,
  };
}
