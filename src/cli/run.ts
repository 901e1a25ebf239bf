import { parseArgs } from "node:util";
import { HubError } from "../core/error.ts";
import { parseId } from "../core/id.ts";
import { createHub, type Hub } from "../hub/create_hub.ts";
import { followOn } from "../run/follow_run.ts";
import { startRun } from "../run/start_run.ts";
import { requestStop, type RunKey } from "../store/runs.ts";
import { Accounting } from "./accounting.ts";
import { parseRunBudget } from "./budget_option.ts";
import { COMMAND_LINE } from "./command_line.ts";
import { EXIT } from "./exit_codes.ts";
import { print, printError, readerGone } from "./print.ts";
import { createShow, exitCodeOf } from "./show_event.ts";
import { loadSystemConfig, systemHubOptions } from "./system.ts";

const OPTIONS = {
  "config": { type: "string" },
  "agent": { type: "string" },
  "model": { type: "string" },
  "session": { type: "string" },
  "json": { type: "boolean" },
  "accounting": { type: "string" },
  "preflight": { type: "boolean" },
  "budget": { type: "string", multiple: true },
} as const;

/** `loophub run`: one run of an agent; its words go to stdout as they come, everything else to stderr. */
export async function run(args: string[]): Promise<number> {
  const { values, positionals } = parseArgs({ args, options: OPTIONS, allowPositionals: true });
  const prompt = (positionals.length > 0 ? positionals.join(" ") : await readStdin()).trim();
  if (prompt === "") {
    printError("A run wants a prompt: as an argument, or on stdin");
    return EXIT.usage;
  }
  const budget = parseRunBudget(values.budget ?? []);
  const loaded = await loadSystemConfig(values.config);
  const options = systemHubOptions(loaded, { quiet: true });
  const accounting = values.accounting === undefined
    ? null
    : new Accounting(values.accounting, options.clock);
  const hub = await createHub({ ...options, sharePostgres: true });
  try {
    const agentName = values.agent ?? "default";
    const plain = { agent: hub.findAgent(agentName, values.model), start: hub.start };
    const { agent, start } = accounting?.watch(plain) ?? plain;
    const principal = COMMAND_LINE;
    const { tenantId } = principal;
    const { session } = values;
    const sessionId = session === undefined ? options.ids.next("ses") : parseId("ses", session);
    const started = await startRun({
      principal,
      requestId: options.ids.next("req"),
      sessionId,
      ...session === undefined ? { newSession: {} } : {},
      agent,
      budget,
      preflight: values.preflight === true ? "always" : undefined,
      message: {
        clientId: null,
        parts: [{ type: "text", id: "text-0", text: prompt, state: "done" }],
      },
    }, start);
    if (started.live === null) throw new HubError("conflict", "The run was not started here");
    const { live, runId } = started;
    const follow = { tenantId, runId, after: 0, signal: new AbortController().signal };
    let stoppedWith: number | null = null;
    const stop = (code: number) => {
      stoppedWith ??= code;
      if (!hub.follow.live.stop(runId, "interrupted")) void stopWaiting(hub, { tenantId, runId });
    };
    const onSignal = () => stop(EXIT.interrupted);
    Deno.addSignalListener("SIGINT", onSignal);
    readerGone.addEventListener("abort", () => stop(EXIT.readerGone));
    if (readerGone.aborted) stop(EXIT.readerGone);
    const show = createShow({ isTerminal: Deno.stdout.isTerminal() });
    let code: number = EXIT.failed;
    for await (const events of followOn(live.broadcast.subscribe(), follow, hub.follow)) {
      for (const { event } of events) {
        if (values.json === true) print(JSON.stringify(event));
        else show(event);
        accounting?.take(event);
        if (event.type === "finish") code = exitCodeOf(event.finishReason);
      }
    }
    await live.done;
    Deno.removeSignalListener("SIGINT", onSignal);
    printError(`session ${sessionId}`);
    return stoppedWith ?? code;
  } finally {
    await hub.close();
  }
}

/** Stops a run that nobody drives, since it waits for a person: it is claimed for that. */
async function stopWaiting(hub: Hub, key: RunKey): Promise<void> {
  await requestStop(hub.start.db, key).catch(() => {});
  hub.onClaimable();
}

async function readStdin(): Promise<string> {
  if (Deno.stdin.isTerminal()) return "";
  return await new Response(Deno.stdin.readable).text();
}
