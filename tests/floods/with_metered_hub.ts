import type { JsonObject } from "../../src/core/json.ts";
import { startTestPostgres } from "../support/postgres.ts";
import type { LongestStretch } from "./loop_meter.ts";

/** A hub in a process of its own whose event loop is watched. */
export interface MeteredHub {
  url: string;
  key: string;
  databaseUrl: string;
  /** The longest stretch of its event loop since it was asked last. */
  longest(): Promise<LongestStretch>;
}

/** Runs a body with a metered hub of this configuration, then stops everything. */
export async function withMeteredHub(
  config: JsonObject,
  use: (hub: MeteredHub) => Promise<void>,
  flags: readonly string[] = [],
): Promise<void> {
  const postgres = await startTestPostgres({ migrated: false });
  const dataDir = await Deno.makeTempDir({ dir: "/tmp", prefix: "loophub-metered-" });
  const child = new Deno.Command(Deno.execPath(), {
    args: [
      "run",
      "--no-prompt",
      "--allow-all",
      ...flags,
      new URL("metered_hub.ts", import.meta.url).pathname,
      JSON.stringify({ config, databaseUrl: postgres.url, dataDir }),
    ],
    stdin: "piped",
    stdout: "piped",
    stderr: "inherit",
  }).spawn();
  const lines = linesOf(child.stdout);
  const input = child.stdin.getWriter();
  try {
    const { url, key } = JSON.parse(await nextLine(lines));
    await use({
      url,
      key,
      databaseUrl: postgres.url,
      async longest() {
        await input.write(new Uint8Array([0x0a]));
        return JSON.parse(await nextLine(lines));
      },
    });
  } finally {
    await input.close().catch(() => {});
    for await (const _line of lines) { /* what is left */ }
    await child.status;
    await postgres.stop();
    await Deno.remove(dataDir, { recursive: true });
  }
}

async function* linesOf(stream: ReadableStream<Uint8Array<ArrayBuffer>>): AsyncGenerator<string> {
  let rest = "";
  for await (const text of stream.pipeThrough(new TextDecoderStream())) {
    const lines = (rest + text).split("\n");
    rest = lines.pop() ?? "";
    yield* lines;
  }
}

async function nextLine(lines: AsyncGenerator<string>): Promise<string> {
  const { value, done } = await lines.next();
  if (done) throw new Error("The hub ended");
  return value;
}
