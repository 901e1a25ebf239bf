import { parseArgs } from "node:util";
import { describeConfig } from "../config/describe.ts";
import { EXIT } from "./exit_codes.ts";
import { print } from "./print.ts";
import { loadSystemConfig } from "./system.ts";

/** `loophub check`: validates the configuration and says what it would start. */
export async function check(args: string[]): Promise<number> {
  const { values } = parseArgs({ args, options: { config: { type: "string" } } });
  const loaded = await loadSystemConfig(values.config);
  for (const line of describeConfig(loaded)) print(line);
  return EXIT.ok;
}
