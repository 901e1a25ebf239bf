import type { Server } from "node:http";
import type { Socket } from "node:net";

/** What Deno 2.9 keeps for a connection to enforce its timeouts; without a request it never expires. */
interface Entry {
  headersCompleted: boolean;
  startTime: number;
  req: { complete: boolean } | null;
}

const IDLE: Readonly<Entry> = Object.freeze({
  headersCompleted: true,
  startTime: Number.POSITIVE_INFINITY,
  req: Object.freeze({ complete: true }),
});

/** A map that forgets a request by overwriting its entry; only a closed connection takes its place out. */
class SteadyMap extends Map<Socket, Entry> {
  override delete(socket: Socket): boolean {
    if (!this.has(socket)) return false;
    if (socket.destroyed) return super.delete(socket);
    this.set(socket, IDLE);
    return true;
  }
}

/**
 * Deno's `node:http` adds and deletes an entry of one map for each request. V8 gives such a map a new table every
 * few requests, and each abandoned table refers to the next (`OrderedHashTable`), so once a major collection has
 * promoted one of them, every later table, and with it every later request, survives the young generation: a
 * collection of 16 MB then copies 6 MB instead of nothing (measured, ADR 0001). Keeping the keys ends that. Nothing
 * is done when the runtime's internals look different; gives back whether it was done. Call after a connection came.
 */
export function steadyConnections(server: Server): boolean {
  const key = Object.getOwnPropertySymbols(server).find((symbol) =>
    symbol.description === "http.server.connections"
  );
  const list: unknown = key === undefined ? undefined : Reflect.get(server, key);
  if (typeof list !== "object" || list === null) return false;
  const active: unknown = Reflect.get(list, "_active");
  if (active instanceof SteadyMap) return true;
  if (!isMap(active)) return false;
  const steady = new SteadyMap();
  active.forEach((entry, socket) => steady.set(socket, entry));
  return Reflect.set(list, "_active", steady);
}

/** The runtime's own map has another prototype than `Map`, so its methods are looked for. */
function isMap(value: unknown): value is Map<Socket, Entry> {
  return Object.prototype.toString.call(value) === "[object Map]" &&
    typeof (value as Map<Socket, Entry>).forEach === "function";
}
