import type { Clock } from "../../src/core/clock.ts";
import { HubError } from "../../src/core/error.ts";
import type { Strategy } from "../../src/config/routing_schema.ts";
import type { Target } from "../../src/providers/target.ts";
import type { Route } from "../../src/router/route.ts";
import { TargetHealth } from "../../src/router/target_health.ts";
import { createFakeAnswer, createFakeTarget } from "../support/fake_target.ts";
import { createRoutingRig, finish, routeOf, seeded, withKeys } from "./routing_rig.ts";

/** A server of a simulation: it works on so many requests at a time, the others wait there in order. */
export interface SimulatedServer {
  slots: number;
  /** Time that one request takes, without the wait, at this moment of the simulation. */
  serviceMs(atMs: number): number;
  /** What it answers instead, after a quarter of a second. */
  refuses?(atMs: number, key: number): { status: number; retryAfterSeconds?: number } | null;
  keys?: number;
}

/** Load and servers over some virtual time. */
export interface Scenario {
  name: string;
  lengthMs: number;
  /** Requests a second at this moment. */
  rate(atMs: number): number;
  servers: readonly SimulatedServer[];
}

/** How targets are chosen: by the hub, or in turn with failover and no memory. */
export interface Chooser {
  name: string;
  strategy: Strategy | "round robin";
  hedge?: { afterMs?: number; maxPercent?: number };
}

/** What came of it. */
export interface Figures {
  requests: number;
  /** Share of the requests that were answered within half a second. */
  goodput: number;
  /** Latencies in ms, of failures too, up to the moment they were told; who waits 10 s leaves. */
  p50: number;
  p99: number;
  hedged: number;
}

const GOOD_MS = 500;
const PATIENCE_MS = 10_000;
const REFUSAL_MS = 250;

/** No memory of failures. */
class Forgetful extends TargetHealth {
  override ask(): "open" {
    return "open";
  }
  override failed() {}
  override rest() {}
}

/** Plays a scenario on the router, in virtual time; the same seed gives the same requests. */
export async function simulate(
  scenario: Scenario,
  chooser: Chooser,
  seed: number,
): Promise<Figures> {
  const byTurn = chooser.strategy === "round robin";
  const rig = createRoutingRig({
    seed,
    ...(byTurn ? { health: (clock: Clock) => new Forgetful(clock) } : {}),
  });
  const { clock } = rig;
  const targets = scenario.servers.map((server, at) =>
    createServer(server, { name: `p/s${at}`, clock, random: seeded(seed * 31 + at) })
  );
  const routeFor = createRoutes(targets, chooser);
  const arrivals = seeded(seed + 7);
  const latencies: number[] = [];
  let good = 0;
  const open: Promise<void>[] = [];
  const ask = async () => {
    const startMs = clock.coarse();
    const abort = new AbortController();
    const timer = clock.setTimer(
      () => abort.abort(new HubError("client_closed", "Waited for too long")),
      PATIENCE_MS,
    );
    try {
      await finish(await rig.open(routeFor(), { signal: abort.signal }));
      if (clock.coarse() - startMs <= GOOD_MS) good++;
    } catch {
      // A failure is no good answer.
    }
    clock.clearTimer(timer);
    latencies.push(clock.coarse() - startMs);
  };
  for (let atMs = 0; atMs < scenario.lengthMs;) {
    const gapMs = -Math.log(1 - arrivals()) * 1000 / scenario.rate(atMs);
    await clock.advance(gapMs);
    atMs += gapMs;
    open.push(ask());
  }
  await clock.advance(PATIENCE_MS);
  await Promise.all(open);
  latencies.sort((a, b) => a - b);
  const at = (share: number) => Math.round(latencies[Math.floor(latencies.length * share)] ?? 0);
  return {
    requests: latencies.length,
    goodput: good / latencies.length,
    p50: at(0.5),
    p99: at(0.99),
    hedged: rig.facts.filter(({ errorCode }) => errorCode === "aborted").length,
  };
}

function createRoutes(targets: readonly Target[], { strategy, hedge }: Chooser): () => Route {
  if (strategy !== "round robin") {
    const route = routeOf(targets, { strategy, ...(hedge === undefined ? {} : { hedge }) });
    return () => route;
  }
  let turn = 0;
  return () => {
    const from = turn++ % targets.length;
    return [...targets.slice(from), ...targets.slice(0, from)];
  };
}

function createServer(
  server: SimulatedServer,
  { name, clock, random }: { name: string; clock: Clock; random: () => number },
): Target {
  const startMs = clock.coarse();
  const queue: (() => void)[] = [];
  let busy = 0;
  const sleep = (ms: number) => new Promise<void>((resolve) => clock.setTimer(resolve, ms));
  const timeouts = { connectMs: 1e6, firstTokenMs: 1e6, inactivityMs: 1e6, totalMs: 1e6 };
  const target = createFakeTarget(name, async ({ fixedHeaders, signal }) => {
    const key = Number(
      fixedHeaders?.find(([name]) => name === "authorization")?.[1]?.slice(4) ?? 1,
    );
    const refusal = server.refuses?.(clock.coarse() - startMs, key) ?? null;
    if (refusal !== null) {
      await sleep(REFUSAL_MS);
      const { status, retryAfterSeconds } = refusal;
      const headers = retryAfterSeconds === undefined
        ? {}
        : { "retry-after": String(retryAfterSeconds) };
      return createFakeAnswer({ status, headers, pieces: ["{}"] }).response;
    }
    if (busy >= server.slots) await new Promise<void>((resolve) => queue.push(resolve));
    else busy++;
    const gone = new Promise<void>((resolve) =>
      signal.addEventListener("abort", resolve, { once: true })
    );
    // One answer in fifty takes four times as long, as they do.
    const slow = random() < 0.02 ? 4 : 1;
    const ms = server.serviceMs(clock.coarse() - startMs) * (0.7 + 0.6 * random()) * slow;
    if (!signal.aborted) await Promise.race([sleep(ms), gone]);
    const next = queue.shift();
    if (next === undefined) busy--;
    else next();
    if (signal.aborted) throw new HubError("aborted", "stopped");
    return createFakeAnswer({ pieces: ["{}"] }).response;
  }, { timeouts });
  return server.keys === undefined ? target : withKeys(target, server.keys);
}
