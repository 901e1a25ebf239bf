import {
  type CompleteResult,
  type GetPromptResult,
  type ListPromptsResult,
  type ListResourcesResult,
  type ListResourceTemplatesResult,
  ProtocolError,
  ProtocolErrorCode,
  type ReadResourceResult,
  ResourceNotFoundError,
  type Server,
  type ServerContext,
} from "@modelcontextprotocol/server";
import { HubError } from "../../core/error.ts";
import type { Json } from "../../core/json.ts";
import type { McpConnection } from "../../mcp/connection.ts";
import { passedBlock, passedContents } from "../../mcp/passed_on.ts";
import { type McpContent, NO_CONTENT } from "../../mcp/read_content.ts";
import type { CompletionWish } from "../../mcp/server_content.ts";
import { outwardUri, toolName } from "../../mcp/tool_names.ts";
import type { CallersContent, ContentCaller } from "../../policy/callers_content.ts";
import type { Caller } from "./served_tool.ts";

interface Served {
  connection: McpConnection;
  content: McpContent;
}

/** Answers what clients ask of the resources and prompts of connected servers, as far as the caller goes. */
export function serveContent(
  server: Server,
  { content, callerOf }: {
    content: CallersContent;
    callerOf: (ctx: ServerContext) => Caller;
  },
): void {
  const asks = (ctx: ServerContext): ContentCaller => {
    const { principal: { tenantId, keyId } } = callerOf(ctx);
    return { tenantId, keyId, signal: ctx.mcpReq.signal };
  };
  /** Never waits for a server: what is not known yet is told once it is. */
  const served = async (caller: ContentCaller): Promise<Served[]> =>
    (await content.servers(caller)).map((connection) => ({
      connection,
      content: content.restrict(caller, connection, connection.content.listing ?? NO_CONTENT),
    }));
  const ownerOf = async (caller: ContentCaller, uri: string) => {
    const found = findOwner(await served(caller), uri);
    if (found === null) throw new ResourceNotFoundError(uri);
    return found;
  };
  const promptOf = async (caller: ContentCaller, name: string) => {
    for (const { connection, content: { prompts } } of await served(caller)) {
      const own = prompts.find((prompt) => toolName(connection.server, prompt.name) === name);
      if (own !== undefined) return { connection, name: own.name };
    }
    const shown = name.slice(0, 128);
    throw new ProtocolError(ProtocolErrorCode.InvalidParams, `There is no prompt ${shown}`);
  };

  server.setRequestHandler(
    "resources/list",
    async (_request, ctx): Promise<ListResourcesResult> => {
      const all = (await served(asks(ctx))).flatMap(({ connection, content: { resources } }) =>
        resources.map((own) => ({ ...own, uri: outwardUri(connection.server, own.uri) }))
      );
      return { resources: inOrder(all, ({ uri }) => uri) };
    },
  );
  server.setRequestHandler(
    "resources/templates/list",
    async (_request, ctx): Promise<ListResourceTemplatesResult> => {
      const all = (await served(asks(ctx))).flatMap(({ connection, content: { templates } }) =>
        templates.map((own) => ({
          ...own,
          uriTemplate: outwardUri(connection.server, own.uriTemplate),
        }))
      );
      return { resourceTemplates: inOrder(all, ({ uriTemplate }) => uriTemplate) };
    },
  );
  server.setRequestHandler("prompts/list", async (_request, ctx): Promise<ListPromptsResult> => {
    const all = (await served(asks(ctx))).flatMap(({ connection, content: { prompts } }) =>
      prompts.map((own) => ({ ...own, name: toolName(connection.server, own.name) }))
    );
    return { prompts: inOrder(all, ({ name }) => name) };
  });
  server.setRequestHandler(
    "resources/read",
    async ({ params: { uri } }, ctx): Promise<ReadResourceResult> => {
      const caller = asks(ctx);
      const { connection, own } = await ownerOf(caller, uri);
      const found = await content.read(caller, connection, own).catch((error: unknown) => {
        const isGone = error instanceof HubError && error.code === "not_found";
        throw isGone ? new ResourceNotFoundError(uri) : toProtocolError(error);
      });
      const contents = found.map((one) => passedContents(connection.server, one))
        .filter((one) => one !== null);
      return { contents: contents as ReadResourceResult["contents"] };
    },
  );
  server.setRequestHandler("prompts/get", async ({ params }, ctx): Promise<GetPromptResult> => {
    const caller = asks(ctx);
    const { connection, name } = await promptOf(caller, params.name);
    const wish = { name, arguments: params.arguments ?? {} };
    const filled = await content.prompt(caller, connection, wish).catch(throwProtocolError);
    const messages = filled.messages.map(({ role, content: block }) => ({
      role: role === "assistant" ? "assistant" : "user",
      content: passedBlock(connection.server, block as Json),
    }));
    return { ...filled, messages: messages as GetPromptResult["messages"] };
  });
  server.setRequestHandler(
    "completion/complete",
    async ({ params: { ref, argument, context } }, ctx): Promise<CompleteResult> => {
      const caller = asks(ctx);
      const settled = context?.arguments;
      const rest = {
        argument,
        ...settled === undefined ? {} : { context: { arguments: settled } },
      };
      const ask = (connection: McpConnection, own: CompletionWish["ref"]) =>
        content.complete(caller, connection, { ref: own, ...rest }).catch(throwProtocolError);
      if (ref.type === "ref/prompt") {
        const { connection, name } = await promptOf(caller, ref.name);
        return { completion: { ...await ask(connection, { type: ref.type, name }) } };
      }
      const { connection, own } = await ownerOf(caller, ref.uri);
      return { completion: { ...await ask(connection, { type: ref.type, uri: own }) } };
    },
  );
}

/** The server that a URI of a client belongs to, and the URI that it knows: by prefix, else by what is listed. */
function findOwner(
  served: readonly Served[],
  uri: string,
): { connection: McpConnection; own: string } | null {
  for (const { connection } of served) {
    const start = outwardUri(connection.server, "");
    if (start !== "" && uri.startsWith(start)) return { connection, own: uri.slice(start.length) };
  }
  const plain = served.filter(({ connection }) => !connection.server.isPrefixed);
  const owner =
    plain.find(({ content: { resources, templates } }) =>
      resources.some((own) => own.uri === uri) ||
      templates.some((own) => own.uriTemplate === uri || fits(own.uriTemplate, uri))
    ) ?? plain[0];
  return owner === undefined ? null : { connection: owner.connection, own: uri };
}

/** Whether a URI begins and ends as a template does. */
function fits(template: string, uri: string): boolean {
  const open = template.indexOf("{");
  if (open < 0) return false;
  const end = template.slice(template.lastIndexOf("}") + 1);
  return uri.startsWith(template.slice(0, open)) && uri.endsWith(end);
}

function inOrder<T>(items: T[], keyOf: (item: T) => string): T[] {
  const byKey = new Map<string, T>();
  for (const item of items) if (!byKey.has(keyOf(item))) byKey.set(keyOf(item), item);
  return [...byKey].sort(([a], [b]) => a < b ? -1 : 1).map(([, item]) => item);
}

function throwProtocolError(error: unknown): never {
  throw toProtocolError(error);
}

function toProtocolError(error: unknown): unknown {
  if (!(error instanceof HubError)) return error;
  const isAsked = error.code === "not_found" || error.code === "invalid_request";
  const code = isAsked ? ProtocolErrorCode.InvalidParams : ProtocolErrorCode.InternalError;
  return new ProtocolError(code, error.message);
}
