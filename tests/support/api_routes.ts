import type { JsonObject } from "../../src/core/json.ts";
import { derivePepper, hashApiKey, makeApiKey } from "../../src/policy/api_key.ts";
import { createKey } from "../../src/store/keys.ts";
import { loadMasterKey } from "../../src/store/master_key.ts";
import { testIds } from "./postgres.ts";
import type { TestHub } from "./test_hub.ts";

const OTHER_TENANT = "00000000-0000-7000-8000-00000000000b";
const randomBytes = (length: number) => crypto.getRandomValues(new Uint8Array(length));

/** An admin's key of another tenant. */
export async function strangerOf(hub: TestHub & { dataDir: string }): Promise<string> {
  const master = await loadMasterKey({ given: undefined, dataDir: hub.dataDir, randomBytes });
  const { token, lookupId } = makeApiKey(randomBytes);
  await createKey(hub.hub.start.db, {
    tenantId: OTHER_TENANT,
    keyId: testIds.next("key"),
    name: "stranger",
    role: "admin",
    lookupId,
    hash: hashApiKey(token, derivePepper(master.bytes)),
  });
  return token;
}

/** One method of a path, as the hub describes it. */
export interface ApiRoute {
  method: string;
  /** With its parameters in braces. */
  pattern: string;
  operation: { security?: unknown[]; responses: Record<string, JsonObject> };
}

/** All routes of the hub, from its own description. */
export async function routesOf(hub: TestHub): Promise<ApiRoute[]> {
  const { paths } = await (await hub.call("/openapi.json")).json() as {
    paths: Record<string, Record<string, ApiRoute["operation"]>>;
  };
  return Object.entries(paths).flatMap(([pattern, methods]) =>
    Object.entries(methods).map(([method, operation]) => ({
      method: method.toUpperCase(),
      pattern,
      operation,
    }))
  );
}

/** The path of a pattern, each parameter replaced. */
export function pathOf(pattern: string, valueOf: (parameter: string) => string): string {
  return pattern.replaceAll(/\{(\w+)\}/g, (_, name) => valueOf(name));
}
