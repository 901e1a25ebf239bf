import { createSseParser, type SseEvent } from "../../src/core/sse.ts";

/** One frame of a stream: its number, and the text of its `data:` line as it came. */
export interface Seen {
  seq: number;
  data: string;
}

/** What a client has of a run: its frames by number, in the order in which they came. */
export interface Witness {
  runId: string;
  seen: Seen[];
  reconnects: number;
  /** The longest silence between two reads, in milliseconds. */
  longestGapMs: number;
}

/** Where a request may go now; a replica that was just killed refuses it. */
export interface Replicas {
  url(): string;
  key: string;
  /** Told of each request that was refused or broken off before it was answered. */
  onRefused?(why: string): void;
}

/**
 * Says something in a new session and follows the run to its end, from whichever replica answers: after each break it
 * goes on behind the last event it saw, as a browser does.
 */
export async function followOne(replicas: Replicas, text: string): Promise<Witness> {
  const post = async (path: string, body: unknown) => {
    for (;;) {
      try {
        const answer = await fetch(replicas.url() + path, {
          method: "POST",
          headers: {
            authorization: `Bearer ${replicas.key}`,
            "content-type": "application/json",
          },
          body: JSON.stringify(body),
        });
        if (answer.ok) return answer;
        replicas.onRefused?.(`${path}: ${answer.status} ${await answer.text()}`);
      } catch (error) {
        // That replica is dead; the next one may not be.
        replicas.onRefused?.(`${path}: ${error}`);
      }
    }
  };
  const { id } = await (await post("/v1/sessions", {})).json();
  let readMs = performance.now();
  const onRead = () => {
    const nowMs = performance.now();
    witness.longestGapMs = Math.max(witness.longestGapMs, nowMs - readMs);
    readMs = nowMs;
  };
  const witness: Witness = { runId: "", seen: [], reconnects: 0, longestGapMs: 0 };
  const message = { text, id: crypto.randomUUID() };
  // The same message id again is the same run, so that a lost answer does no harm.
  let answer: Response | null = await post(`/v1/sessions/${id}/messages`, message);
  for (;;) {
    if (answer !== null && await read(answer, { witness, onRead })) return witness;
    witness.reconnects++;
    if (witness.runId === "") answer = await post(`/v1/sessions/${id}/messages`, message);
    else answer = await resume(replicas, witness);
  }
}

/** A run that is over, from its first event to its last, as a replica shows it now. */
export async function replay(replicas: Replicas, runId: string): Promise<Seen[]> {
  const witness: Witness = { runId, seen: [], reconnects: 0, longestGapMs: 0 };
  for (;;) {
    const answer = await resume(replicas, witness);
    if (answer !== null && await read(answer, { witness, onRead() {} })) return witness.seen;
  }
}

async function resume(replicas: Replicas, { runId, seen }: Witness): Promise<Response | null> {
  const path = `/v1/runs/${runId}/stream`;
  try {
    const answer = await fetch(replicas.url() + path, {
      headers: {
        authorization: `Bearer ${replicas.key}`,
        "last-event-id": String(seen.at(-1)?.seq ?? 0),
      },
    });
    if (answer.ok) return answer;
    replicas.onRefused?.(`${path}: ${answer.status} ${await answer.text()}`);
  } catch (error) {
    replicas.onRefused?.(`${path}: ${error}`);
  }
  return null;
}

/** Notes events until the stream ends or breaks; true when the run's last one has come. */
async function read(
  answer: Response,
  { witness, onRead }: { witness: Witness; onRead(): void },
): Promise<boolean> {
  let finished = false;
  const onEvent = ({ id, data }: SseEvent) => {
    // An event without a number of its own (progress) comes with the one before it.
    if (data === "[DONE]" || id === "" || Number(id) === witness.seen.at(-1)?.seq) return;
    witness.seen.push({ seq: Number(id), data });
    const event = JSON.parse(data) as { type: string; runId?: string };
    if (event.type === "start") witness.runId = event.runId ?? "";
    finished ||= event.type === "finish";
  };
  const parser = createSseParser({ onEvent });
  try {
    for await (const bytes of answer.body ?? []) {
      parser.push(bytes);
      onRead();
    }
  } catch {
    // Broken off: what came counts.
  }
  return finished;
}
