import type { Clock, Timer } from "../core/clock.ts";
import { toHubError } from "../core/error.ts";
import { fromUuid, type IdSource } from "../core/id.ts";
import type { Log } from "../core/log.ts";
import type { Principal } from "../core/tool.ts";
import { configHash, type Pins } from "../mcp/catalogue.ts";
import type { McpServers } from "../mcp/mcp_servers.ts";
import { pinsFor } from "../mcp/waiting_tools.ts";
import { writeAudit } from "../store/audit.ts";
import type { Database } from "../store/database.ts";
import { addMcpPins, readMcpCatalogues } from "../store/mcp_catalogues.ts";
import { addOwnerPins, listOwnerPins } from "../store/mcp_owner_pins.ts";
import { notify } from "../store/notify.ts";
import { DEFAULT_TENANT_ID } from "../store/tenant.ts";

/** What approving needs. */
export interface McpApprovalsOptions {
  db: Database;
  ids: IdSource;
  clock: Clock;
  log: Log;
  mcp: McpServers;
  /** Whether the others are told; they look every few seconds besides. */
  notify: boolean;
}

/** Which definitions somebody approves. */
export interface ApprovalWish {
  hashes: readonly string[];
  /** Uuid of the key whose connection listed them; null for the one of all. */
  owner: string | null;
  /** Who that is. */
  actor: Principal;
}

const REFRESH_MS = 5000;

/** Definitions of tools that people approved, over all replicas. */
export class McpApprovals {
  readonly #options: McpApprovalsOptions;
  #timer: Timer | null = null;
  #checking: Promise<void> | null = null;
  #closed = false;

  constructor(options: McpApprovalsOptions) {
    this.#options = options;
    this.#arm();
  }

  /** Lets definitions count, which the audit has, here at once and elsewhere soon. Throws `conflict` when one of them is not what is listed now. */
  async approve(server: string, { hashes, owner, actor }: ApprovalWish): Promise<void> {
    const { db, ids, mcp } = this.#options;
    const chosen = mcp.ownersOf(server).filter((found) => found.owner === owner);
    const pins = pinsFor(chosen, hashes);
    const [first] = chosen;
    // First: nothing counts that the audit does not have.
    await writeAudit(db, {
      tenantId: actor.tenantId,
      audit: {
        auditId: ids.next("aud"),
        actorKeyId: actor.keyId,
        action: "mcp.approve",
        details: { tools: { ...pins }, owner: owner === null ? null : fromUuid("key", owner) },
      },
      subject: server,
    });
    if (owner === null && first !== undefined) {
      await addMcpPins(db, {
        tenantId: DEFAULT_TENANT_ID,
        server,
        configHash: configHash(first.connection.server),
        pins: { ...pins },
      });
    }
    for (const { tenantId, owner, connection } of chosen) {
      if (tenantId === null || owner === null) continue;
      await addOwnerPins(db, {
        tenantId,
        server,
        owner,
        configHash: configHash(connection.server),
        pins: { ...connection.catalogue.pins, ...pins },
      });
    }
    for (const { connection } of chosen) connection.usePins(pins);
    if (this.#options.notify) await notify(db, { mcp: true }).catch(() => {});
  }

  /** Takes over what was approved elsewhere, and what owners have authorized no more. Never rejects. */
  async check(): Promise<void> {
    if (this.#closed) return;
    await this.#checking;
    this.#checking ??= this.#read().finally(() => {
      this.#checking = null;
    });
    await this.#checking;
  }

  async close(): Promise<void> {
    this.#closed = true;
    this.#options.clock.clearTimer(this.#timer);
    await this.#checking;
  }

  #arm(): void {
    this.#timer = this.#options.clock.setTimer(async () => {
      await this.check();
      if (!this.#closed) this.#arm();
    }, REFRESH_MS);
  }

  async #read(): Promise<void> {
    const { db, mcp, log } = this.#options;
    if (mcp.connections.length === 0) return;
    try {
      for (const stored of await readMcpCatalogues(db, DEFAULT_TENANT_ID)) {
        const connection = mcp.connections.find(({ name }) => name === stored.server);
        if (connection === undefined || stored.pins === null) continue;
        if (configHash(connection.server) !== stored.configHash) continue;
        connection.usePins(stored.pins as Pins);
      }
      await this.#readOwners();
      await mcp.checkGrants();
    } catch (error) {
      log.warn("What was approved of MCP servers was not read", { error: toHubError(error) });
    }
  }

  async #readOwners(): Promise<void> {
    const { db, mcp } = this.#options;
    for (const [tenantId, owned] of Map.groupBy(mcp.owned(), (one) => one.tenantId)) {
      const owners = [...new Set(owned.map(({ owner }) => owner))];
      for (const stored of await listOwnerPins(db, { tenantId, owners })) {
        const own = owned.find(({ owner, connection: { name } }) =>
          owner === stored.owner && name === stored.server
        );
        if (own === undefined || configHash(own.connection.server) !== stored.configHash) continue;
        own.connection.setPins(stored.pins as Pins);
      }
    }
  }
}
