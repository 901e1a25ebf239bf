import { join } from "node:path";
import { listModelNames } from "../config/model_name.ts";
import { ProviderSnapshots } from "../router/provider_snapshot.ts";
import { UsageJournal } from "../run/journal/usage_journal.ts";
import type { Database } from "../store/database.ts";
import { guardAgainstDriverCrash } from "../store/driver_guard.ts";
import { loadMasterKey, type MasterKey } from "../store/master_key.ts";
import { type OpenedPostgres, openPostgres } from "../store/open_postgres.ts";
import { DEFAULT_TENANT_ID } from "../store/tenant.ts";
import { createMetrics, type Metrics } from "../telemetry/metrics.ts";
import { createTracing, type Tracing } from "../telemetry/tracing.ts";
import type { Closing } from "./closing.ts";
import type { HubOptions } from "./hub_options.ts";

/** What all other parts of a hub stand on. */
export interface Ground {
  postgres: OpenedPostgres;
  db: Database;
  metrics: Metrics;
  /** Null where nobody traces. */
  tracing: Tracing | null;
  masterKey: MasterKey;
  /** Providers that the database holds. */
  providers: ProviderSnapshots;
  /** Where usage rows are until they are booked. */
  journal: Journal;
}

/** The journal of this process, null where none can be written, and the folder that it shares with others. */
export interface Journal {
  dir: string;
  own: UsageJournal | null;
}

/** Opens Postgres, and what only it and the configuration are needed for. */
export async function openGround(options: HubOptions, closing: Closing): Promise<Ground> {
  const { loaded, clock, log, sharePostgres: share = false } = options;
  const isMigrated = options.worker !== undefined;
  const postgres = await openPostgres(loaded, { clock, log, share, isMigrated });
  closing.add("postgres", () => postgres.stop());
  const metrics = createMetrics({
    models: listModelNames(loaded.config),
    worker: options.worker,
  });
  const { spans: sink = null, redact } = options;
  const { tracing: settings } = loaded.config;
  const tracing = sink === null ? null : createTracing({ sink, settings, redact });
  const db = postgres.connect({ onError: metrics.databaseError });
  closing.add("database", () => db.close());
  closing.add("driver guard", guardAgainstDriverCrash(log));
  const masterKey = await loadMasterKey({
    given: options.env("LOOPHUB_MASTER_KEY"),
    dataDir: postgres.dataDir,
    randomBytes: options.randomBytes,
  });
  const providers = new ProviderSnapshots({
    db,
    key: masterKey,
    tenantId: DEFAULT_TENANT_ID,
    clock,
    log,
    refreshMs: 5000,
    addSecret: options.addSecret,
  });
  await providers.refresh();
  providers.start();
  closing.add("providers", () => providers.close());
  const dir = loaded.config.database.usageDir ?? join(postgres.dataDir, "usage");
  const name = `${Deno.pid}-${options.ids.next("req").slice("req_".length)}`;
  const own = await UsageJournal.open({ dir, name, clock, log });
  return { postgres, db, metrics, tracing, masterKey, providers, journal: { dir, own } };
}
