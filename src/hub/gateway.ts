import type { HoldKey } from "../core/key_end.ts";
import { Deadlines } from "../core/deadlines.ts";
import { listModelNames } from "../config/model_name.ts";
import { sendToDemo } from "../providers/demo.ts";
import { createHttpClient } from "../providers/http1/client.ts";
import { createConnect } from "../providers/http1/dial.ts";
import { createGuardedConnect, resolveName } from "../providers/http1/guarded_connect.ts";
import type { Admission } from "../policy/admission.ts";
import type { KeyPolicy } from "../policy/key_policy.ts";
import { Spending } from "../policy/spending.ts";
import { createOpenAnswer, type OpenAnswer } from "../router/open_answer.ts";
import type { ChooseProvider } from "../router/choose_provider.ts";
import type { ResolveModel } from "../router/resolve.ts";
import { TargetHealth } from "../router/target_health.ts";
import { BackgroundResponses } from "../run/background_responses.ts";
import { IdempotentAnswers } from "../run/idempotent_answers.ts";
import { KeptResponses } from "../run/kept_responses.ts";
import { createNoteBegun, createRecordUsage } from "../run/record_usage.ts";
import { ResponseCache } from "../run/response_cache.ts";
import { recoverJournals } from "../run/journal/recover_journals.ts";
import { type UnwrittenRows, UsageSpool } from "../run/usage_spool.ts";
import type { Closing } from "./closing.ts";
import { createGates } from "./gates.ts";
import type { Ground } from "./ground.ts";
import type { HubOptions } from "./hub_options.ts";
import { LiveConfig } from "./live_config.ts";

/** The way to providers: the proxy and the agents take the same one. */
export interface Gateway {
  resolve: ResolveModel;
  chooseProvider: ChooseProvider;
  /** What the file and the database say now. */
  live: LiveConfig;
  openAnswer: OpenAnswer;
  /** Room for requests of clients, before they come to a provider. */
  admission: Admission;
  spool: UsageSpool;
  /** Usage rows that the hub's end could not write. */
  unwritten(): UnwrittenRows;
  answers: IdempotentAnswers;
  cache: ResponseCache;
  kept: KeptResponses;
  background: BackgroundResponses;
}

/** Joins targets, router and accounting. */
export function openGateway(
  options: HubOptions & { policyOf(keyId: string): KeyPolicy; holdKey?: HoldKey },
  ground: Ground,
  closing: Closing,
): Gateway {
  const { loaded: { config }, clock, random, ids, log, policyOf } = options;
  const { db, metrics } = ground;
  const { dir, own: journal } = ground.journal;
  const onDepth = (rows: number) => metrics.usageQueue(rows);
  const spool = new UsageSpool({ db, clock, log, onDepth, journal });
  const recovery = journal === null ? null : recoverJournals({ dir, spool, db, clock, log });
  let unwritten: UnwrittenRows | null = null;
  const { withoutDatabase, assumedOutputTokens } = config.limits;
  const observe = metrics.budget;
  const spending = new Spending({ db, clock, log, policyOf, withoutDatabase, observe });
  closing.add("usage", async () => {
    await recovery?.stop();
    unwritten = await spool.close(closing.leftMs());
    await spending.close();
  });
  const http = createHttpClient({ clock });
  const connect = createGuardedConnect({
    connect: createConnect(),
    resolve: options.resolveName ?? resolveName,
    privateNames: config.limits.privateNames,
  });
  // With connections of its own, so that none of the other client's is taken.
  const guarded = createHttpClient({ clock, connect });
  closing.add("upstreams", () => {
    http.close();
    guarded.close();
  });
  const deadlines = new Deadlines(clock);
  closing.add("deadlines", () => deadlines.close());
  const gates = createGates(config, {
    clock,
    log,
    metrics,
    deadlines,
    limitOfKey: (keyId) => policyOf(keyId).maxConcurrent,
  });
  const health = new TargetHealth(clock, metrics.breakerOpened);
  metrics.breakers(health);
  const openAnswer = createOpenAnswer({
    clock,
    random,
    log,
    redact: options.redact,
    health,
    deadlines,
    gates: gates.targets,
    meter: { enter: (facts) => spending.enter(facts), assumedOutputTokens },
    nextUsageId: () => ids.next("usg"),
    recordUsage: createRecordUsage({ metrics, spool }),
    noteBegun: createNoteBegun(spool),
    onRetry: metrics.retry,
    onFailover: metrics.failover,
  });
  const cache = new ResponseCache({
    ...config.cache,
    db,
    clock,
    ids,
    log,
    policyOf,
    permit: (facts) => void spending.enter(facts),
    book: (row) => spool.add(row),
    observe: metrics.cache,
  });
  closing.add("cached answers", () => cache.close());
  const { leaseMs } = config.runs;
  const answers = new IdempotentAnswers({ db, clock, ids, log, leaseMs });
  closing.add("kept answers", () => answers.close());
  const kept = new KeptResponses({ db, clock, log });
  closing.add("kept responses", () => kept.close());
  const background = new BackgroundResponses({ db, clock, log, leaseMs, holdKey: options.holdKey });
  const { shutdownGraceMs } = config.server;
  closing.add("background responses", () => background.close(shutdownGraceMs));
  const { admission } = gates;
  const live = new LiveConfig({
    config,
    stored: () => ground.providers.current,
    targets: {
      http: http.send,
      demo: sendToDemo,
      now: clock.now,
      nextId: () => `chatcmpl-${ids.next("req").slice(4)}`,
    },
    guarded: guarded.send,
    log,
    onUse(config) {
      gates.use(config);
      metrics.know(listModelNames(config));
    },
  });
  ground.providers.onChange(() => live.refresh());
  const { resolve, chooseProvider } = live;
  return {
    resolve,
    chooseProvider,
    live,
    openAnswer,
    admission,
    spool,
    unwritten: () => unwritten ?? { waiting: 0, lost: spool.depth },
    answers,
    cache,
    kept,
    background,
  };
}
