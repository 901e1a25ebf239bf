import { parseArgs } from "node:util";
import { LineTransport } from "../headends/mcp_server/line_transport.ts";
import { serveConnection } from "../headends/mcp_server/serve_connection.ts";
import { createHub } from "../hub/create_hub.ts";
import { COMMAND_LINE } from "./command_line.ts";
import { EXIT } from "./exit_codes.ts";
import { tellDatabaseLost } from "./serve_until_stopped.ts";
import { catchStopSignal } from "./stop_signals.ts";
import { loadSystemConfig, systemHubOptions } from "./system.ts";

/** `loophub mcp`: a hub in this process as an MCP server over stdin and stdout, until either ends or it is stopped. */
export async function serveMcp(args: string[]): Promise<number> {
  const { values } = parseArgs({ args, options: { config: { type: "string" } } });
  const loaded = await loadSystemConfig(values.config);
  const options = systemHubOptions(loaded, { quiet: true });
  const stopSignal = catchStopSignal();
  const hub = await createHub({ ...options, sharePostgres: true });
  try {
    const transport = new LineTransport({
      input: Deno.stdin.readable,
      output: Deno.stdout.writable,
    });
    hub.mcp.start();
    const connection = serveConnection(transport, {
      protocol: hub.mcpServer,
      nextCaller: () => ({
        principal: COMMAND_LINE,
        requestId: options.ids.next("req"),
        span: null,
      }),
    });
    const end = await Promise.race([
      transport.closed.then(() => "closed"),
      stopSignal,
      hub.databaseLost,
    ]);
    await connection.close();
    return end === undefined ? tellDatabaseLost() : EXIT.ok;
  } finally {
    await hub.close();
  }
}
