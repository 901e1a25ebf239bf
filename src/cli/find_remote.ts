import { type AskedHub, remoteHub } from "./ask_hub.ts";
import { printError } from "./print.ts";

/** The running hub of `--url`, with the key in LOOPHUB_KEY or the variable of `--key-env`; null, and said, without one. */
export function findRemote(
  { url, variable = "LOOPHUB_KEY" }: { url: string; variable: string | undefined },
): AskedHub | null {
  const key = Deno.env.get(variable) ?? "";
  if (key !== "" && URL.canParse(url)) return remoteHub({ url, key });
  printError(
    key === "" ? `The variable ${variable} has no key` : "--url wants the address of a hub",
  );
  return null;
}
