import { parseArgs } from "node:util";
import { HubError } from "../core/error.ts";
import { isId } from "../core/id.ts";
import { accessOf } from "../core/ownership.ts";
import { listGrants, removeGrant } from "../store/approval_grants.ts";
import { openPostgres } from "../store/open_postgres.ts";
import { type Command, refuseCall } from "./command.ts";
import { COMMAND_LINE } from "./command_line.ts";
import { EXIT } from "./exit_codes.ts";
import { print, printText, readerGone } from "./print.ts";
import { loadSystemConfig, systemHubOptions } from "./system.ts";

const OPTIONS = { config: { type: "string" }, json: { type: "boolean", default: false } } as const;
const PAGE = 100;

/** `loophub grants`. */
export const GRANTS: Command = {
  name: "grants",
  forms: {
    list: { args: "[--json]", summary: "approvals that hold for later calls" },
    remove: { args: "GRANT_ID", summary: "take one back" },
  },
  run: grants,
};

/** Lists approvals that hold for later calls, and takes them back, beside a running hub too. */
async function grants(args: string[]): Promise<number> {
  const { values, positionals } = parseArgs({ args, options: OPTIONS, allowPositionals: true });
  const [verb, grantId = "", ...more] = positionals;
  const isList = verb === "list" && positionals.length === 1;
  if (!isList && !(verb === "remove" && isId("grt", grantId) && more.length === 0)) {
    return refuseCall(GRANTS, positionals);
  }
  const options = systemHubOptions(await loadSystemConfig(values.config), { quiet: true });
  const postgres = await openPostgres(options.loaded, { ...options, share: true });
  const db = postgres.connect();
  const everything = accessOf(COMMAND_LINE);
  try {
    if (!isList) {
      const auditId = options.ids.next("aud");
      const audit = { auditId, actorKeyId: null, action: "grant.remove", details: {} };
      if (!await removeGrant(db, { ...everything, grantId, audit })) {
        throw new HubError("not_found", `There is no grant ${grantId}`);
      }
      print(`${grantId} is taken back`);
      return EXIT.ok;
    }
    for (let after: string | null = null;;) {
      const page = await listGrants(db, { ...everything, limit: PAGE, after });
      for (const grant of page.grants) {
        const { toolName, agent, keyId, sessionId, expiresAt } = grant;
        const where = sessionId === null ? "all sessions" : sessionId;
        const until = expiresAt === null ? "" : ` until ${expiresAt}`;
        printText(
          values.json
            ? JSON.stringify(grant)
            : `${grant.grantId}  ${toolName} by ${agent} in ${where} of ${keyId}${until}`,
        );
      }
      after = page.nextCursor;
      if (after === null || readerGone.aborted) return EXIT.ok;
    }
  } finally {
    await db.close();
    await postgres.stop();
  }
}
