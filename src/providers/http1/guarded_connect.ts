import { lookup } from "node:dns/promises";
import { addressKind } from "../../core/address.ts";
import type { ByteSocket } from "../../wire/sockets/byte_socket.ts";
import type { Connect } from "./dial.ts";

/** All addresses of a name. Rejects when it has none. */
export type ResolveName = (hostname: string) => Promise<readonly string[]>;

/** What connecting to foreign names needs. */
export interface GuardOptions {
  connect: Connect;
  resolve: ResolveName;
  /** Whether names may lead to this machine and to private networks. */
  privateNames: boolean;
}

/** Asks the system, its hosts file included. */
export const resolveName: ResolveName = async (hostname) =>
  (await lookup(hostname, { all: true })).map(({ address }) => address);

/**
 * Connects to names of whoever may not choose any address. A name is resolved once, and connected to are the addresses
 * that were looked at: it cannot stand for another one in between. One address that is not allowed spoils them all.
 */
export function createGuardedConnect(options: GuardOptions): Connect {
  const { connect, resolve, privateNames } = options;
  return async (to) => {
    // An address was written out by whoever stored it, and checked then.
    if (addressKind(to.hostname) !== null) return await connect(to);
    const addresses = await resolve(to.hostname);
    for (const address of addresses) {
      const kind = addressKind(address) ?? "forbidden";
      if (kind === "public" || (kind === "local" && privateNames)) continue;
      throw new Error(
        kind === "local"
          ? "its name leads into a private network, which limits.privateNames does not allow"
          : "its name leads to a link-local or metadata address",
      );
    }
    return await connectToAny(addresses, (address) => connect({ ...to, address }), to.signal);
  };
}

/** Connects to the first of these addresses that answers. Rejects with what the last one did. */
export async function connectToAny(
  addresses: readonly string[],
  connect: (address: string) => Promise<ByteSocket>,
  signal: AbortSignal,
): Promise<ByteSocket> {
  let failure: unknown = new Error("its name cannot be resolved");
  for (const address of addresses) {
    try {
      signal.throwIfAborted();
      return await connect(address);
    } catch (error) {
      failure = error;
    }
  }
  throw failure;
}
