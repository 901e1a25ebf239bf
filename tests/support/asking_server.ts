import {
  createMcpHandler,
  type CreateMessageRequestParams,
  inputRequired,
  inputResponse,
  Server,
  type ServerContext,
  WebStandardStreamableHTTPServerTransport,
} from "@modelcontextprotocol/server";
import type { JsonObject } from "../../src/core/json.ts";
import { type ScriptedUpstream, startScriptedUpstream } from "./scripted_upstream.ts";
import { type TestHub, withHub } from "./test_hub.ts";

/** The form of the tool `paint`. */
export const FORM = {
  mode: "form" as const,
  message: "Which\u{202e} colour?",
  requestedSchema: {
    type: "object" as const,
    properties: {
      colour: { type: "string" as const },
      size: { type: "integer" as const, default: 7 },
    },
    required: ["colour"],
  },
};

/** The form of the tool `login`. */
const PASSWORD_FORM = {
  mode: "form" as const,
  message: "Who are you?",
  requestedSchema: {
    type: "object" as const,
    properties: {
      mail: { type: "string" as const, format: "email" as const },
      password: { type: "string" as const },
    },
    required: ["mail", "password"],
  },
};
const ADDRESS = { message: "Open this", url: "https://example.com/sign?in=1" };

/** A server whose tools ask back. */
export interface AskingServer {
  url: string;
  seen: { waiting: number; capabilities: unknown };
  /** Ends calls of `wait`. */
  letGo(): void;
  stop(): Promise<void>;
}

type Era = "legacy" | "modern";

/**
 * A server whose tools ask back, as its revision has it: `paint` for a form, `places` for roots, `think` for what a model
 * says to its arguments, several times for `times`; `login` for a form with a password, whose length it says, `visit` for an
 * address to be opened. `wait` holds until it is let go.
 */
export function startAsking(era: Era): AskingServer {
  const held = Promise.withResolvers<void>();
  const seen: AskingServer["seen"] = { waiting: 0, capabilities: null };
  const tools = ["paint", "places", "think", "login", "visit", "wait"].map((name) => ({
    name,
    description: name,
    inputSchema: { type: "object" as const, additionalProperties: true },
  }));
  const create = () => {
    const server = new Server({ name: "asking", version: "1" }, { capabilities: { tools: {} } });
    server.setRequestHandler("tools/list", () => ({ tools }));
    server.setRequestHandler("tools/call", async ({ params }, context) => {
      const text = (answer: unknown) => ({
        content: [{ type: "text" as const, text: JSON.stringify(answer) }],
      });
      seen.capabilities = server.getClientCapabilities();
      if (params.name === "wait") {
        seen.waiting++;
        await held.promise;
        return text("waited");
      }
      if (era === "modern") return askModern(params, context.mcpReq.inputResponses) ?? text(null);
      return text(
        await askLegacy(server, params, context).catch((error) => ({
          error: { code: error.code, message: error.message },
        })),
      );
    });
    return server;
  };
  const sessions = new Map<string, WebStandardStreamableHTTPServerTransport>();
  const modern = createMcpHandler(create, { legacy: "reject" });
  const listener = Deno.serve(
    { hostname: "127.0.0.1", port: 0, onListen() {} },
    async (request) => {
      if (era === "modern") return await modern.fetch(request);
      const known = sessions.get(request.headers.get("mcp-session-id") ?? "");
      if (known !== undefined) return await known.handleRequest(request);
      const transport = new WebStandardStreamableHTTPServerTransport({
        sessionIdGenerator: () => crypto.randomUUID(),
        onsessioninitialized: (id) => void sessions.set(id, transport),
      });
      await create().connect(transport);
      return await transport.handleRequest(request);
    },
  );
  return {
    url: `http://127.0.0.1:${listener.addr.port}/mcp`,
    seen,
    letGo: () => held.resolve(),
    async stop() {
      held.resolve();
      await modern.close();
      await Promise.all([...sessions.values()].map((transport) => transport.close()));
      await listener.shutdown();
    },
  };
}

/** A hub that is connected to such a server under each of these names, with these settings, and the parts around it. */
export async function withAsking(
  { era, servers, agent = {} }: {
    era: Era;
    servers: Record<string, JsonObject>;
    agent?: JsonObject;
  },
  body: (
    parts: { hub: TestHub; server: AskingServer; upstream: ScriptedUpstream },
  ) => Promise<void>,
): Promise<void> {
  const server = startAsking(era);
  const upstream = await startScriptedUpstream();
  const named = Object.entries(servers).map(([name, settings]) => {
    return [name, { url: server.url, ...settings }];
  });
  try {
    await withHub({
      providers: { up: { baseUrl: upstream.url, apiKey: "sk-up" } },
      defaultModel: "up/m",
      agents: { default: { tools: ["*__*"], ...agent } },
      mcpServers: Object.fromEntries(named),
    }, async (hub) => {
      await hub.hub.mcp.settled(10_000);
      await body({ hub, server, upstream });
    });
  } finally {
    await upstream.stop();
    await server.stop();
  }
}

interface Called {
  name: string;
  arguments?: Record<string, unknown> | undefined;
}

const wishOf = ({ arguments: wish = {} }: Called) => wish as unknown as CreateMessageRequestParams;

async function askLegacy(server: Server, called: Called, { mcpReq }: ServerContext) {
  const related = { relatedRequestId: mcpReq.id };
  switch (called.name) {
    case "paint":
      return await mcpReq.elicitInput(FORM);
    case "login":
      return lengthOf(await mcpReq.elicitInput(PASSWORD_FORM));
    case "visit":
      return await mcpReq.elicitInput({ mode: "url", ...ADDRESS, elicitationId: "visit-1" });
    case "places":
      return await server.listRoots(undefined, related);
    default: {
      const { times = 1, ...wish } = wishOf(called) as CreateMessageRequestParams & {
        times?: number;
      };
      const answers = [];
      for (let at = 0; at < times; at++) answers.push(await mcpReq.requestSampling(wish));
      return answers.length === 1 ? answers[0] : answers;
    }
  }
}

function lengthOf({ action, content }: { action: string; content?: unknown }) {
  const { password = "" } = (content ?? {}) as { password?: string };
  return { action, length: password.length };
}

function askModern(called: Called, responses: ServerContext["mcpReq"]["inputResponses"]) {
  const given = inputResponse(responses, "asked");
  if (given.kind !== "missing") {
    const shown = called.name === "login" && given.kind === "elicit" ? lengthOf(given) : given;
    return { content: [{ type: "text" as const, text: JSON.stringify(shown) }] };
  }
  const asked = called.name === "paint"
    ? inputRequired.elicit(FORM)
    : called.name === "login"
    ? inputRequired.elicit(PASSWORD_FORM)
    : called.name === "visit"
    ? inputRequired.elicitUrl(ADDRESS)
    : called.name === "places"
    ? inputRequired.listRoots()
    : inputRequired.createMessage(wishOf(called));
  return inputRequired({ inputRequests: { asked } });
}
