import type { Target } from "./targets.ts";

/** An event of a run as it came: its number, its type, when, and its bytes. */
export interface Heard {
  seq: number;
  type: string;
  atMs: number;
  frame: string;
}

/** A run that was asked for, and what comes of it. */
export interface StartedRun {
  runId: string;
  heard: AsyncGenerator<Heard, void, void>;
}

/** Says something to an agent in a session of its own. */
export async function startRun(hub: Target, agent: string): Promise<StartedRun> {
  const session = await (await post(hub, "/v1/sessions", { agent })).json();
  const answer = await post(hub, `/v1/sessions/${session.id}/messages`, { text: "Go on" });
  return { runId: answer.headers.get("x-loophub-run") ?? "", heard: read(answer) };
}

/** Follows a run behind an event. */
export async function follow(
  hub: Target,
  runId: string,
  after = 0,
): Promise<AsyncGenerator<Heard, void, void>> {
  const answer = await fetch(`${urlOf(hub)}/v1/runs/${runId}/stream`, {
    headers: { ...headersOf(hub), "last-event-id": String(after) },
  });
  if (!answer.ok) throw new Error(`${answer.status} ${await answer.text()}`);
  return read(answer);
}

/** The fields of a request to a target. */
export function headersOf(hub: Target): Record<string, string> {
  return Object.fromEntries(hub.headers.map((line) => line.split(": ", 2)));
}

function urlOf(hub: Target): string {
  return `http://127.0.0.1:${hub.port}`;
}

function post(hub: Target, path: string, body: unknown): Promise<Response> {
  const headers = { ...headersOf(hub), "content-type": "application/json" };
  return fetch(urlOf(hub) + path, { method: "POST", headers, body: JSON.stringify(body) });
}

/** The events of a stream; ends where it ends, whole or not. */
async function* read(answer: Response): AsyncGenerator<Heard, void, void> {
  let rest = "";
  try {
    for await (const text of answer.body?.pipeThrough(new TextDecoderStream()) ?? []) {
      const atMs = performance.now();
      const frames = (rest + text).split("\n\n");
      rest = frames.pop() ?? "";
      for (const frame of frames) {
        const [, seq, type] = /^id: (\d+)\ndata: \{"type":"([^"]+)"/.exec(frame) ?? [];
        if (seq !== undefined && type !== undefined) {
          yield { seq: Number(seq), type, atMs, frame };
        }
      }
    }
  } catch {
    // Cut: whoever reads it comes back.
  }
}
