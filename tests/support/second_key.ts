import { derivePepper } from "../../src/policy/api_key.ts";
import { issueKey } from "../../src/policy/issue_key.ts";
import { loadMasterKey } from "../../src/store/master_key.ts";
import { testIds } from "./postgres.ts";
import type { TestHub } from "./test_hub.ts";

const randomBytes = (length: number) => crypto.getRandomValues(new Uint8Array(length));

/** Makes another key of the same tenant. */
export async function issueSecondKey(hub: TestHub & { dataDir: string }): Promise<string> {
  const master = await loadMasterKey({ given: undefined, dataDir: hub.dataDir, randomBytes });
  const pepper = derivePepper(master.bytes);
  const facts = { name: "other", role: "user" } as const;
  const parts = { ids: testIds, randomBytes, pepper };
  return (await issueKey(hub.hub.start.db, facts, parts)).token;
}
