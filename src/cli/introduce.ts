import { dirname, join } from "node:path";
import { hidePassword } from "../config/describe.ts";
import { print } from "./print.ts";

/** What a start tells the person at the terminal, or the program that reads its output. */
export interface Introduction {
  url: string;
  /** Address of the database, password included. */
  databaseUrl: string;
  /** Whether the database is the embedded Postgres. */
  isEmbedded: boolean;
  /** The data folder. */
  dataDir: string;
  models: readonly string[];
  /** A key that was made now; null when there were some. */
  key: string | null;
}

/** Where output goes. */
export interface Audience {
  /** Whether it is an interactive terminal; anything else may be stored, as logs of containers are. */
  isTerminal: boolean;
  print(text: string): void;
}

/** Name of the file in the data folder that holds the first key when no terminal shows it. */
export const FIRST_KEY_FILE = "first-key";

/**
 * Prints where the hub is and, at the very first start, how to talk to it. The key and the password of the embedded
 * Postgres are printed on a terminal only; elsewhere the key goes to a file of mode 0600, whose path is printed. It is
 * printed at once: a program that reads the address from a pipe has the path with it.
 */
export async function introduce(
  { url, databaseUrl, isEmbedded, dataDir, models, key }: Introduction,
  { isTerminal, print }: Audience = terminal(),
): Promise<void> {
  const psql = isTerminal && isEmbedded ? databaseUrl : hidePassword(databaseUrl);
  const hint = isEmbedded && !isTerminal ? ` (password in ${join(dataDir, "password")})` : "";
  const address = `Loophub listens on ${url}
  API       ${url}/v1
  psql      ${psql}${hint}
  models    ${models.join(", ") || "any name of a configured provider"}`;
  if (key === null) return print(address);
  if (isTerminal) {
    return print(`${address}\n${firstSteps("Your key, shown only now:", key, { url, models })}`);
  }
  const file = join(dataDir, FIRST_KEY_FILE);
  await writePrivateFile(file, `${key}\n`);
  const words =
    `Your key is in ${file}, which only this user can read; delete it when you have it:`;
  const command = `"$(cat '${file.replaceAll("'", `'\\''`)}')"`;
  print(`${address}\n${firstSteps(words, command, { url, models })}`);
}

/** Writes a file that is mode 0600 from its first byte on, in place of one that may be there. */
async function writePrivateFile(path: string, text: string): Promise<void> {
  await Deno.mkdir(dirname(path), { recursive: true });
  const draft = `${path}.${crypto.randomUUID()}`;
  await Deno.writeTextFile(draft, text, { createNew: true, mode: 0o600 });
  await Deno.rename(draft, path);
}

function terminal(): Audience {
  return { isTerminal: Deno.stdout.isTerminal(), print };
}

function firstSteps(
  words: string,
  key: string,
  { url, models: [model = "PROVIDER/MODEL"] }: Pick<Introduction, "url" | "models">,
): string {
  return `
This is the first start. ${words}

export OPENAI_BASE_URL=${url}/v1 OPENAI_API_KEY=${key}

# the proxy
curl ${url}/v1/chat/completions -H "authorization: Bearer $OPENAI_API_KEY" -H "content-type: application/json" -d '{"model":"${model}","stream":true,"messages":[{"role":"user","content":"Hello"}]}'

# an agent run
curl -N ${url}/api/chat -H "authorization: Bearer $OPENAI_API_KEY" -H "content-type: application/json" -d '{"id":"first-chat","messages":[{"id":"m1","role":"user","parts":[{"type":"text","text":"Use current_time and calculate \\"6*7\\""}]}]}'
`;
}
