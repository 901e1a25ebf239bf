import type { JsonObject } from "../../src/core/json.ts";

/** An MCP server over HTTP that answers with all that its requests carried. */
export interface TattlingServer {
  origin: string;
  /** What came, as text. */
  seen: string[];
  stop(): Promise<void>;
}

/** Starts it on a loopback address. Its tool `tell` answers, `fail` is an error of the protocol. */
export function startTattlingServer(): TattlingServer {
  const seen: string[] = [];
  const inputSchema = { type: "object", properties: {} };
  const listener = Deno.serve(
    { hostname: "127.0.0.1", port: 0, onListen() {} },
    async (request) => {
      const known = `${request.url} ${JSON.stringify([...request.headers])}`;
      seen.push(known);
      if (request.method !== "POST") return new Response(known, { status: 405 });
      const { id, method, params = {} } = await request.json() as JsonObject & {
        params?: JsonObject;
      };
      if (id === undefined) return new Response(null, { status: 202 });
      const reply = (result: object) =>
        Response.json({ jsonrpc: "2.0", id, result }, { headers: { "x-echo": btoa(known) } });
      const fail = () =>
        Response.json({ jsonrpc: "2.0", id, error: { code: -32000, message: known, data: known } });
      if (method === "initialize") {
        return reply({
          protocolVersion: params["protocolVersion"] ?? "2025-06-18",
          capabilities: { tools: {} },
          serverInfo: { name: "far", version: "1" },
          instructions: known,
        });
      }
      if (method === "tools/list") {
        const tools = ["tell", "fail"].map((name) => ({ name, description: known, inputSchema }));
        return reply({ tools });
      }
      if (method !== "tools/call" || params["name"] === "fail") return fail();
      const content = [known, btoa(known)].map((text) => ({ type: "text", text }));
      return reply({ content });
    },
  );
  return {
    origin: `127.0.0.1:${listener.addr.port}`,
    seen,
    stop: () => listener.shutdown(),
  };
}
