import { parseArgs } from "node:util";
import { parseJSONRPCMessage } from "@modelcontextprotocol/server";
import { LineTransport } from "../headends/mcp_server/line_transport.ts";
import { WebSocketTransport } from "../mcp/web_socket_transport.ts";
import { askHub } from "./ask_hub.ts";
import { bridgeMessages } from "./bridge_messages.ts";
import { EXIT } from "./exit_codes.ts";
import { findRemote } from "./find_remote.ts";
import { printError } from "./print.ts";
import { catchStopSignal } from "./stop_signals.ts";
import { systemClock } from "./system_clock.ts";

/** Longest message of a hub. */
const MAX_FRAME_BYTES = 64 * 1024 * 1024;

/**
 * `loophub mcp --url URL`: the `/mcp` of a running hub for a client that speaks over stdin and stdout alone. It ends with
 * its input, once that is answered; with 1 when the hub is lost, not to be had, or does not answer.
 */
export async function bridgeMcp(args: string[]): Promise<number> {
  const { values } = parseArgs({
    args,
    options: { url: { type: "string" }, "key-env": { type: "string" } },
  });
  const url = (values.url ?? "").replace(/\/+$/, "").replace(/\/mcp$/, "");
  const variable = values["key-env"];
  const hub = findRemote({ url, variable });
  if (hub === null) return EXIT.usage;
  const stopped = catchStopSignal();
  const client = new LineTransport({
    input: Deno.stdin.readable,
    output: Deno.stdout.writable,
    outlivesInput: true,
  });
  const key = Deno.env.get(variable ?? "LOOPHUB_KEY") ?? "";
  const server = new WebSocketTransport({
    url: `${url.replace(/^http/, "ws")}/mcp`,
    clock: systemClock,
    headers: { authorization: `Bearer ${key}` },
    parse: (text) => parseJSONRPCMessage(JSON.parse(text)),
    maxFrameBytes: MAX_FRAME_BYTES,
  });
  const isWell = await bridgeMessages({
    ...{ client, server, clock: systemClock, stopped, name: hub.name },
    async connect() {
      await askHub(hub, "/v1/models");
      await server.start();
    },
    onLost: printError,
  });
  return isWell ? EXIT.ok : EXIT.failed;
}
