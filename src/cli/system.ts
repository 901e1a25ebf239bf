import { loadConfig, type LoadedConfig } from "../config/load.ts";
import { createOllamaProbe } from "../config/probe_ollama.ts";
import { readTextIfThere } from "../config/read_text.ts";
import { createIdSource } from "../core/id.ts";
import type { Log } from "../core/log.ts";
import type { HubOptions } from "../hub/hub_options.ts";
import { createLog } from "../telemetry/log.ts";
import { createRedactor } from "../telemetry/redact.ts";
import { printError } from "./print.ts";
import { runtimeSpans } from "./runtime_spans.ts";
import { systemClock } from "./system_clock.ts";
import { Reloader, reloadOnSignal, stampOf } from "./reload.ts";

const env = (name: string) => Deno.env.get(name);
const randomBytes = (length: number) => crypto.getRandomValues(new Uint8Array(length));

/** Loads the configuration from where this process stands. */
export function loadSystemConfig(path: string | undefined): Promise<LoadedConfig> {
  return loadConfig({
    ...(path === undefined ? {} : { path }),
    cwd: Deno.cwd(),
    env,
    readText: readTextIfThere,
    probe: createOllamaProbe({ fetch, clock: systemClock }),
  });
}

/** Takes over what the configuration's file says, when it changes and on SIGHUP; gives the way to end that. */
export async function reloadSystemConfig(
  { source, notes }: LoadedConfig,
  { apply, log }: { apply(loaded: LoadedConfig): void | Promise<void>; log: Log },
): Promise<() => void> {
  const load = loadSystemConfig;
  const reloader = new Reloader({ source, notes, load, apply, stampOf, clock: systemClock, log });
  const forget = reloadOnSignal(() => void reloader.reload());
  await reloader.start();
  return () => {
    forget();
    reloader.close();
  };
}

/**
 * Everything a hub in this process is built from. `quiet` keeps lines below warnings out of the log; a worker's number
 * is in each of its lines.
 */
export function systemHubOptions(
  loaded: LoadedConfig,
  { quiet = false, worker }: { quiet?: boolean; worker?: number } = {},
): HubOptions {
  const redactor = createRedactor({ secrets: loaded.secrets });
  const { level, format } = loaded.config.log;
  const terminal = Deno.stderr.isTerminal();
  const log = createLog({
    level: quiet && (level === "info" || level === "debug") ? "warn" : level,
    format: format === "auto" ? (terminal ? "pretty" : "json") : format,
    colour: terminal,
    write: printError,
    clock: systemClock,
    redact: redactor.redact,
  });
  return {
    loaded,
    clock: systemClock,
    ids: createIdSource(systemClock.now, randomBytes),
    random: Math.random,
    randomBytes,
    env,
    addSecret: redactor.add,
    redact: redactor.redact,
    spans: runtimeSpans(),
    ...(worker === undefined ? { log } : { log: log.with({ worker }), worker }),
  };
}
