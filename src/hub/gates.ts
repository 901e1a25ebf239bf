import type { ResolvedConfig } from "../config/load.ts";
import { ConcurrencyGate, type GateOptions } from "../core/concurrency_gate.ts";
import type { Clock } from "../core/clock.ts";
import type { Deadlines } from "../core/deadlines.ts";
import type { Log } from "../core/log.ts";
import { Admission } from "../policy/admission.ts";
import { KeyGates } from "../policy/key_gates.ts";
import { TargetGates } from "../router/target_gates.ts";
import { GateCount } from "../telemetry/gate_count.ts";
import type { Metrics } from "../telemetry/metrics.ts";

/** Requests that may wait for each place, unless the configuration says how many. */
const WAITING_PER_PLACE = 2;

/** What gates need beside their settings. */
export interface GatesOptions {
  clock: Clock;
  log: Log;
  metrics: Pick<Metrics, "gate">;
  deadlines: Deadlines;
  /** Requests that a key may have under way by its own policy. */
  limitOfKey(keyId: string): number | undefined;
}

/** A gate's settings as the configuration has them. */
type GateSettings =
  & Pick<GateOptions, "subject" | "code" | "max" | "queueTimeoutMs" | "tally" | "inside">
  & { maxQueued?: number | undefined };

/** Makes all bounds on what is under way at one time. */
export function createGates(
  config: ResolvedConfig,
  { clock, log, metrics, deadlines, limitOfKey }: GatesOptions,
): {
  admission: Admission;
  targets: TargetGates;
  /** Takes over the limits of another configuration's providers. */
  use(config: Pick<ResolvedConfig, "providers">): void;
} {
  const count = (gate: "hub" | "key") => {
    const counted = new GateCount({ gate, name: "" }, { clock, log });
    metrics.gate(counted);
    return counted;
  };
  const createGate = (settings: GateSettings) =>
    new ConcurrencyGate({
      ...settings,
      maxQueued: queueOf(settings),
      clock,
      deadlines,
    });

  const { maxConcurrentRequests, maxQueuedRequests, queueTimeoutMs } = config.server;
  const hub = maxConcurrentRequests === 0 ? null : createGate({
    subject: "The hub",
    code: "overloaded",
    max: maxConcurrentRequests,
    maxQueued: maxQueuedRequests,
    queueTimeoutMs,
    tally: count("hub"),
  });

  const { maxConcurrentPerKey, maxQueuedPerKey } = config.limits;
  const tally = count("key");
  const keys = new KeyGates({
    limitOf: (keyId) => limitOfKey(keyId) ?? (maxConcurrentPerKey || null),
    create: (keyId, max) =>
      createGate({
        subject: `The API key ${keyId}`,
        code: "rate_limit_exceeded",
        max,
        maxQueued: maxQueuedPerKey,
        queueTimeoutMs,
        tally,
      }),
  });

  const providers = new Map<string, ConcurrencyGate>();
  const models = new Map<string, ConcurrencyGate>();
  /** By gate, what takes it out of the metrics. */
  const hide = new Map<ConcurrencyGate, () => void>();
  /** Providers that are no more. Their gates stay until nobody is inside. */
  const gone = new Set<string>();
  const drop = (gates: Map<string, ConcurrencyGate>, name: string) => {
    const gate = gates.get(name);
    if (gate === undefined) return;
    gates.delete(name);
    hide.get(gate)?.();
    hide.delete(gate);
  };
  const dropGone = (name: string) => {
    if (gone.delete(name)) drop(providers, name);
  };
  const targets = new TargetGates({ providers, models, onIdle: dropGone });
  /** One gate a name as long as there is one: who is inside leaves through the one that let it in. */
  const set = (
    gate: "provider" | "model",
    name: string,
    settings: Pick<GateSettings, "max" | "maxQueued" | "queueTimeoutMs">,
  ) => {
    const gates = gate === "provider" ? providers : models;
    const before = gates.get(name);
    const limits = { ...settings, maxQueued: queueOf(settings) };
    if (before !== undefined) return before.resize(limits);
    const inside = gate === "provider" ? targets.insideProvider(name) : targets.insideModel(name);
    const tally = new GateCount({ gate, name }, { clock, log });
    const subject = `The ${gate} ${name}`;
    const made = createGate({ ...limits, subject, code: "overloaded", tally, inside });
    hide.set(made, metrics.gate(tally));
    gates.set(name, made);
  };
  const use = (config: Pick<ResolvedConfig, "providers">) => {
    const limited = new Set<string>();
    for (const [name, provider] of Object.entries(config.providers)) {
      const { maxConcurrent: max, maxQueued, queueTimeoutMs } = provider;
      gone.delete(name);
      set("provider", name, { max, maxQueued, queueTimeoutMs });
      if (provider.models === undefined || Array.isArray(provider.models)) continue;
      for (const [model, { maxConcurrent: max }] of Object.entries(provider.models)) {
        if (max === undefined) continue;
        const id = `${name}/${model}`;
        limited.add(id);
        set("model", id, { max, queueTimeoutMs });
      }
    }
    for (const [name, gate] of providers) {
      if (Object.hasOwn(config.providers, name)) continue;
      gone.add(name);
      if (gate.isIdle) dropGone(name);
    }
    for (const [id, gate] of models) {
      if (limited.has(id)) continue;
      // Who waits comes in; nobody has to leave through a gate without a limit.
      gate.resize({ max: Infinity, maxQueued: Infinity, queueTimeoutMs: 0 });
      drop(models, id);
    }
  };
  use(config);
  return { admission: new Admission({ keys, hub }), targets, use };
}

function queueOf({ max, maxQueued }: Pick<GateSettings, "max" | "maxQueued">): number {
  return maxQueued ?? max * WAITING_PER_PLACE;
}
