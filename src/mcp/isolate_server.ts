import type { LoadedMcpServer } from "../config/complete_mcp_servers.ts";
import type { Isolation } from "../process/isolate.ts";
import { NotConfigured } from "./resolve_variables.ts";

/** What a server's program runs within. Throws `NotConfigured` where its sandbox is required and does not work. */
export async function isolateServer(
  { sandbox }: LoadedMcpServer,
  isolation: Isolation | undefined,
): Promise<readonly string[]> {
  if (isolation === undefined || sandbox === "off") return [];
  const found = await isolation.find();
  if (found.works) return isolation.argv;
  if (sandbox === "auto") return [];
  throw new NotConfigured(`its sandbox is required, and ${found.reason}`);
}
