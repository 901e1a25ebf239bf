import { SILENT_LOG } from "../../src/core/log.ts";
import { startEmbeddedPostgres } from "../../src/store/embedded_postgres.ts";
import { systemClock } from "./system_clock.ts";

// A process that starts the embedded Postgres on the folder it is given, for tests that kill it meanwhile.
const [dataDir = ""] = Deno.args;
await startEmbeddedPostgres({ dataDir, log: SILENT_LOG, clock: systemClock });
