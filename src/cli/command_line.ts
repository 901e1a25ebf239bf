import { fromUuid } from "../core/id.ts";
import type { Principal } from "../core/tool.ts";
import { DEFAULT_TENANT_ID } from "../store/tenant.ts";

/** Whoever sits at the machine: has no row among the keys, so that a run wants none. */
export const COMMAND_LINE: Principal = {
  tenantId: DEFAULT_TENANT_ID,
  keyId: fromUuid("key", "00000000-0000-7000-8000-000000000002"),
  keyName: "command line",
  role: "admin",
};
