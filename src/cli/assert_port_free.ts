import { listen } from "../http/server/server.ts";

/**
 * Throws `invalid_configuration` when another program listens there, the workers of another hub included, whose port could
 * be shared without an error. Called before a start touches the database or the data folder.
 */
export function assertPortFree({ host, port }: { host: string; port: number }): void {
  if (port !== 0) listen({ host, port }).close();
}
