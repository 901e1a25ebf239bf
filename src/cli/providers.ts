import { parseArgs } from "node:util";
import { HubError } from "../core/error.ts";
import type { JsonObject } from "../core/json.ts";
import type { KeyActor } from "../policy/manage_keys.ts";
import { ProviderDesk } from "../policy/manage_providers.ts";
import { Pepper } from "../policy/pepper.ts";
import type { ShownProvider } from "../policy/shown_provider.ts";
import { loadMasterKey } from "../store/master_key.ts";
import { openPostgres } from "../store/open_postgres.ts";
import { DEFAULT_TENANT_ID } from "../store/tenant.ts";
import { type Command, type Forms, refuseCall } from "./command.ts";
import { EXIT } from "./exit_codes.ts";
import { print, printText } from "./print.ts";
import { loadSystemConfig, systemHubOptions } from "./system.ts";

const FORMS: Forms<Wish["kind"]> = {
  list: { args: "", summary: "the providers of the database" },
  add: {
    args: "NAME [--kind KIND] [--base-url URL] [--model NAME …] [KEY]",
    summary: "store one",
  },
  rotate: { args: "NAME KEY", summary: "give it another key" },
  remove: { args: "NAME", summary: "remove it" },
  reseal: { args: "", summary: "encrypt all secrets with the newest master key" },
};
const OPTIONS = {
  config: { type: "string" },
  kind: { type: "string" },
  "base-url": { type: "string" },
  model: { type: "string", multiple: true },
  "key-env": { type: "string" },
  "key-stdin": { type: "boolean" },
} as const;
const COMMAND_LINE: KeyActor = { tenantId: DEFAULT_TENANT_ID, keyId: null };

/** What the arguments ask for. */
type Wish = { kind: "list" } | { kind: "reseal" } | {
  kind: "add" | "rotate" | "remove";
  name: string;
};

/** `loophub providers`. */
export const PROVIDERS: Command = {
  name: "providers",
  forms: FORMS,
  notes:
    "KEY: --key-env VARIABLE, or --key-stdin; a key among the arguments would be seen by all users of the machine.",
  run: providers,
};

/** Lists, adds and removes the database's providers and rotates their keys, beside a running hub too. */
async function providers(args: string[]): Promise<number> {
  const { values, positionals } = parseArgs({ args, options: OPTIONS, allowPositionals: true });
  const wish = parseWish(positionals);
  const env = values["key-env"];
  const isKeyed = env !== undefined || values["key-stdin"] === true;
  if (wish === null || (wish.kind === "rotate" && !isKeyed)) {
    return refuseCall(PROVIDERS, positionals);
  }
  const options = systemHubOptions(await loadSystemConfig(values.config), { quiet: true });
  const apiKey = env === undefined ? isKeyed ? await readStdin() : undefined : options.env(env);
  if (isKeyed && (apiKey === undefined || apiKey === "")) {
    throw new HubError("invalid_request", `got no key from ${env ?? "stdin"}, wanted one`);
  }
  const postgres = await openPostgres(options.loaded, { ...options, share: true });
  const db = postgres.connect();
  try {
    const { randomBytes } = options;
    const given = options.env("LOOPHUB_MASTER_KEY");
    const key = await loadMasterKey({ given, dataDir: postgres.dataDir, randomBytes });
    const pepper = await Pepper.load({ ...options, db, key });
    const { notify } = options.loaded.config.database;
    const desk = new ProviderDesk({ ...options, db, key, pepper, notify });
    await grant(wish, desk, {
      apiKey,
      settings: {
        ...(values.kind === undefined ? {} : { kind: values.kind }),
        ...(values["base-url"] === undefined ? {} : { baseUrl: values["base-url"] }),
        ...(values.model === undefined ? {} : { models: values.model }),
        ...(apiKey === undefined ? {} : { apiKey }),
      },
    });
    return EXIT.ok;
  } finally {
    await db.close();
    await postgres.stop();
  }
}

async function grant(
  wish: Wish,
  desk: ProviderDesk,
  { apiKey = "", settings }: { apiKey: string | undefined; settings: JsonObject },
): Promise<void> {
  if (wish.kind === "reseal") {
    const { masterKeyId, resealed, left } = await desk.reseal(COMMAND_LINE);
    print(`${resealed} secrets are sealed anew with master key ${masterKeyId}; ${left} are not`);
    return;
  }
  const all = await desk.list(COMMAND_LINE);
  if (wish.kind === "list") return all.map(lineOf).forEach(print);
  if (wish.kind === "add") {
    return printText(lineOf(await desk.create(COMMAND_LINE, wish.name, settings)));
  }
  const found = all.find(({ name, id }) => name === wish.name || id === wish.name);
  if (found === undefined) {
    throw new HubError("not_found", `There is no provider ${wish.name} in the database`);
  }
  if (wish.kind === "rotate") {
    await desk.rotate(COMMAND_LINE, found.id, apiKey);
    return printText(`${found.name} has another key; the old one holds until the new one works`);
  }
  await desk.remove(COMMAND_LINE, found.id);
  printText(`${found.name} is removed`);
}

function parseWish([kind, name, ...more]: readonly string[]): Wish | null {
  if (more.length > 0) return null;
  if (kind === "list" || kind === "reseal") return name === undefined ? { kind } : null;
  if (name === undefined) return null;
  return kind === "add" || kind === "rotate" || kind === "remove" ? { kind, name } : null;
}

async function readStdin(): Promise<string> {
  return (await new Response(Deno.stdin.readable).text()).trim();
}

function lineOf({ id, name, kind, baseUrl, key, problem }: ShownProvider): string {
  const former = key?.formerHolds === true ? ", the former one holds too" : "";
  const facts = [
    baseUrl ?? "no address",
    key === null ? "no key" : `key under ${key.masterKeyId}${former}`,
    ...(problem === null ? [] : [problem]),
  ];
  return `${id}  ${name}  ${kind}  ${facts.join("  ")}`;
}
