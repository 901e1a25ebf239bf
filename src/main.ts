import { runCli } from "./cli/cli.ts";

if (import.meta.main) Deno.exit(await runCli(Deno.args));
