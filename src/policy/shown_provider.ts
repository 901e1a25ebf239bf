import type { LoadedProvider } from "../config/complete_providers.ts";
import { readStoredProvider } from "../config/stored_provider.ts";
import { toHubError } from "../core/error.ts";
import type { JsonObject } from "../core/json.ts";
import { openSecrets, settingsOf } from "../store/client_secrets.ts";
import type { StoredClient } from "../store/clients.ts";
import type { MasterKey } from "../store/master_key.ts";

/** A provider of the database without its secrets. */
export interface ShownProvider {
  id: string;
  name: string;
  kind: string;
  /** Null for one that calls nobody, or cannot be used. */
  baseUrl: string | null;
  settings: JsonObject;
  /** Names of the headers that are sent with each request. */
  headers: string[];
  key: { masterKeyId: string; formerHolds: boolean; formerUntil: number | null } | null;
  /** Why it cannot be used; null when it can. */
  problem: string | null;
  createdAt: number;
  updatedAt: number;
}

/** Leaves its secrets out, and says what keeps it from being used. */
export async function showProvider(client: StoredClient, key: MasterKey): Promise<ShownProvider> {
  const { clientId, name, kind, settings, createdAt, updatedAt, secrets } = client;
  const sealed = secrets.find(({ field }) => field === "api_key");
  const former = secrets.find(({ field }) => field === "api_key_former");
  let problem: string | null = null;
  let provider: LoadedProvider | null = null;
  let hasKey = sealed !== undefined;
  try {
    const opened = await openSecrets(client, key);
    hasKey = opened.api_key !== undefined;
    const read = readStoredProvider(name, settingsOf(client, opened));
    if (read.ok) provider = read.provider;
    else problem = read.message;
  } catch (error) {
    problem = toHubError(error).message;
  }
  return {
    id: clientId,
    name,
    kind,
    baseUrl: provider?.baseUrl ?? null,
    settings,
    headers: Object.keys(provider?.headers ?? {}),
    key: sealed === undefined || !hasKey ? null : {
      masterKeyId: sealed.masterKeyId,
      formerHolds: former !== undefined,
      formerUntil: former?.expiresAt ?? null,
    },
    problem,
    createdAt,
    updatedAt,
  };
}
