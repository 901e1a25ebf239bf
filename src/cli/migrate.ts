import { parseArgs } from "node:util";
import { createHub } from "../hub.ts";
import { EXIT } from "./exit_codes.ts";
import { print } from "./print.ts";
import { loadSystemConfig, systemHubOptions } from "./system.ts";

/** `loophub migrate`: brings the database up to date, as every start does, and exits. */
export async function migrateDatabase(args: string[]): Promise<number> {
  const { values } = parseArgs({ args, options: { config: { type: "string" } } });
  const hub = await createHub(systemHubOptions(await loadSystemConfig(values.config)));
  await hub.close();
  print("The database is up to date");
  return EXIT.ok;
}
