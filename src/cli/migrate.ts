import { parseArgs } from "node:util";
import { openPostgres } from "../store/open_postgres.ts";
import { EXIT } from "./exit_codes.ts";
import { print } from "./print.ts";
import { loadSystemConfig, systemHubOptions } from "./system.ts";

/** `loophub migrate`: brings the database up to date, as every start does, and exits. */
export async function migrateDatabase(args: string[]): Promise<number> {
  const { values } = parseArgs({ args, options: { config: { type: "string" } } });
  const options = systemHubOptions(await loadSystemConfig(values.config));
  const postgres = await openPostgres(options.loaded, options);
  await postgres.stop();
  print("The database is up to date");
  return EXIT.ok;
}
