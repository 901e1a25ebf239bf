import type { Clock } from "../../src/core/clock.ts";
import { createIdSource } from "../../src/core/id.ts";
import { SILENT_LOG } from "../../src/core/log.ts";
import { type App, type AppOptions, createApp } from "../../src/http/app.ts";
import { createHostPolicy } from "../../src/http/middleware/host_check.ts";
import type { Route } from "../../src/http/route.ts";
import { type HubServer, type ServerOptions, startServer } from "../../src/http/server/server.ts";
import { hashApiKey, isHashOf, makeApiKey } from "../../src/policy/api_key.ts";
import { createAuthenticate } from "../../src/policy/authenticate.ts";
import { isSignatureOf } from "../../src/policy/browser_token.ts";
import type { KeyRecord } from "../../src/policy/key_record.ts";
import { OPEN_ADMISSION } from "../support/gates.ts";

/** The real clock; only tests with sockets use it. */
export const REAL_CLOCK: Clock = {
  now: () => Date.now(),
  monotonic: () => performance.now(),
  coarse: () => performance.now(),
  setTimer: (callback, delayMs) => setTimeout(callback, delayMs),
  clearTimer: (timer) => clearTimeout(timer as number),
};

export const PEPPER = new Uint8Array(32).fill(7);
export const randomBytes = (length: number) => crypto.getRandomValues(new Uint8Array(length));
export const USER = makeApiKey(randomBytes);
export const ADMIN = makeApiKey(randomBytes);

/** A key's row. */
export function recordOf(
  key: { token: string; lookupId: string },
  facts: Partial<KeyRecord> = {},
): KeyRecord {
  return {
    keyId: `key_${key.lookupId}`,
    tenantId: "tenant",
    name: "test",
    role: "user",
    lookupId: key.lookupId,
    hash: hashApiKey(key.token, PEPPER),
    expiresAt: null,
    revokedAt: null,
    ...facts,
  };
}

/** An app of these routes with one user key and one admin key. */
export function createTestApp(routes: Route[], options: Partial<AppOptions> = {}): App {
  const records = [recordOf(USER), recordOf(ADMIN, { role: "admin" })];
  const snapshot = { byLookupId: new Map(records.map((record) => [record.lookupId, record])) };
  return createApp({
    routes,
    authenticate: createAuthenticate({
      snapshot: () => snapshot,
      lookup: () => Promise.resolve(null),
      isHashOf: (token, hash) => isHashOf(token, hash, PEPPER),
      isSignatureOf: (payload, signature) => isSignatureOf(payload, signature, PEPPER),
      clock: REAL_CLOCK,
    }),
    hosts: createHostPolicy({ boundHost: "127.0.0.1" }),
    ids: createIdSource(() => Date.now(), randomBytes),
    clock: REAL_CLOCK,
    log: SILENT_LOG,
    maxBodyBytes: 1024 * 1024,
    admission: OPEN_ADMISSION,
    info: { title: "test", version: "0" },
    ...options,
  });
}

/** Runs `use` against a server of these routes, and stops it. */
export async function withServer(
  routes: Route[],
  use: (server: HubServer) => Promise<void>,
  options: Partial<ServerOptions> & { appOptions?: Partial<AppOptions> } = {},
): Promise<void> {
  const { appOptions, ...serverOptions } = options;
  const server = startServer({
    app: createTestApp(routes, appOptions),
    host: "127.0.0.1",
    port: 0,
    clock: REAL_CLOCK,
    log: SILENT_LOG,
    ...serverOptions,
  });
  try {
    await use(server);
  } finally {
    await server.close(0);
  }
}

/** A TCP client that says exactly what it is told. */
export class RawClient {
  readonly #connection: Deno.TcpConn;
  readonly #decoder = new TextDecoder("latin1");
  text = "";
  /** How the server's side ended, once it did. */
  end: "open" | "eof" | "reset" = "open";

  private constructor(connection: Deno.TcpConn) {
    this.#connection = connection;
  }

  static async connect(port: number): Promise<RawClient> {
    return new RawClient(await Deno.connect({ port, hostname: "127.0.0.1" }));
  }

  async send(bytes: string | Uint8Array): Promise<void> {
    let rest = typeof bytes === "string" ? new TextEncoder().encode(bytes) : bytes;
    while (rest.length > 0) rest = rest.subarray(await this.#connection.write(rest));
  }

  /** Reads until the text has what is wanted, or the server ends. */
  async readUntil(wanted: string | RegExp): Promise<string> {
    const has = () =>
      typeof wanted === "string" ? this.text.includes(wanted) : wanted.test(this.text);
    while (!has() && await this.#read());
    return this.text;
  }

  async readToEnd(): Promise<string> {
    while (await this.#read());
    return this.text;
  }

  close(): void {
    try {
      this.#connection.close();
    } catch {
      // The server's reset may have closed it.
    }
  }

  async #read(): Promise<boolean> {
    const buffer = new Uint8Array(65536);
    try {
      const size = await this.#connection.read(buffer);
      if (size === null) this.end = "eof";
      else this.text += this.#decoder.decode(buffer.subarray(0, size));
    } catch {
      this.end = "reset";
    }
    return this.end === "open";
  }
}

/** Sends one text, reads to the end and gives what came. */
export async function exchange(
  server: Pick<HubServer, "port">,
  request: string,
): Promise<{ text: string; end: RawClient["end"]; status: number; body: string }> {
  const client = await RawClient.connect(server.port);
  await client.send(request);
  await client.readToEnd();
  client.close();
  const { text, end } = client;
  const status = Number(/^HTTP\/1\.\d (\d{3})/.exec(text)?.[1] ?? 0);
  return { text, end, status, body: text.slice(text.indexOf("\r\n\r\n") + 4) };
}

/** A promise and what settles it. */
export function deferred<T = void>(): { promise: Promise<T>; resolve: (value: T) => void } {
  return Promise.withResolvers<T>();
}
