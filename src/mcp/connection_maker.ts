import type { LoadedMcpServer } from "../config/complete_mcp_servers.ts";
import type { Catalogue, Pins } from "./catalogue.ts";
import { McpConnection } from "./connection.ts";
import type { ConnectionOptions } from "./connection_options.ts";
import type { HandedSource } from "./handed_source.ts";
import { Lifeline } from "./lifeline.ts";
import { mayAuthorize } from "./may_authorize.ts";
import type { McpAuth, TokenOwner } from "./oauth/auth_provider.ts";
import { openClient } from "./open_client.ts";
import { GRACE_MS } from "./open_options.ts";
import type { OwnedStart } from "./owned_connections.ts";
import type { ServerTraces } from "./server_trace.ts";

/** What connections are made of, whosever they are. */
export interface ConnectionMakerOptions extends
  Omit<
    ConnectionOptions,
    "open" | "lifeline" | "onTools" | "onContent" | "seed" | "keep" | "tokens" | "handed" | "trace"
  > {
  open?: typeof openClient;
  /** Called with what is to be kept of a server. */
  keep?(name: string, catalogue: Catalogue, server: LoadedMcpServer): void;
  /** What counts of the tools of those who have tokens of their own; left out where that is not kept. */
  ownerPins?: KeptPins;
  /** Where what happens is noted of servers that are traced. */
  traces?: ServerTraces;
  /** Tokens for servers that want them; left out where there are none to be had. */
  auth?: McpAuth;
}

/** An owner of tokens, at a server that is reached so. */
export interface OwnedPlace extends TokenOwner {
  name: string;
  server: LoadedMcpServer;
}

/** Which definitions count for owners, over restarts and replicas. */
export interface KeptPins {
  /** Null where nothing was pinned yet. Rejects where that is not known. */
  read(place: OwnedPlace): Promise<Pins | null>;
  /** Pins what was listed first; gives what counts, since another replica may have been earlier. */
  first(place: OwnedPlace, pins: Pins): Promise<Pins>;
}

/** Called when another list counts. */
type Told = Pick<ConnectionOptions, "onTools" | "onContent">;

const UNTOLD: Told = { onTools() {}, onContent() {} };

/** What is known of a server that is not used: which definitions count once it is. */
function pinsOf({ pins }: Catalogue): Catalogue {
  return { tools: [], instructions: "", pins, content: null };
}

/** Makes the connections of a hub; none of them connects by that. */
export class ConnectionMaker {
  readonly #options: ConnectionMakerOptions;
  readonly #lifeline: Lifeline;

  constructor(options: ConnectionMakerOptions) {
    this.#options = options;
    this.#lifeline = new Lifeline({ graceMs: GRACE_MS, path: options.env("PATH") });
  }

  /** The one for all who have none of their own. */
  shared(
    name: string,
    server: LoadedMcpServer,
    { seed, ...told }: Told & { seed: Catalogue | undefined },
  ): McpConnection {
    const { keep, auth } = this.#options;
    return new McpConnection(name, server, {
      ...this.#common(name),
      ...told,
      tokens: this.#tokens(name, server, auth?.shared),
      keep: (catalogue) => keep?.(name, catalogue, server),
      ...seed === undefined ? {} : { seed: server.enabled ? seed : pinsOf(seed) },
    });
  }

  /** What an owner's tools are is told to nobody else: it neither begins with what is kept nor keeps, but for what counts. */
  owned(
    name: string,
    server: LoadedMcpServer,
    { owner, pins, onChange }: OwnedStart & { onChange(): void },
  ): McpConnection {
    const { ownerPins, log } = this.#options;
    const seed: Catalogue = { tools: [], instructions: "", pins, content: null };
    let isPinned = pins !== null;
    const pin = async (first: Pins) => {
      isPinned = true;
      try {
        const counting = await ownerPins?.first({ ...owner, name, server }, first);
        if (counting !== undefined) connection.setPins(counting);
      } catch (error) {
        isPinned = false;
        log.warn("What counts of an MCP server's tools could not be kept", { server: name, error });
      }
    };
    const connection = new McpConnection(name, server, {
      ...this.#common(name),
      seed,
      tokens: this.#tokens(name, server, owner),
      keep: (catalogue) => {
        if (catalogue.pins !== null && !isPinned) void pin(catalogue.pins);
      },
      onTools: onChange,
      onContent: onChange,
    });
    return connection;
  }

  /** One with a credential that a caller handed over. */
  handed(shared: McpConnection, handed: HandedSource): McpConnection {
    const { name, server, catalogue: seed } = shared;
    return new McpConnection(name, server, { ...this.#common(name), ...UNTOLD, seed, handed });
  }

  /** Ends what watches over programs; they have ended before. */
  async close(): Promise<void> {
    await this.#lifeline.close();
  }

  #common(name: string) {
    const { clock, random, log, env, addSecret, sample, open = openClient, traces } = this.#options;
    const lifeline = this.#lifeline;
    const { isolation } = this.#options;
    const trace = traces?.of(name);
    return { clock, random, log, env, addSecret, sample, open, lifeline, isolation, trace };
  }

  #tokens(name: string, server: LoadedMcpServer, owner: TokenOwner | undefined) {
    const { auth } = this.#options;
    if (auth === undefined || owner === undefined || !mayAuthorize(server)) return undefined;
    return auth.sourceOf(name, owner);
  }
}
