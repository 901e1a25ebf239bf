import type { Server, ServerContext } from "@modelcontextprotocol/server";
import { onServerClose } from "./on_server_close.ts";
import { toProtocolError } from "./protocol_error.ts";
import type { Caller } from "./served_tool.ts";
import type { ClientSubscriptions, Subscriptions } from "./subscriptions.ts";

/** Lets a client of revisions up to 2025-11-25 follow resources, as long as its session lasts. */
export function serveSubscriptions(
  server: Server,
  { subscriptions, callerOf }: {
    subscriptions: Subscriptions;
    callerOf: (ctx: ServerContext) => Caller;
  },
): void {
  let own: ClientSubscriptions | null = null;
  server.setRequestHandler("resources/subscribe", async ({ params: { uri } }, ctx) => {
    own ??= subscriptions.begin(callerOf(ctx), (uri) => {
      server.sendResourceUpdated({ uri }).catch(() => {/* nobody listens yet, or any more */});
    });
    await own.add(uri).catch((error: unknown) => {
      throw toProtocolError(error);
    });
    return {};
  });
  server.setRequestHandler("resources/unsubscribe", ({ params: { uri } }) => {
    own?.remove(uri);
    return {};
  });
  onServerClose(server, () => own?.close());
}
